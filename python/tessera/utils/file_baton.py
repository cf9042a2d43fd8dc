"""A lock between processes: a file that one of them could create."""

import os
import time
import warnings

__all__ = ["FileBaton"]


class FileBaton:
    """Who creates the file holds the baton; the others wait until it is gone.

    Args:
        lock_file_path: of the file.
        wait_seconds: between two looks.
        warn_after_seconds: waits that are longer warn; None: never.
    """

    def __init__(self, lock_file_path, wait_seconds=0.1, warn_after_seconds=None):
        self.lock_file_path, self.wait_seconds = lock_file_path, wait_seconds
        self.warn_after_seconds = warn_after_seconds
        self.fd = None

    def try_acquire(self):
        """Whether this call has created the file."""
        try:
            self.fd = os.open(self.lock_file_path, os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            return False
        return True

    def wait(self):
        """Waits until the file is gone."""
        start, warned = time.monotonic(), False
        while os.path.exists(self.lock_file_path):
            time.sleep(self.wait_seconds)
            waited = time.monotonic() - start
            if self.warn_after_seconds is not None and waited > self.warn_after_seconds and not warned:
                warned = True
                warnings.warn(
                    f"waited {waited:.0f} s for the lock {self.lock_file_path}: if no other process has it, remove it",
                    stacklevel=2,
                )

    def release(self):
        """Removes the file."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None
        os.remove(self.lock_file_path)
