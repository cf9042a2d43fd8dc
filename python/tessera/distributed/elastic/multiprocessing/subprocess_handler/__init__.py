"""One worker that is a program."""

import ctypes
import os
import signal
import subprocess

__all__ = ["SubprocessHandler", "get_subprocess_handler"]

_PR_SET_PDEATHSIG = 1


def _end_with_parent():
    """Asks the kernel to kill this process when the thread that started it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class SubprocessHandler:
    """A program that was started, in a session of its own, and that ends with its agent.

    Args:
        entrypoint: its path.
        args: its arguments.
        env: added to the environment.
        stdout: path for its output; empty: this process's.
        stderr: path for its errors; empty: this process's.
        local_rank_id: its number on the machine.
        numa_options: must be None.
    """

    def __init__(self, entrypoint, args, env, stdout, stderr, local_rank_id, numa_options):
        if numa_options is not None:
            raise ValueError("workers cannot be bound to NUMA nodes here; start them with numactl")
        self._stdout, self._stderr = (open(path, "w") if path else None for path in (stdout, stderr))
        self.local_rank_id = local_rank_id
        command = (str(entrypoint), *(str(one) for one in args))
        self.proc = subprocess.Popen(
            command,
            env={**os.environ, **env},
            stdout=self._stdout,
            stderr=self._stderr,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )

    def close(self, death_sig=None):
        """Sends a signal (default: SIGTERM) to it and what it started; closes its files."""
        death_sig = signal.SIGTERM if death_sig is None else death_sig
        try:
            os.killpg(self.proc.pid, death_sig)
        except (ProcessLookupError, PermissionError):
            pass  # it has ended
        for file in (self._stdout, self._stderr):
            if file is not None:
                file.close()


def get_subprocess_handler(entrypoint, args, env, stdout, stderr, local_rank_id, numa_options=None):
    """A SubprocessHandler: starts a program as a worker."""
    return SubprocessHandler(entrypoint, args, env, stdout, stderr, local_rank_id, numa_options)
