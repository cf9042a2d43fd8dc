"""CUDA: whether this build has it, and what its matrix products and attention may do for speed."""

import contextlib

import tessera
from tessera.backends import _flags


def is_built():
    """True if this build can use CUDA, be there a device or not."""
    from tessera.cuda import _library

    return _library.path() is not None


class _MatmulFlags:
    """Settings of matrix products. Raises: AttributeError for another name, RuntimeError for a value that is no bool."""

    __slots__ = ("_values",)

    def __init__(self):
        object.__setattr__(self, "_values", {"allow_fp16_reduced_precision_reduction": True, "allow_bf16_reduced_precision_reduction": True, "allow_fp16_accumulation": False})

    def __getattr__(self, name):
        if name == "allow_tf32":
            return tessera.get_float32_matmul_precision() != "highest"
        if name not in self._values:
            raise AttributeError("Unknown attribute " + name)
        return self._values[name]

    def __setattr__(self, name, value):
        if name != "allow_tf32" and name not in self._values:
            raise AttributeError("Unknown attribute " + name)
        if not isinstance(value, bool):
            raise RuntimeError(f"expected a bool for {name}, but got {type(value).__name__}")
        if name == "allow_tf32":
            tessera.set_float32_matmul_precision("high" if value else "highest")
        else:
            self._values[name] = value
            _flags.tell_cuda()


matmul = _MatmulFlags()

_sdp = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def _switch(kind, name):
    def enabled():
        return _sdp[kind]

    def enable(enabled):
        _sdp[kind] = bool(enabled)

    enabled.__name__, enable.__name__ = f"{name}_enabled", f"enable_{name}"
    enabled.__doc__, enable.__doc__ = f"True if attention may use the kernel '{kind}'.", f"Allows or forbids attention the kernel '{kind}'."
    return enabled, enable


flash_sdp_enabled, enable_flash_sdp = _switch("flash", "flash_sdp")
mem_efficient_sdp_enabled, enable_mem_efficient_sdp = _switch("mem_efficient", "mem_efficient_sdp")
math_sdp_enabled, enable_math_sdp = _switch("math", "math_sdp")
cudnn_sdp_enabled, enable_cudnn_sdp = _switch("cudnn", "cudnn_sdp")


def is_flash_attention_available():
    """True if this build has the kernel."""
    return False


@contextlib.contextmanager
def sdp_kernel(enable_flash=True, enable_math=True, enable_mem_efficient=True, enable_cudnn=True):
    """Deprecated: which kernels attention may use in a block."""
    saved = dict(_sdp)
    _sdp.update(flash=bool(enable_flash), math=bool(enable_math), mem_efficient=bool(enable_mem_efficient), cudnn=bool(enable_cudnn))
    try:
        yield {}
    finally:
        _sdp.update(saved)
