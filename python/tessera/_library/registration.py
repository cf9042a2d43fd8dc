"""Kernels around user functions: differentiation, meta tensors, dispatch keys of devices."""

import threading

import tessera
from tessera import _C
from tessera.amp import autocast_mode

_DEVICE_KEYS = {
    "cpu": "CPU",
    "cuda": "CUDA",
    "meta": "Meta",
    "xpu": "XPU",
    "mps": "MPS",
    "hpu": "HPU",
    "mtia": "MTIA",
    "xla": "XLA",
    "ipu": "IPU",
    "vulkan": "Vulkan",
    "lazy": "Lazy",
    "maia": "MAIA",
    "ve": "VE",
    "fpga": "FPGA",
    "privateuseone": "PrivateUse1",
}


def device_key(device_type):
    """The dispatch key of a device type. Raises: RuntimeError for an unknown one."""
    try:
        return _DEVICE_KEYS[device_type]
    except (KeyError, TypeError):
        raise RuntimeError(f"Expected one of {', '.join(_DEVICE_KEYS)} as device type, got {device_type!r}") from None


class below_autograd:
    """Inside the block nothing is recorded, whatever requires a gradient."""

    def __enter__(self):
        self.saved = _C._tls_keys()
        _C._set_tls_keys(self.saved[0], self.saved[1] | _C._autograd_key_bits())

    def __exit__(self, exc_type, exc_value, traceback):
        _C._set_tls_keys(*self.saved)


def tensors_in(values):
    """All tensors among arguments, those in lists too."""
    for value in values:
        if isinstance(value, tessera.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from (v for v in value if isinstance(v, tessera.Tensor))


def _flatten(values):
    """Lists are spread out; the second result says how to put them back."""
    flat, counts = [], []
    for value in values:
        if isinstance(value, (list, tuple)):
            counts.append(len(value))
            flat.extend(value)
        else:
            counts.append(None)
            flat.append(value)
    return flat, counts


def _unflatten(flat, counts):
    flat = iter(flat)
    return tuple(next(flat) if n is None else [next(flat) for _ in range(n)] for n in counts)


class _Call:
    """One recorded call: what the generated Function needs besides tensors."""

    __slots__ = ("keyset", "kwargs", "counts", "out_counts", "single")

    def __init__(self, keyset, kwargs, counts):
        self.keyset, self.kwargs, self.counts = keyset, kwargs, counts


def make_autograd_kernel(op, get_formula):
    """The kernel of the Autograd key. `get_formula()` gives (backward or None, setup_context or None)."""
    from tessera.autograd.function import Function

    has_kwonly = any(a.kwarg_only for a in op._schema.arguments)

    def run(keyset, args, kwargs):
        with below_autograd():
            return op._redispatch(keyset.bits & ~_C._autograd_key_bits(), *args, **kwargs)

    def forward(ctx, call, *flat):
        args = _unflatten(flat, call.counts)
        result = run(call.keyset, args, call.kwargs)
        outputs = result if isinstance(result, tuple) else (result,)
        call.single = not isinstance(result, tuple)
        flat_outputs, call.out_counts = _flatten(outputs)
        ctx.call = call
        ctx.needs_input_grad = _unflatten(ctx.needs_input_grad[1:], call.counts)
        setup = get_formula()[1]
        if setup is not None:
            if has_kwonly:
                setup(ctx, args, call.kwargs, result)
            else:
                setup(ctx, args, result)
        return tuple(flat_outputs)

    def backward(ctx, *grads):
        formula = get_formula()[0]
        if formula is None:
            raise RuntimeError(
                f"Trying to backward through {op} but no autograd formula was registered. Please use register_autograd "
                f"to add one."
            )
        result = formula(ctx, *_unflatten(grads, ctx.call.out_counts))
        result = result if isinstance(result, tuple) else (result,)
        counts = ctx.call.counts
        if len(result) != len(counts):
            raise RuntimeError(
                f"the backward formula of {op} returned {len(result)} gradients, expected {len(counts)}: one for each "
                f"positional input"
            )
        flat = []
        for position, (value, count) in enumerate(zip(result, counts)):
            if count is None:
                flat.append(value)
            elif value is None:
                flat.extend([None] * count)
            elif isinstance(value, (list, tuple)) and len(value) == count:
                flat.extend(value)
            else:
                raise RuntimeError(
                    f"the backward formula of {op} must return None or a list of {count} gradients for input "
                    f"{position}, which is a list; got {value!r}"
                )
        return (None, *flat)

    generated = type(
        f"GeneratedBackwardFor_{op.namespace}_{op._overloadpacket.__name__}_{op._overloadname}",
        (Function,),
        {"forward": staticmethod(forward), "backward": staticmethod(backward)},
    )

    def kernel(keyset, *args, **kwargs):
        if not (_C.is_grad_enabled() and any(t.requires_grad for t in tensors_in((*args, *kwargs.values())))):
            return run(keyset, args, kwargs)
        flat, counts = _flatten(args)
        call = _Call(keyset, kwargs, counts)
        outputs = _unflatten(generated.apply(call, *flat), call.out_counts)
        return outputs[0] if call.single else outputs

    return kernel


class FakeImplCtx:
    """What a fake implementation may ask for."""

    def __init__(self, op):
        self._op = op

    def new_dynamic_size(self, *, min=0, max=None):
        """A size from `min` to `max` that is only known when the operator runs on data: a SymInt. Raises: RuntimeError
        for meta tensors, whose sizes are plain numbers; DynamicOutputShapeException for fake ones without a ShapeEnv.
        """
        from tessera._guards import active_fake_mode

        mode = active_fake_mode()
        if mode is None:
            raise RuntimeError(
                f"{self._op}: the size of the output depends on data, which meta tensors do not have; a size of this "
                f"kind needs symbolic shapes"
            )
        return mode._new_size(self._op, min, max)

    create_unbacked_symint = new_dynamic_size


_current = threading.local()


def get_ctx():
    """The FakeImplCtx of the fake implementation that is running, None outside of one."""
    return getattr(_current, "ctx", None)


def make_fake_kernel(op, function):
    """The kernel of the Meta key."""

    def kernel(*args, **kwargs):
        previous = get_ctx()
        _current.ctx = FakeImplCtx(op)
        try:
            return function(*args, **kwargs)
        finally:
            _current.ctx = previous

    return kernel


def make_autocast_kernel(op, device_type, dtype):
    """The kernel of the Autocast key of a device: casts floating tensors of that device (float64 stays) and runs
    without autocast.
    """

    def kernel(*args, **kwargs):
        with autocast_mode.autocast(device_type, enabled=False):
            return op(*autocast_mode._cast(args, device_type, dtype), **autocast_mode._cast(kwargs, device_type, dtype))

    return kernel
