"""Saving."""

import inspect
import warnings
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum

from tessera.distributed.checkpoint import _async_executor
from tessera.distributed.checkpoint.default_planner import DefaultSavePlanner
from tessera.distributed.checkpoint.staging import AsyncStager, BlockingAsyncStager
from tessera.distributed.checkpoint.state_dict_loader import _alone, _file_storage, _parameters, _storage
from tessera.distributed.checkpoint.stateful import Stateful
from tessera.distributed.checkpoint.utils import _DistWrapper

__all__ = ["AsyncCheckpointerType", "AsyncSaveResponse", "async_save", "save", "save_state_dict"]


class AsyncCheckpointerType(Enum):
    """What writes in the background: a thread, or a process of its own."""

    THREAD = "thread"
    PROCESS = "process"


@dataclass
class AsyncSaveResponse:
    """What is still to come after `async_save`: the copy, and the checkpoint."""

    staging_completion: Future
    upload_completion: Future


def save(
    state_dict,
    *,
    checkpoint_id=None,
    storage_writer=None,
    planner=None,
    process_group=None,
    no_dist=False,
    use_collectives=True,
):
    """Saves a state dict; all processes call it together. Each writes its pieces; what several have is written once.

    Args:
        state_dict: {name: tensor, DTensor, value, nested dict or list, object with `state_dict`}.
        checkpoint_id: name of the checkpoint; of files the folder.
        storage_writer: StorageWriter; None: FileSystemWriter(checkpoint_id), or for a URL FsspecWriter.
        planner: SavePlanner; None: DefaultSavePlanner().
        process_group: None: the default one.
        no_dist: this process saves alone.
        use_collectives: False: each process saves what it has, with metadata of its own, and nothing is sent.

    Returns: Metadata. Raises: CheckpointException, in all processes, for what goes wrong in one of them; RuntimeError
    if nothing says where to.
    """
    alone = _alone(no_dist)
    writer = _storage("WRITER", storage_writer, checkpoint_id)
    return _save_state_dict(
        _states(state_dict), writer, process_group, no_dist=alone, planner=planner, use_collectives=use_collectives
    )


def _states(state_dict):
    return {key: value.state_dict() if isinstance(value, Stateful) else value for key, value in state_dict.items()}


def save_state_dict(state_dict, storage_writer, process_group=None, coordinator_rank=0, no_dist=False, planner=None):
    """The older form of `save`, for state dicts without objects."""
    storage_writer.reset()
    return _save_state_dict(state_dict, storage_writer, process_group, coordinator_rank, no_dist, planner)


def async_save(
    state_dict,
    *,
    checkpoint_id=None,
    storage_writer=None,
    planner=None,
    process_group=None,
    async_checkpointer_type=AsyncCheckpointerType.THREAD,
    async_stager=None,
    no_dist=False,
    use_collectives=True,
):
    """Copies a state dict to host memory, and saves it while the caller goes on. Arguments as for `save`, and:

    Args:
        process_group: needs a backend for "cpu". What else is sent in it meanwhile must not come in between: better a
            group of its own.
        async_checkpointer_type: AsyncCheckpointerType.
        async_stager: AsyncStager; None: the writer's own, or a copy while the caller waits.

    Returns: a Future of the Metadata; an AsyncSaveResponse if the stager copies in the background, too.
    """
    alone = _alone(no_dist)
    writer = _file_storage("WRITER", checkpoint_id) if storage_writer is None else storage_writer
    stager = async_stager
    if stager is None:
        stager = writer if isinstance(writer, AsyncStager) else BlockingAsyncStager()
    staged = stager.stage(_states(state_dict))
    options = {
        "checkpoint_id": checkpoint_id,
        "storage_writer": storage_writer,
        "planner": planner,
        "process_group": process_group,
        "no_dist": alone,
        "use_collectives": use_collectives,
    }
    run = (
        _async_executor.in_process
        if async_checkpointer_type == AsyncCheckpointerType.PROCESS
        else _async_executor.in_thread
    )
    done = run(save, staged, options)
    if isinstance(staged, Future):
        completion = Future()
        staged.add_done_callback(lambda copy: _complete(completion, copy))
        return AsyncSaveResponse(staging_completion=completion, upload_completion=done)
    if stager.should_synchronize_after_execute:
        stager.synchronize_staging()
    return done


def _complete(future, other):
    if other.exception() is not None:
        future.set_exception(other.exception())
    else:
        future.set_result(None)


def _save_state_dict(
    state_dict,
    storage_writer,
    process_group=None,
    coordinator_rank=0,
    no_dist=False,
    planner=None,
    use_collectives=True,
):
    together = _DistWrapper(process_group, not no_dist, coordinator_rank)
    planner = DefaultSavePlanner() if planner is None else planner
    described = None

    def local_step():
        meta = storage_writer.storage_meta()
        if "storage_meta" not in inspect.signature(planner.set_up_planner).parameters:
            warnings.warn("set_up_planner() of a SavePlanner should take storage_meta", stacklevel=2)
            planner.set_up_planner(state_dict, together.is_coordinator)
        else:
            planner.set_up_planner(state_dict, storage_meta=meta, is_coordinator=together.is_coordinator)
        kinds = _parameters(storage_writer.set_up_storage_writer)
        more = {"rank": together.rank, "use_collectives": use_collectives}
        more = more if any(p.kind is p.VAR_KEYWORD for p in kinds) else {}
        storage_writer.set_up_storage_writer(together.is_coordinator or not use_collectives, **more)
        return storage_writer.prepare_local_plan(planner.create_local_plan())

    def global_step(plans):
        nonlocal described
        plans, described = planner.create_global_plan(plans)
        return storage_writer.prepare_global_plan(plans)

    def write(plan):
        future = storage_writer.write_data(planner.finish_plan(plan), planner)
        future.wait()
        return future.value()

    def finish(results):
        storage_writer.finish(metadata=described, results=results)
        return described

    if not use_collectives:
        (plan,) = global_step([local_step()])
        return finish([write(plan)])
    plan = together.reduce_scatter("plan", local_step, global_step)
    return together.all_reduce("write", lambda: write(plan), finish)
