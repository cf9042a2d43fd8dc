"""Runs a function in forked processes that form a group."""

import multiprocessing
import os
import pickle
import shutil
import tempfile
import time
import traceback
from datetime import timedelta

import tessera
import tessera.distributed as dist

LIMIT = 60.0  # seconds for one run


def _child(body, rank, world, folder, backend, timeout, pipe):
    try:
        tessera.set_num_threads(1)
        if backend is not None:
            dist.init_process_group(
                backend,
                init_method=f"file://{folder}/store",
                rank=rank,
                world_size=world,
                timeout=timedelta(seconds=timeout),
            )
        reply = pickle.dumps((True, body(rank, world)))
        if dist.is_initialized():
            dist.barrier()
            dist.destroy_process_group()
    except BaseException:
        reply = pickle.dumps((False, traceback.format_exc()))
    pipe.send_bytes(reply)
    pipe.close()


def run(body, world=2, backend="gloo", timeout=20.0, environment=None):
    """[body(rank, world) of every rank]. What a process raises fails the caller; None of one that was killed."""
    context, folder = multiprocessing.get_context("fork"), tempfile.mkdtemp()
    kept, processes, pipes = dict(os.environ), [], []
    os.environ.update({"GLOO_SOCKET_IFNAME": "lo", **(environment or {})})
    try:
        for rank in range(world):
            ours, theirs = context.Pipe(duplex=False)
            arguments = (body, rank, world, folder, backend, timeout, theirs)
            processes.append(context.Process(target=_child, args=arguments, daemon=True))
            processes[-1].start()
            theirs.close()
            pipes.append(ours)
        end = time.monotonic() + LIMIT
        return [_answer(rank, pipe, end) for rank, pipe in enumerate(pipes)]
    finally:
        os.environ.clear()
        os.environ.update(kept)
        for process in processes:
            process.join(5 if process.exitcode is None else 0)
            if process.is_alive():
                process.kill()
                process.join()
        shutil.rmtree(folder)


def _answer(rank, pipe, end):
    assert pipe.poll(max(0.0, end - time.monotonic())), f"rank {rank} hangs"
    try:
        good, value = pickle.loads(pipe.recv_bytes())
    except EOFError:
        return None
    assert good, f"rank {rank}: {value}"
    return value
