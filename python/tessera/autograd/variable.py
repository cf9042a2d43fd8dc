"""`Variable`, the old name of a tensor that records gradients."""

import tessera
from tessera import _C

__all__ = ["Variable"]


class _Engine:
    """What hooks of distributed code ask of the backward pass."""

    def queue_callback(self, callback):
        """Calls `callback()` once the pass that is under way ends. Raises: RuntimeError outside of one."""
        _C._queue_backward_callback(callback)

    def is_running(self):
        return _C._current_graph_task_id() != -1


class _VariableMeta(type):
    def __instancecheck__(cls, other):
        return isinstance(other, tessera.Tensor)


class Variable(metaclass=_VariableMeta):
    """`Variable(tensor, requires_grad=False)` gives a Tensor on the same storage; every Tensor is an instance."""

    _execution_engine = _Engine()

    def __new__(cls, data=None, requires_grad=False, volatile=None):
        if volatile:
            import warnings

            warnings.warn(
                "volatile was removed and now has no effect. Use `with torch.no_grad():` instead.",
                UserWarning,
                stacklevel=2,
            )
        data = tessera.empty(0) if data is None else data.detach()
        return data.requires_grad_(requires_grad)
