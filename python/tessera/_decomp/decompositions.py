"""The formulas of the table, under the names of their operators."""

from tessera._decomp import _layers, _pointwise, _reductions, _shapes
from tessera._decomp._layers import *  # noqa: F403
from tessera._decomp._pointwise import *  # noqa: F403
from tessera._decomp._reductions import *  # noqa: F403
from tessera._decomp._shapes import *  # noqa: F403

__all__ = [
    name
    for module in (_layers, _pointwise, _reductions, _shapes)
    for name, value in vars(module).items()
    if getattr(value, "__module__", None) == module.__name__ and not name.startswith("_")
]
