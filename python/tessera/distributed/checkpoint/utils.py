"""Steps that all processes take together, and places in state dicts."""

import tessera
from tessera.distributed import distributed_c10d as c10d
from tessera.distributed.checkpoint.api import CheckpointException, _is_wrapped_exception, _wrap_exception

__all__ = ["find_state_dict_object", "find_tensor_shard"]


def find_tensor_shard(tensor, index):
    """The piece of a tensor, in this process, that a MetadataIndex names. Raises: ValueError if it is not here."""
    if hasattr(tensor, "__get_tensor_shard__"):
        return tensor.__get_tensor_shard__(index)
    if index.offset is not None and any(index.offset):
        raise ValueError(f"'{index.fqn}' is a whole tensor, which has no piece at {index.offset}")
    return tensor


def find_state_dict_object(state_dict, index):
    """The value of a flat state dict, or the piece of a tensor, that a MetadataIndex names.

    Raises: ValueError if it is not here.
    """
    if index.fqn not in state_dict:
        raise ValueError(f"the state dict has no FQN '{index.fqn}'")
    value = state_dict[index.fqn]
    if isinstance(value, tessera.Tensor) or hasattr(value, "__get_tensor_shard__"):
        return find_tensor_shard(value, index)
    if index.offset is not None:
        raise ValueError(f"'{index.fqn}' is a {type(value).__name__}, which has no pieces")
    return value


def _attempt(function, *args):
    try:
        return function(*args)
    except BaseException as error:
        return _wrap_exception(error)


class _DistWrapper:
    """Steps of several processes. What one of them raises is a CheckpointException in all.

    Args:
        group: ProcessGroup; None: the default one.
        use_dist: False: this process alone.
        coordinator_rank: of the group: the process that puts things together.
    """

    def __init__(self, group, use_dist, coordinator_rank):
        self.group, self.use_dist, self.coordinator_rank = group, use_dist, coordinator_rank
        self.rank = c10d.get_rank(group) if use_dist else 0
        self.size = c10d.get_world_size(group) if use_dist else 1
        self.is_coordinator = self.rank == coordinator_rank

    def get_rank(self):
        """The rank in the group."""
        return self.rank

    def get_world_size(self):
        """The number of processes."""
        return self.size

    def gather_object(self, value):
        """A list of all processes' values in the coordinator, None elsewhere."""
        if not self.use_dist:
            return [value]
        out = [None] * self.size if self.is_coordinator else None
        c10d.gather_object(value, out, group=self.group, group_dst=self.coordinator_rank)
        return out

    def all_gather_object(self, value):
        """A list of all processes' values."""
        out = [value]
        if self.use_dist:
            out = [None] * self.size
            c10d.all_gather_object(out, value, group=self.group)
        return out

    def broadcast_object(self, value):
        """The coordinator's value."""
        if not self.use_dist:
            return value
        box = [value]
        c10d.broadcast_object_list(box, group=self.group, group_src=self.coordinator_rank)
        return box[0]

    def scatter_object(self, values):
        """One value for each process, from the coordinator."""
        if not self.use_dist:
            return values[0]
        box = [None]
        c10d.scatter_object_list(box, values, group=self.group, group_src=self.coordinator_rank)
        return box[0]

    def _check(self, step, found):
        failures = {rank: value for rank, value in enumerate(found) if _is_wrapped_exception(value)}
        if failures:
            raise CheckpointException(step, failures)
        return found

    def reduce_scatter(self, step, map_fun, reduce_fun):
        """`map_fun()` everywhere; `reduce_fun(list of results)` in the coordinator gives a list, of which each process
        gets its own.
        """
        gathered, results = self.gather_object(_attempt(map_fun)), None
        if self.is_coordinator:
            results = _attempt(lambda: reduce_fun(self._check(step, gathered)))
            if _is_wrapped_exception(results):
                error = results[0]
                if not isinstance(error, CheckpointException):
                    error = CheckpointException(step, {self.rank: results})
                results = [_wrap_exception(error)] * self.size
        return self._delivered(step, self.scatter_object(results))

    def all_reduce(self, step, map_fun, reduce_fun):
        """`map_fun()` everywhere; `reduce_fun(list of results)` in the coordinator gives what all get."""
        gathered, result = self.gather_object(_attempt(map_fun)), None
        if self.is_coordinator:
            result = _attempt(lambda: reduce_fun(self._check(step, gathered)))
        return self._delivered(step, self.broadcast_object(result))

    def all_gather(self, step, map_fun):
        """The results of `map_fun()` of all processes."""
        return self._check(step, self.all_gather_object(_attempt(map_fun)))

    def broadcast(self, step, map_fun):
        """The result of the coordinator's `map_fun()`."""
        result = _attempt(map_fun) if self.is_coordinator else None
        return self._delivered(step, self.broadcast_object(result))

    def barrier(self):
        """Waits for all."""
        if self.use_dist:
            c10d.barrier(group=self.group)

    def _delivered(self, step, value):
        if not _is_wrapped_exception(value):
            return value
        if isinstance(value[0], CheckpointException):
            raise value[0]
        raise CheckpointException(step, {self.coordinator_rank: value})
