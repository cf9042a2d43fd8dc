"""Saving in the background."""

import atexit
from concurrent.futures import Future, ThreadPoolExecutor

__all__ = ["in_process", "in_thread"]

_pool = None


def _submitted(work, *args):
    """Work in one thread, one after the other."""
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
    return _pool.submit(work, *args)


def _save(save, staged, options):
    staged = staged.result() if isinstance(staged, Future) else staged
    return save(staged, **options)


def in_thread(save, staged, options):
    """`save` of a state dict (or of the Future of one) in a thread. Returns: a Future."""
    return _submitted(_save, save, staged, options)


class _Process:
    """A process beside this one, which saves what it is sent. Those of all ranks make a group of their own."""

    def __init__(self, group, save):
        from tessera import multiprocessing
        from tessera.distributed import distributed_c10d as c10d
        from tessera.distributed.elastic.utils.distributed import get_free_port

        rank, size, address = 0, 1, None
        if group is not False:
            rank, size = c10d.get_rank(group), c10d.get_world_size(group)
            box = [get_free_port() if rank == 0 else None]
            c10d.broadcast_object_list(box, group=group, group_src=0)
            address = box[0]
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, save, rank, size, address), daemon=True)
        self.process.start()
        theirs.close()

    def save(self, staged, options):
        staged = staged.result() if isinstance(staged, Future) else staged
        self.pipe.send((staged, options))
        try:
            ok, value = self.pipe.recv()
        except EOFError:
            raise RuntimeError("the process that saves checkpoints has ended") from None
        if not ok:
            raise value
        return value

    def close(self):
        self.pipe.close()
        self.process.join(timeout=10)


def _serve(pipe, save, rank, size, port):
    from tessera.distributed import distributed_c10d as c10d

    if port is not None:
        c10d.init_process_group("gloo", init_method=f"tcp://localhost:{port}", rank=rank, world_size=size)
    while True:
        try:
            staged, options = pipe.recv()
        except EOFError:
            break
        try:
            answer = (True, _save(save, staged, options))
        except BaseException as error:
            answer = (False, error)
        try:
            pipe.send(answer)
        except Exception as error:
            pipe.send((False, RuntimeError(f"{answer[1]!r} cannot be sent: {error}")))


_processes = {}


@atexit.register
def _close_all():
    for process in _processes.values():
        process.close()
    _processes.clear()


def _plain(value):
    """DTensors as what they are made of: another process has other groups."""
    from tessera.distributed.checkpoint._pieces import Piece
    from tessera.distributed.tensor import DTensor
    from tessera.utils import _pytree

    return _pytree.tree_map(lambda v: Piece.of(v) if isinstance(v, DTensor) else v, value)


def in_process(save, staged, options):
    """`save` of a state dict (or of the Future of one) in a process of its own. Returns: a Future."""
    group = False if options["no_dist"] else options["process_group"]
    name = getattr(group, "group_name", group)
    if name not in _processes or not _processes[name].process.is_alive():
        _processes[name] = _Process(group, save)
    process, options = _processes[name], {**options, "process_group": None}
    if isinstance(staged, Future):
        return _submitted(lambda: process.save(_plain(staged.result()), options))
    return _submitted(process.save, _plain(staged), options)
