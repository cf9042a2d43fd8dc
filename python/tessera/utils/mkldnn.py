"""Layers over oneDNN's own layout of tensors, which this build does not have: the same layers over plain tensors run
on kernels that choose their layout themselves.
"""

import tessera

__all__ = [
    "MkldnnBatchNorm",
    "MkldnnConv1d",
    "MkldnnConv2d",
    "MkldnnConv3d",
    "MkldnnLinear",
    "MkldnnPrelu",
    "to_mkldnn",
]


def _missing(what):
    return RuntimeError(
        f"{what} needs oneDNN (backends.mkldnn.is_available()), which this build does not use; use the module as it is"
    )


class _MkldnnModule(tessera.nn.Module):
    """A layer made of `dense_module`. Raises: TypeError for another kind of layer, otherwise RuntimeError: this build
    does not use oneDNN.
    """

    _dense: tuple = ()

    def __init__(self, dense_module, dtype=None):
        super().__init__()
        if not isinstance(dense_module, self._dense):
            names = " or ".join(cls.__name__ for cls in self._dense)
            raise TypeError(f"{type(self).__name__}: expected a {names}, but got {type(dense_module).__name__}")
        if dtype not in (None, tessera.float, tessera.bfloat16, tessera.half):
            raise TypeError(f"{type(self).__name__}: expected float32, bfloat16 or float16, but got {dtype}")
        raise _missing(type(self).__name__)


class MkldnnLinear(_MkldnnModule):
    """A Linear over oneDNN's tensors."""

    _dense = (tessera.nn.Linear,)

    def __init__(self, dense_module, dtype):
        super().__init__(dense_module, dtype)


class MkldnnConv1d(_MkldnnModule):
    """A Conv1d over oneDNN's tensors."""

    _dense = (tessera.nn.Conv1d,)

    def __init__(self, dense_module, dtype):
        super().__init__(dense_module, dtype)


class MkldnnConv2d(_MkldnnModule):
    """A Conv2d over oneDNN's tensors."""

    _dense = (tessera.nn.Conv2d,)

    def __init__(self, dense_module, dtype):
        super().__init__(dense_module, dtype)


class MkldnnConv3d(_MkldnnModule):
    """A Conv3d over oneDNN's tensors."""

    _dense = (tessera.nn.Conv3d,)

    def __init__(self, dense_module, dtype):
        super().__init__(dense_module, dtype)


class MkldnnBatchNorm(_MkldnnModule):
    """A BatchNorm2d or BatchNorm3d in evaluation mode over oneDNN's tensors."""

    _dense = (tessera.nn.BatchNorm2d, tessera.nn.BatchNorm3d)

    def __init__(self, dense_module):
        super().__init__(dense_module)


class MkldnnPrelu(_MkldnnModule):
    """A PReLU over oneDNN's tensors."""

    _dense = (tessera.nn.PReLU,)

    def __init__(self, dense_module, dtype):
        super().__init__(dense_module, dtype)


def to_mkldnn(module, dtype=tessera.float):
    """The module with its layers over oneDNN's tensors.

    Args:
        module: in evaluation mode.
        dtype: float32, bfloat16 or float16.

    Raises: TypeError for another dtype or what is no module, otherwise RuntimeError: this build does not use oneDNN.
    """
    if not isinstance(module, tessera.nn.Module):
        raise TypeError(f"to_mkldnn: expected a Module, but got {type(module).__name__}")
    if dtype not in (tessera.float, tessera.bfloat16, tessera.half):
        raise TypeError(f"to_mkldnn: expected float32, bfloat16 or float16, but got {dtype}")
    raise _missing("to_mkldnn")
