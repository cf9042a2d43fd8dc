"""The older name of `ao.quantization`."""

from tessera._lazy import attach as _attach, keep_functions as _keep_functions
from tessera.ao.quantization import _table

__all__ = sorted(_table)  # noqa: PLE0605
__getattr__, __dir__ = _attach(
    __name__, {name: f":tessera.ao.quantization.{module}" for name, module in _table.items()}
)

# Two functions have the names of the modules that define them. Once a module is loaded, its name here stands for the
# module, unless it is bound again: both are loaded now.
from .fuse_modules import fuse_modules  # noqa: E402
from .quantize import quantize  # noqa: E402

_keep_functions(__name__, "fuse_modules", "quantize")
