"""CUDA: whether this build has it, and what its matrix products and attention may do for speed."""

import contextlib
import enum
import operator
import os
import warnings

import tessera
from tessera.backends import _flags, _precision


def is_built():
    """True if this build can use CUDA, be there a device or not."""
    from tessera.cuda import _library

    return _library.path() is not None


class cuBLASModule:
    """Settings of matrix products: `matmul` is the one object.

    Raises: AttributeError for another name, RuntimeError for a value that is no bool.
    """

    __slots__ = ("_values",)

    def __init__(self):
        object.__setattr__(
            self,
            "_values",
            {
                "allow_fp16_reduced_precision_reduction": True,
                "allow_bf16_reduced_precision_reduction": True,
                "allow_fp16_accumulation": False,
            },
        )

    def __getattr__(self, name):
        if name in ("allow_tf32", "fp32_precision"):
            return _precision.get_cuda_tf32() if name == "allow_tf32" else _precision.get("cuda", "matmul")
        if name not in self._values:
            raise AttributeError("Unknown attribute " + name)
        return self._values[name]

    def __setattr__(self, name, value):
        if name == "fp32_precision":
            return _precision.set_("cuda", "matmul", value)
        if name != "allow_tf32" and name not in self._values:
            raise AttributeError("Unknown attribute " + name)
        if not isinstance(value, bool):
            raise RuntimeError(f"expected a bool for {name}, but got {type(value).__name__}")
        if name == "allow_tf32":
            return _precision.set_cuda_tf32(value)
        self._values[name] = value
        _flags.tell_cuda()
        return None


matmul = cuBLASModule()


class cuFFTPlanCacheAttrContextProp:
    """An attribute that is read by getter(object) and written by setter(object, value).

    Raises: RuntimeError on writing one without a setter (None).
    """

    def __init__(self, getter, setter):
        self.getter, self.setter = getter, setter
        self.__doc__ = getter.__doc__

    def __get__(self, instance, _owner=None):
        return self if instance is None else self.getter(instance)

    def __set__(self, instance, value):
        if self.setter is None:
            raise RuntimeError("cufft_plan_cache.size cannot be set; max_size limits it, clear() makes it 0")
        self.setter(instance, value)


class cuFFTPlanCache:
    """The plans of cuFFT that are kept for one device: size, max_size and clear()."""

    __slots__ = ("device_index",)

    def __init__(self, device_index):
        self.device_index = device_index

    def _ask(self, name, *args):
        from tessera.cuda import _library

        index = tessera.cuda.current_device() if self.device_index is None else self.device_index
        library = _library.load()
        if library is None:
            tessera.cuda._no_device()
        return getattr(library, name)(index, *args)

    def _size(self):
        """How many plans are kept now. It cannot be set."""
        return self._ask("fft_plan_count")

    def _max_size(self):
        """How many plans are kept at most, those used last; 4096 at first. Raises: RuntimeError for a negative number,
        TypeError for what is no integer.
        """
        return self._ask("fft_plan_limit")

    def _set_max_size(self, value):
        self._ask("set_fft_plan_limit", operator.index(value))

    size = cuFFTPlanCacheAttrContextProp(_size, None)
    max_size = cuFFTPlanCacheAttrContextProp(_max_size, _set_max_size)

    def clear(self):
        """Gives up all plans; they are made again when they are needed."""
        self._ask("clear_fft_plans")


class cuFFTPlanCacheManager(cuFFTPlanCache):
    """cufft_plan_cache: the cache of the current device; that of another one by its index (or a device)."""

    __slots__ = ()

    def __init__(self):
        super().__init__(None)

    def __getitem__(self, device):
        index = tessera.cuda._index(device) if isinstance(device, (str, tessera.device)) else operator.index(device)
        count = tessera.cuda.device_count()
        if not 0 <= index < count:
            raise RuntimeError(f"cufft_plan_cache: expected 0 <= device index < {count}, but got {index}")
        return cuFFTPlanCache(index)


cufft_plan_cache = cuFFTPlanCacheManager()


class _Choice(enum.IntEnum):
    def __repr__(self):
        return f"<{self}: {int(self)}>"

    def __str__(self):
        return f"{type(self).__name__}.{self.name}"


