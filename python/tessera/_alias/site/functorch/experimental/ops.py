"""The class of operators whose arguments may be functions."""

from torch._ops import HigherOrderOperator

__all__ = ["HigherOrderOperator"]
