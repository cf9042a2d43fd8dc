"""Regions in which operators choose their dtypes."""

import functools
import warnings

import tessera
from tessera import _C
from tessera.utils._contextlib import context_decorator

__all__ = ["autocast", "autocast_decorator", "custom_bwd", "custom_fwd", "is_autocast_available"]


def is_autocast_available(device_type):
    """Whether devices of this type ("cpu", "cuda" ...) have autocast. Raises: RuntimeError for an unknown type."""
    return _C._is_autocast_available(device_type)


def _checked(device_type):
    if not isinstance(device_type, str):
        raise ValueError(
            f"device_type is the name of a type of device, such as 'cpu' or 'cuda', but got {device_type!r} "
            f"({type(device_type).__name__})"
        )
    return device_type


def _module_of_custom_device(name):
    """The module that a device of one's own has registered, for the dtypes that it computes in."""
    module = getattr(tessera, name, None)
    if not hasattr(module, "get_amp_supported_dtype"):
        raise AssertionError(
            f"autocast for {name!r} needs a module {tessera._display_name}.{name} with get_amp_supported_dtype(), "
            f"a list of dtypes"
        )
    return module


class autocast:
    """A region of a thread in which operators compute in the dtypes that suit them: matrix products and convolutions in
    `dtype`, sums and losses in float32, others in those of their arguments. A context manager and a decorator; regions
    nest. Results may be of any floating dtype; weights stay as they are, and so do their gradients.

    Args:
        device_type: tensors on which devices are cast: "cpu", "cuda" ...
        dtype: bfloat16 or float16; default get_autocast_dtype(device_type). Another one turns the region off, with a
            warning.
        enabled: False: a region without casts.
        cache_enabled: whether each weight is cast once until the outermost region ends; default as it is outside.

    Raises: ValueError if device_type is no str, RuntimeError for one without autocast.

        >>> a = tessera.ones(2, 2)
        >>> with tessera.autocast("cpu", dtype=tessera.bfloat16):
        ...     (a @ a).dtype, (a + a).dtype
        (tessera.bfloat16, tessera.float32)
    """

    def __init__(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        self.device = _checked(device_type)
        self.fast_dtype, self._enabled, warning = _C._choose_autocast_region(device_type, dtype, enabled)
        kind = device_type.partition(":")[0]
        if self._enabled and kind == "cuda" and not tessera.cuda.is_available():
            self._enabled, warning = False, "autocast is off in this region: there is no CUDA device"
        elif kind == "privateuseone":
            supported = _module_of_custom_device(kind).get_amp_supported_dtype()
            if self._enabled and self.fast_dtype not in supported:
                self._enabled = False
                warning = f"autocast is off in this region: {kind} has it in {supported}, not in {self.fast_dtype}"
        if warning:
            warnings.warn(warning, stacklevel=2)
        self._cache_enabled = _C.is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        if not isinstance(self._cache_enabled, bool):
            raise TypeError(f"cache_enabled must be a bool or None, but got {cache_enabled!r}")
        self._outside = []

    def __enter__(self):
        self._outside.append(
            _C._enter_autocast_region(self.device, self.fast_dtype, self._enabled, self._cache_enabled)
        )
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        _C._leave_autocast_region(self.device, self._outside.pop())
        return False

    def __call__(self, func):
        return autocast_decorator(self, func)


def autocast_decorator(autocast_instance, func):
    """`func`, run in a region like `autocast_instance`, by any number of threads. A generator's caller is outside."""

    def region():
        again = object.__new__(type(autocast_instance))
        again.__dict__.update(autocast_instance.__dict__, _outside=[])
        return again

    return context_decorator(region, func)


def _enter_autocast(*args):
    """Begins a region with the arguments of `autocast`; `_exit_autocast` takes what this returns."""
    return autocast(*args).__enter__()


def _exit_autocast(region):
    region.__exit__(None, None, None)


class _Conditions:
    """Autocast as it is in this thread now, to have it again in another one or later: a context manager."""

    _KINDS = ("cpu", "cuda", "xpu", "privateuseone")

    def __init__(self):
        cache = _C.is_autocast_cache_enabled()
        self._states = [
            (kind, _C.get_autocast_dtype(kind), _C.is_autocast_enabled(kind), cache) for kind in self._KINDS
        ]

    def __enter__(self):
        self._outside = [_C._enter_autocast_region(*state) for state in self._states]

    def __exit__(self, exc_type, exc_value, traceback):
        for kind, outside in zip(reversed(self._KINDS), reversed(self._outside)):
            _C._leave_autocast_region(kind, outside)
        return False


def _cast(value, device_type, dtype):
    """Tensors in `dtype`, at any depth of lists, tuples and dicts; float64, other devices and what is not floating stay
    as they are.
    """
    if isinstance(value, tessera.Tensor):
        castable = value.is_floating_point() and value.dtype != tessera.float64
        return value.to(dtype) if castable and value.device.type == device_type else value
    if isinstance(value, dict):
        return {_cast(key, device_type, dtype): _cast(item, device_type, dtype) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_cast(item, device_type, dtype) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _castable(values, device_type):
    """The dtypes of tensors among `values` that autocast for the device casts."""
    tensors = (v for v in values if isinstance(v, tessera.Tensor) and v.device.type == device_type)
    return {t.dtype for t in tensors if t.is_floating_point() and t.dtype != tessera.float64}


def _call_with_policy(fn, policies, args, kwargs):
    """fn(*args, **kwargs) as an operator with these policies ({type of device: "fp32" or "promote"}) is called."""
    for kind, policy in policies.items():
        dtypes = _castable((*args, *kwargs.values()), kind) if _C.is_autocast_enabled(kind) else ()
        if not dtypes:
            continue
        dtype = next(iter(dtypes)) if policy == "promote" and len(dtypes) == 1 else tessera.float32
        with autocast(kind, enabled=False):
            return fn(*_cast(args, kind, dtype), **_cast(kwargs, kind, dtype))
    return fn(*args, **kwargs)


def custom_fwd(fwd=None, *, device_type, cast_inputs=None):
    """Decorates `forward` of an autograd.Function for regions of autocast; outside of them it changes nothing.

    Args:
        fwd: the static method forward(ctx, *args).
        device_type: as of `autocast`.
        cast_inputs: floating tensors come in this dtype, and forward runs without autocast; None: they come as they
            are, in the region.

    Raises: ValueError if device_type is no str.
    """
    _checked(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(*args, **kwargs):
        enabled = _C.is_autocast_enabled(device_type)
        casts = enabled and cast_inputs is not None
        if args and hasattr(args[0], "needs_input_grad"):
            args[0]._autocast_of_forward = (enabled and not casts, _C.get_autocast_dtype(device_type))
        if not casts:
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(*_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))

    return forward


def custom_bwd(bwd=None, *, device_type):
    """Decorates `backward` of an autograd.Function whose forward has `custom_fwd`: autocast is as it was there.

    Raises: ValueError if device_type is no str.
    """
    _checked(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(ctx, *grads):
        enabled, dtype = getattr(ctx, "_autocast_of_forward", (False, None))
        with autocast(device_type, dtype=dtype, enabled=enabled):
            return bwd(ctx, *grads)

    return backward
