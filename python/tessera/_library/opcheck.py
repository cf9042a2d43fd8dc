"""`library.opcheck`: whether an operator was registered right."""

import importlib.util

import tessera
from tessera import _C
from tessera._library import registration

_NAMES = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


class OpCheckError(Exception):
    """A test of `opcheck` failed."""


def _map(value, f):
    if isinstance(value, tessera.Tensor):
        return f(value)
    return type(value)(_map(v, f) for v in value) if isinstance(value, (list, tuple)) else value


def _copies(args, kwargs):
    def copy(t):
        return t.detach().clone().requires_grad_(t.requires_grad)

    return tuple(_map(a, copy) for a in args), {k: _map(v, copy) for k, v in kwargs.items()}


def _outputs(result):
    return list(registration.tensors_in(result if isinstance(result, tuple) else (result,)))


def _same_values(a, b):
    return (
        a.dtype == b.dtype
        and a.shape == b.shape
        and tessera.allclose(a.detach(), b.detach(), rtol=0, atol=0, equal_nan=True)
    )


def test_schema(op, args, kwargs, tolerance):
    """Arguments that the schema doesn't mark stay as they are; outputs share no memory unless the schema says so."""
    given, given_kw = _copies(args, kwargs)
    before, before_kw = _copies(args, kwargs)
    result = op(*given, **given_kw)
    inputs = {}
    for position, argument in enumerate(op._schema.arguments):
        pairs = (
            (given[position], before[position])
            if position < len(given)
            else (given_kw.get(argument.name), before_kw.get(argument.name))
        )
        for now, old in zip(registration.tensors_in((pairs[0],)), registration.tensors_in((pairs[1],))):
            if not argument.is_write and not _same_values(now, old):
                raise OpCheckError(
                    f"opcheck(op, ...): test_schema failed: argument {argument.name} of {op} was changed, but the "
                    f"schema {op._schema} does not say so"
                )
            if argument.alias_info is None and now.numel():
                inputs[now.untyped_storage()._cdata] = argument.name
    for position, tensor in enumerate(_outputs(result)):
        name = inputs.get(tensor.untyped_storage()._cdata) if tensor.numel() else None
        if name is not None:
            raise OpCheckError(
                f"opcheck(op, ...): test_schema failed: output {position} of {op} shares memory with argument {name}, "
                f"but the schema {op._schema} does not say so"
            )


def test_autograd_registration(op, args, kwargs, tolerance):
    """An operator with inputs that require grad has its derivative at the Autograd key, or is made of operators that
    have one.
    """
    if not any(t.requires_grad for t in registration.tensors_in((*args, *kwargs.values()))):
        return
    name = op.name()
    if any(
        _C._has_op_kernel(name, key) for key in ("Autograd", "AutogradCPU", "AutogradCUDA", "CompositeImplicitAutograd")
    ):
        return
    given, given_kw = _copies(args, kwargs)
    if any(t.requires_grad for t in _outputs(op(*given, **given_kw))):
        raise OpCheckError(
            f"opcheck(op, ...): test_autograd_registration failed: {op} has no kernel at the Autograd key although its "
            f"result requires "
            f"grad. Register one with library.register_autograd, or "
            "make the operator CompositeImplicitAutograd."
        )


def _fake_mode():
    """A mode in which sizes are numbers, except those that depend on values."""
    from tessera._subclasses.fake_tensor import FakeTensorMode

    if importlib.util.find_spec("tessera.fx.experimental.symbolic_shapes") is None:
        return FakeTensorMode()
    from tessera.fx.experimental.symbolic_shapes import ShapeEnv

    return FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True)


def _differs(real, fake):
    """In what a fake output is another one than the real one, or None. Sizes that depend on values may be any."""
    if real.dtype != fake.dtype or real.device != fake.device or real.dim() != fake.dim():
        return True
    known = all(isinstance(n, int) for n in fake.shape)
    if any(isinstance(n, int) and n != m for n, m in zip(fake.shape, real.shape)):
        return True
    return known and real.numel() > 0 and real.stride() != fake.stride()


