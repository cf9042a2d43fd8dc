"""cuDNN, which convolutions on CUDA devices use where it is found: the settings, and which version it is."""

import sys

import tessera
from tessera._lazy import attach as _attach
from tessera.backends import _flags, _precision
from tessera.backends.cudnn import rnn as rnn

__getattr__, __dir__ = _attach(__name__)


def version():
    """The version as a number; None without the library."""
    library = _library()
    found = -1 if library is None else library.dnn_version()
    return None if found < 0 else found


def _library():
    from tessera.cuda import _library as loader

    return loader.load()


def is_available():
    """True if the library can be used."""
    return version() is not None


def is_acceptable(tensor):
    """True if the library could work on the tensor."""
    return sys.modules[__name__].enabled and tensor.is_cuda and tensor.dtype in _DTYPES and is_available()


def flags(
    enabled=None, benchmark=None, benchmark_limit=None, deterministic=None, allow_tf32=None, fp32_precision="none"
):
    """Context manager: other settings for a block. fp32_precision: "ieee" or "tf32" for what has no
    precision of its own (conv.fp32_precision, rnn.fp32_precision); "none" leaves it as it is.
    """
    return _flags.changed(
        sys.modules[__name__],
        enabled=enabled,
        benchmark=benchmark,
        benchmark_limit=benchmark_limit,
        deterministic=deterministic,
        allow_tf32=allow_tf32,
        fp32_precision=fp32_precision,
    )


def set_flags(
    _enabled=None, _benchmark=None, _benchmark_limit=None, _deterministic=None, _allow_tf32=None, _fp32_precision="none"
):
    """Sets the given settings; returns the old values of all."""
    given = {
        "enabled": _enabled,
        "benchmark": _benchmark,
        "benchmark_limit": _benchmark_limit,
        "deterministic": _deterministic,
        "allow_tf32": _allow_tf32,
        "fp32_precision": _fp32_precision,
    }
    return _flags.set_given(sys.modules[__name__], given)


def _uses_tf32():
    """Whether convolutions of float32 may round their operands to TF32."""
    return _precision.get("cuda", "conv") == "tf32"


conv = _precision.family("cuda", "conv")
_DTYPES = (tessera.half, tessera.bfloat16, tessera.float, tessera.double)
_flags.install(
    sys.modules[__name__],
    _flags.tell_cuda,
    _precision.of_module(
        "cuda",
        allow_tf32=property(lambda self: _precision.get_dnn_tf32(), lambda self, v: _precision.set_dnn_tf32(v)),
    ),
    enabled=True,
    benchmark=False,
    benchmark_limit=10,
    deterministic=False,
    allow_tf32=True,
)
