"""Loading."""

import importlib.util
import inspect
import os
import warnings

from tessera.distributed import distributed_c10d as c10d
from tessera.distributed.checkpoint.default_planner import DefaultLoadPlanner
from tessera.distributed.checkpoint.stateful import Stateful
from tessera.distributed.checkpoint.utils import _DistWrapper

__all__ = ["load", "load_state_dict"]


def _file_storage(kind, path):
    """The reader or writer of a checkpoint of that name. Raises: RuntimeError without a name, and for one that is no
    path.
    """
    from tessera.distributed.checkpoint import filesystem

    if not path:
        raise RuntimeError(f"`checkpoint_id` must be specified if storage_{kind.lower()} is None.")
    cls = getattr(filesystem, f"FileSystem{kind.capitalize()}")
    if not cls.validate_checkpoint_id(path):
        if importlib.util.find_spec("fsspec") is not None:
            from tessera.distributed.checkpoint import _fsspec_filesystem

            cls = getattr(_fsspec_filesystem, f"Fsspec{kind.capitalize()}")
            if cls.validate_checkpoint_id(path):
                return cls(path)
        raise RuntimeError(
            f"Cannot detect which Storage{kind.capitalize()} to use: checkpoint_id={os.fspath(path)!r} is no path of "
            f"this machine, and no URL that the package fsspec, if installed, knows; give a storage_{kind.lower()}"
        )
    return cls(path)


def _storage(kind, given, path):
    if given is None:
        return _file_storage(kind, path)
    given.reset(path)
    return given


def _alone(no_dist):
    """Whether this process works alone. Without a process group it does, which is warned of."""
    alone = no_dist or not (c10d.is_available() and c10d.is_initialized())
    if alone and not no_dist:
        warnings.warn("there is no process group: this process saves or loads alone", stacklevel=3)
    return alone


def load(state_dict, *, checkpoint_id=None, storage_reader=None, planner=None, process_group=None, no_dist=False):
    """Fills a state dict from a checkpoint, in place; all processes call it together.

    Tensors are written into (and converted to their dtypes); other values are replaced; objects with `state_dict` and
    `load_state_dict` get theirs. A tensor may lie otherwise than when it was saved, on another mesh, in another number
    of processes. Values that are no tensors are unpickled: the checkpoint has to come from someone whom you trust.

    Args:
        state_dict: {name: tensor, DTensor, value, nested dict or list, object with a state}.
        checkpoint_id: name of the checkpoint; of files the folder.
        storage_reader: StorageReader; None: FileSystemReader(checkpoint_id), or for a URL FsspecReader.
        planner: LoadPlanner; None: DefaultLoadPlanner().
        process_group: None: the default one.
        no_dist: this process loads alone.

    Raises: CheckpointException, in all processes, for a name that the checkpoint does not have, a tensor of another
    size, and for what goes wrong in one of them; RuntimeError if nothing says which checkpoint.
    """
    alone = _alone(no_dist)
    names = sorted(map(str, state_dict))
    if not alone:
        found = _DistWrapper(process_group, True, 0).all_gather_object(names)
        names = sorted({name for part in found for name in part})
    keys = [key for name in names for key in state_dict if str(key) == name]
    plain = {key: state_dict[key] for key in keys}
    plain = {key: value.state_dict() if isinstance(value, Stateful) else value for key, value in plain.items()}
    reader = _storage("READER", storage_reader, checkpoint_id)
    _load_state_dict(plain, reader, process_group, no_dist=alone, planner=planner)
    for key in keys:
        if isinstance(state_dict[key], Stateful):
            state_dict[key].load_state_dict(plain[key])
        else:
            state_dict[key] = plain[key]


def load_state_dict(state_dict, storage_reader, process_group=None, coordinator_rank=0, no_dist=False, planner=None):
    """The older form of `load`, for state dicts without objects."""
    storage_reader.reset()
    return _load_state_dict(state_dict, storage_reader, process_group, coordinator_rank, no_dist, planner)


def _read_metadata(reader, rank):
    takes_rank = any(p.kind is p.VAR_KEYWORD or p.name == "rank" for p in _parameters(reader.read_metadata))
    return reader.read_metadata(rank=rank) if takes_rank else reader.read_metadata()


def _parameters(function):
    return inspect.signature(function).parameters.values()


def _load_state_dict(state_dict, storage_reader, process_group=None, coordinator_rank=0, no_dist=False, planner=None):
    together = _DistWrapper(process_group, not no_dist, coordinator_rank)
    planner = DefaultLoadPlanner() if planner is None else planner

    def local_step():
        metadata = _read_metadata(storage_reader, together.rank)
        planner.set_up_planner(state_dict, metadata, together.is_coordinator)
        storage_reader.set_up_storage_reader(metadata, together.is_coordinator)
        return storage_reader.prepare_local_plan(planner.create_local_plan())

    def global_step(plans):
        return storage_reader.prepare_global_plan(planner.create_global_plan(plans))

    plan = together.reduce_scatter("plan", local_step, global_step)
    together.all_gather("read", lambda: storage_reader.read_data(planner.finish_plan(plan), planner).wait())
