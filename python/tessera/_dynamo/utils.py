"""Counters, and small things that libraries look for here."""

import collections
import functools
import sys
import warnings

from . import config

counters = collections.defaultdict(collections.Counter)
"""{"stats", "graph_break", "frames", ...: {what: how often}}; torch._dynamo.reset() clears it."""


def is_compile_supported(device_type):
    """Whether torch.compile works for tensors of a device: "cpu", "cuda:0" ..."""
    return device_type.partition(":")[0] in ("cpu", "cuda", "meta", "mps", "xpu")


@functools.lru_cache(None)
def warn_once(msg, stacklevel=1):
    """A warning that is given once in a process."""
    warnings.warn(msg, stacklevel=stacklevel + 1)


def disable_cache_limit():
    """Context manager: functions are compiled as often as it takes."""
    return config.patch(recompile_limit=sys.maxsize, accumulated_recompile_limit=sys.maxsize)


def istype(obj, allowed_types):
    """Whether the class of an object is one of some, subclasses not counted."""
    return type(obj) in allowed_types if isinstance(allowed_types, (tuple, list, set)) else type(obj) is allowed_types


def is_compiling():
    """As torch.compiler.is_compiling."""
    import tessera

    return tessera.compiler.is_compiling()


def same(ref, res, tol=1e-4, equal_nan=False):
    """Whether two trees of tensors and numbers are close: differences up to tol * (1 + |ref|)."""
    import tessera
    from tessera.utils import _pytree as pytree

    ours, spec = pytree.tree_flatten(ref)
    theirs, other = pytree.tree_flatten(res)
    if spec != other:
        return False
    for a, b in zip(ours, theirs):
        if isinstance(a, tessera.Tensor):
            if not isinstance(b, tessera.Tensor) or a.shape != b.shape or a.dtype != b.dtype:
                return False
            if not tessera.allclose(a, b, rtol=tol, atol=tol, equal_nan=equal_nan):
                return False
        elif isinstance(a, float) and isinstance(b, float):
            if not (abs(a - b) <= tol * (1 + abs(a)) or a == b or (equal_nan and a != a and b != b)):
                return False
        elif a != b:
            return False
    return True


def clone_input(x):
    """A copy of a tensor with the same strides, of its own in the graph of gradients."""
    import tessera

    with tessera.no_grad():
        return x.detach().clone(memory_format=tessera.preserve_format).requires_grad_(x.requires_grad)


def clone_inputs(example_inputs):
    """clone_input of each tensor of a tuple, list or dict."""
    import tessera

    if isinstance(example_inputs, dict):
        return {k: clone_inputs((v,))[0] for k, v in example_inputs.items()}
    return [clone_input(v) if isinstance(v, tessera.Tensor) else v for v in example_inputs]
