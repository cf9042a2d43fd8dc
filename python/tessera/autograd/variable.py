"""`Variable`, the old name of a tensor that records gradients."""

import tessera

__all__ = ["Variable"]


class _VariableMeta(type):
    def __instancecheck__(cls, other):
        return isinstance(other, tessera.Tensor)


class Variable(metaclass=_VariableMeta):
    """`Variable(tensor, requires_grad=False)` gives a Tensor on the same storage; every Tensor is an instance."""

    def __new__(cls, data=None, requires_grad=False, volatile=None):
        data = tessera.empty(0) if data is None else data.detach()
        return data.requires_grad_(requires_grad)
