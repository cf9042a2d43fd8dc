"""Control flow that graphs keep, under its older names."""

from torch import cond
from torch._higher_order_ops import map
from torch._higher_order_ops.cond import UnsupportedAliasMutationException

__all__ = ["UnsupportedAliasMutationException", "cond", "map"]