class SDPBackend(_Choice):
    """Implementations of scaled_dot_product_attention: its definition (MATH), and one in blocks (FLASH_ATTENTION, on
    devices also EFFICIENT_ATTENTION and CUDNN_ATTENTION).
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


class _BlasBackend(_Choice):
    """Libraries for matrix products."""

    Default = 0
    Cublas = 1
    Cublaslt = 2
    Ck = 3


class _LinalgBackend(_Choice):
    """Libraries for linear algebra."""

    Default = 0
    Cusolver = 1
    Magma = 2


class _ROCmFABackend(_Choice):
    """Libraries for attention on AMD devices."""

    Default = 0
    AOTriton = 1
    Ck = 2


_blas_names = {
    "default": _BlasBackend.Default,
    "cublas": _BlasBackend.Cublas,
    "hipblas": _BlasBackend.Cublas,
    "cublaslt": _BlasBackend.Cublaslt,
    "hipblaslt": _BlasBackend.Cublaslt,
    "ck": _BlasBackend.Ck,
}
_linalg_names = {
    "default": _LinalgBackend.Default,
    "cusolver": _LinalgBackend.Cusolver,
    "magma": _LinalgBackend.Magma,
}
_rocm_names = {"default": _ROCmFABackend.Default, "aotriton": _ROCmFABackend.AOTriton, "ck": _ROCmFABackend.Ck}
_preferred = {
    _BlasBackend: _BlasBackend.Default,
    _LinalgBackend: _linalg_names["cusolver" if os.environ.get("TORCH_LINALG_PREFER_CUSOLVER") == "1" else "default"],
}
_preferred[_ROCmFABackend] = _ROCmFABackend.Default


def _prefer(kind, names, backend, wrong_type=RuntimeError):
    """The preferred library of a kind, after setting it if one is given by name or as a member of the kind."""
    if backend is not None:
        if isinstance(backend, str) and backend not in names:
            raise RuntimeError(f"Unknown input value {backend!r}. Choose from: {', '.join(names)}.")
        if not isinstance(backend, (str, kind)):
            raise wrong_type(f"Unknown input value {backend!r}. Choose from: {', '.join(names)}.")
        _preferred[kind] = names[backend] if isinstance(backend, str) else backend
    return _preferred[kind]


def preferred_blas_library(backend=None):
    """The library that matrix products on devices should use, after setting it if one is given ("default", "cublas",
    "cublaslt", "ck", "hipblas", "hipblaslt"). It is kept and given back; cuBLAS, which "default" stands for, computes
    whatever is preferred.

    Raises: RuntimeError for another name or type.
    """
    found = _prefer(_BlasBackend, _blas_names, backend)
    return _BlasBackend.Cublas if found is _BlasBackend.Default else found


def preferred_linalg_library(backend=None):
    """The library that linear algebra on CUDA devices uses where it can, after setting it if one is given: "cusolver",
    or "default", with which cuBLAS works on batches of small matrices (LU, inverses, Q R) at once. At first "cusolver"
    if the environment has TORCH_LINALG_PREFER_CUSOLVER=1.

    Raises: RuntimeError for another name or type, and for "magma", which this build has not.
    """
    if backend in ("magma", _LinalgBackend.Magma):
        raise RuntimeError("MAGMA cannot be preferred: this build has no MAGMA. Choose 'default' or 'cusolver'.")
    found = _prefer(_LinalgBackend, _linalg_names, backend)
    if backend is not None:
        _flags.tell_cuda()
    return found


def preferred_rocm_fa_library(backend=None):
    """The library that attention on AMD devices should use, after setting it if one is given ("default", "aotriton",
    "ck"). There are no such devices: it changes nothing else.

    Raises: RuntimeError for another name, ValueError for what is no name.
    """
    return _prefer(_ROCmFABackend, _rocm_names, backend, ValueError)


def is_ck_sdpa_available():
    """False: attention of AMD devices."""
    return False


_sdp = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True, "overrideable": True}
_reduced_sums = False


def _set_sdp(**kinds):
    """Allows or forbids kinds of attention; returns what all were before."""
    before = dict(_sdp)
    _sdp.update({kind: bool(value) for kind, value in kinds.items()})
    tessera._C._set_attention_choice(_sdp["flash"], _sdp["mem_efficient"] or _sdp["cudnn"], _sdp["math"])
    return before


def _switch(kind, name):
    def enabled():
        return _sdp[kind]

    def enable(enabled):
        _set_sdp(**{kind: enabled})

    enabled.__name__, enable.__name__ = f"{name}_enabled", f"enable_{name}"
    enabled.__qualname__, enable.__qualname__ = enabled.__name__, enable.__name__
    enabled.__doc__ = f"True if scaled_dot_product_attention may use the kernel '{kind}'."
    enable.__doc__ = (
        f"Allows or forbids the kernel '{kind}' in scaled_dot_product_attention. The one fused kernel of devices "
        f"answers to 'flash', 'mem_efficient' and 'cudnn'."
    )
    return enabled, enable


flash_sdp_enabled, enable_flash_sdp = _switch("flash", "flash_sdp")
mem_efficient_sdp_enabled, enable_mem_efficient_sdp = _switch("mem_efficient", "mem_efficient_sdp")
math_sdp_enabled, enable_math_sdp = _switch("math", "math_sdp")
cudnn_sdp_enabled, enable_cudnn_sdp = _switch("cudnn", "cudnn_sdp")


def allow_fp16_bf16_reduction_math_sdp(enabled):
    """Allows 16-bit sums where attention is computed by its definition. (They are float32 here, whether this is allowed
    or not.)
    """
    global _reduced_sums
    _reduced_sums = bool(enabled)


def fp16_bf16_reduction_math_sdp_allowed():
    """True if 16-bit sums are allowed where attention is computed by its definition."""
    return _reduced_sums


class _SDPAParams:
    """The arguments of scaled_dot_product_attention: query, key, value, attn_mask, dropout, is_causal, enable_gqa."""

    def __init__(self, query, key, value, attn_mask, dropout, is_causal, enable_gqa):
        for name, t in (("query", query), ("key", key), ("value", value), ("attn_mask", attn_mask)):
            if not isinstance(t, tessera.Tensor) and not (t is None and name == "attn_mask"):
                raise TypeError(f"SDPAParams: {name} must be a Tensor, not {type(t).__name__}")
        self._values = {
            "query": query,
            "key": key,
            "value": value,
            "attn_mask": attn_mask,
            "dropout": float(dropout),
            "is_causal": bool(is_causal),
            "enable_gqa": bool(enable_gqa),
        }

    query, key, value, attn_mask, dropout, is_causal, enable_gqa = (
        property(lambda self, name=name: self._values[name])  # type: ignore[misc]
        for name in ("query", "key", "value", "attn_mask", "dropout", "is_causal", "enable_gqa")
    )


SDPAParams = _SDPAParams


def is_flash_attention_available():
    """True if this build has the fused kernel: where it has a CUDA library."""
    return is_built()


def _obstacle(params, kind):
    """Why the fused kernel cannot serve these arguments under the name `kind`; None if it can."""
    q, k, v, mask = params.query, params.key, params.value, params.attn_mask
    tensors = [q, k, v] + ([] if mask is None else [mask])
    if not _sdp[kind]:
        return f"the kernel '{kind}' is switched off"
    if not all(t.is_cuda for t in tensors):
        return "All tensors need to be on cuda device. Got " + ", ".join(
            f"{n} on device: {t.device}" for n, t in zip(("query", "key", "value", "attn_mask"), tensors)
        )
    if any(t.dim() != 4 for t in (q, k, v)):
        return f"query, key and value must be 4 dimensional, but have {q.dim()}, {k.dim()} and {v.dim()} dimensions"
    if (
        q.dtype not in (tessera.float16, tessera.bfloat16, tessera.float32, tessera.float64)
        or k.dtype != q.dtype
        or v.dtype != q.dtype
    ):
        return f"query, key and value must have one floating dtype, but have {q.dtype}, {k.dtype} and {v.dtype}"
    if params.dropout > 0:
        return "there is no dropout in the fused kernel"
    if mask is not None and mask.requires_grad:
        return "attn_mask requires grad"
    if params.enable_gqa and (k.size(1) == 0 or q.size(1) % k.size(1) or k.size(1) != v.size(1)):
        return f"{k.size(1)} and {v.size(1)} heads of key and value for {q.size(1)} of query"
    return None


def _can_use(kind, name):
    def can_use(params, debug=False):
        obstacle = _obstacle(params, kind)
        if obstacle is not None and debug:
            warnings.warn(obstacle, stacklevel=2)
        return obstacle is None

    can_use.__name__ = can_use.__qualname__ = name
    can_use.__doc__ = (
        f"True if scaled_dot_product_attention can use the fused kernel under the name '{kind}' for these arguments "
        f"(SDPAParams); with debug, a warning says why not."
    )
    return can_use


can_use_flash_attention = _can_use("flash", "can_use_flash_attention")
can_use_efficient_attention = _can_use("mem_efficient", "can_use_efficient_attention")
can_use_cudnn_attention = _can_use("cudnn", "can_use_cudnn_attention")


@contextlib.contextmanager
def sdp_kernel(enable_flash=True, enable_math=True, enable_mem_efficient=True, enable_cudnn=True):
    """Deprecated (torch.nn.attention.sdpa_kernel): which kernels attention may use in a block."""
    warnings.warn(
        "`torch.backends.cuda.sdp_kernel()` is deprecated. In the future, this context manager will be removed. "
        "Please see `torch.nn.attention.sdpa_kernel()` for the new context manager, with updated signature.",
        FutureWarning,
        stacklevel=3,
    )
    saved = _set_sdp(flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn)
    try:
        yield {}
    finally:
        _set_sdp(**saved)