def test_faketensor(op, args, kwargs, tolerance):
    """On fake tensors the operator gives outputs of the same shape, strides, dtype and device."""
    given, given_kw = _copies(args, kwargs)
    mode = _fake_mode()
    fake_args = tuple(_map(a, mode.from_tensor) for a in given)
    fake_kw = {k: _map(v, mode.from_tensor) for k, v in given_kw.items()}
    with tessera.no_grad():
        real = _outputs(op(*given, **given_kw))
        with mode:
            fake = _outputs(op(*fake_args, **fake_kw))
    if len(real) != len(fake):
        raise OpCheckError(
            f"opcheck(op, ...): test_faketensor failed: {op} has {len(real)} tensor outputs, its fake implementation "
            f"{len(fake)}"
        )
    for position, (r, f) in enumerate(zip(real, fake)):
        if _differs(r, f):
            raise OpCheckError(
                f"opcheck(op, ...): test_faketensor failed: output {position} of {op} has shape {tuple(r.shape)}, "
                f"strides {r.stride()}, {r.dtype}, on {r.device}; its fake implementation gives {tuple(f.shape)}, "
                f"{f.stride()}, {f.dtype}, on {f.device}"
            )


def _with_gradients(op, args, kwargs):
    """The tensors that a call gives, the arguments that it writes to, and the gradients of what requires grad."""
    leaves = [t for t in registration.tensors_in((*args, *kwargs.values())) if t.requires_grad]
    if op._schema.is_mutable:
        leaves = []
    outputs = _outputs(op(*args, **kwargs))
    roots = [o for o in outputs if o.requires_grad]
    if not roots or not leaves:
        return outputs
    grads = tessera.autograd.grad([o.sum() for o in roots], leaves, allow_unused=True)
    return outputs + [g for g in grads if g is not None]


def test_aot_dispatch_dynamic(op, args, kwargs, tolerance):
    """Traced together with its backward pass, on functional tensors, the operator gives the same outputs and gradients,
    and writes the same to its arguments.
    """
    from tessera._subclasses.functional_tensor import functionalized
    from tessera.fx.experimental.proxy_tensor import make_fx

    test_faketensor(op, args, kwargs, tolerance)
    names = list(kwargs)

    def program(*values):
        return _with_gradients(op, values[: len(args)], dict(zip(names, values[len(args) :])))

    def copied():
        given, given_kw = _copies(args, kwargs)
        return [*given, *given_kw.values()]

    def tensors(values):
        return list(registration.tensors_in(tuple(values)))

    traced = make_fx(functionalized(program))(*copied())
    first, second = copied(), copied()
    plain, seen = program(*first), traced(*second)
    tolerance = {"rtol": 1e-5, "atol": 1e-8} if tolerance is None else tolerance
    pairs = [*zip(plain, seen), *zip(tensors(first), tensors(second))]
    if len(plain) != len(seen) or not all(
        p.shape == s.shape and tessera.allclose(p.detach(), s.detach(), equal_nan=True, **tolerance) for p, s in pairs
    ):
        raise OpCheckError(
            f"opcheck(op, ...): test_aot_dispatch_dynamic failed: {op} gives other outputs or gradients, or writes "
            "other numbers, when it is traced than without"
        )


_TESTS = {
    "test_schema": test_schema,
    "test_autograd_registration": test_autograd_registration,
    "test_faketensor": test_faketensor,
    "test_aot_dispatch_dynamic": test_aot_dispatch_dynamic,
}


def opcheck(op, args, kwargs=None, *, test_utils=_NAMES, raise_exception=True, atol=None, rtol=None):
    """Tests that an operator does what its registrations say; returns {name of the test: "SUCCESS"}.

    Args:
        op: a CustomOpDef, an OpOverload, or a packet with one overload.
        test_utils: names of tests, or one name.
        raise_exception: False: the exception is put into the result instead of being raised.
        atol, rtol: tolerances, both or none.

    Raises: ValueError for other operators, names, or one tolerance alone.
    """
    from tessera._library.custom_ops import CustomOpDef
    from tessera._ops import OpOverload, OpOverloadPacket, _resolve

    if (atol is None) != (rtol is None):
        raise ValueError(
            f"opcheck(op, ...): rtol and atol must both be given or both be left out, got rtol={rtol}, atol={atol}"
        )
    names = (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    unknown = set(names) - set(_NAMES)
    if unknown:
        raise ValueError(
            f"opcheck(op, ..., test_utils={test_utils}): expected names from {_NAMES}, got also {sorted(unknown)}"
        )
    if isinstance(op, CustomOpDef):
        op = op._opoverload
    elif not isinstance(op, (OpOverload, OpOverloadPacket)):
        raise ValueError(
            f"opcheck(op, ...): op must be a CustomOpDef, an OpOverload or an OpOverloadPacket, got {type(op).__name__}"
        )
    op = _resolve(op)
    results = {}
    for name in names:
        try:
            _TESTS[name](op, tuple(args), dict(kwargs or {}), None if rtol is None else {"rtol": rtol, "atol": atol})
            results[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(
                    f"opcheck(op, ...): {name} failed with {error} (scroll up for stack trace)"
                ) from error
            results[name] = error
    return results
