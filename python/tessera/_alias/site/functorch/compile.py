"""The older name of what compiles functions ahead of time, in programs that run under `python -m tessera`."""

from torch._functorch.aot_autograd import (  # noqa: F401
    aot_function,
    aot_module,
    aot_module_simplified,
    compiled_function,
    compiled_module,
    make_boxed_compiler,
    make_boxed_func,
)
from torch._functorch.compilers import nop, print_compile  # noqa: F401
from torch._functorch.partitioners import *  # noqa: F403
