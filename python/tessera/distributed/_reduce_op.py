"""`reduce_op`, the old name of ReduceOp."""

import warnings

from tessera.distributed._kinds import ReduceOp


class _Deprecated(type):
    def __getattr__(cls, name):
        if name not in ("SUM", "PRODUCT", "MIN", "MAX"):
            raise AttributeError(f"reduce_op has no {name}; use ReduceOp")
        warnings.warn("torch.distributed.reduce_op is deprecated; use torch.distributed.ReduceOp", FutureWarning, 2)
        return getattr(ReduceOp, name)


class reduce_op(metaclass=_Deprecated):
    """The old name of ReduceOp, with SUM, PRODUCT, MIN and MAX."""
