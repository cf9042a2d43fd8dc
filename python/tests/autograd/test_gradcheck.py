"""gradcheck's options one by one, against functions that break exactly one rule; the Jacobians of its module."""

import importlib

import pytest
import tessera
from tessera.autograd import Function, gradcheck, gradgradcheck
from tessera.autograd.gradcheck import GradcheckError

module = importlib.import_module("tessera.autograd.gradcheck")


def double(*shape, dtype=tessera.float64):
    generator = tessera.Generator().manual_seed(1)
    return tessera.rand(shape, dtype=dtype, generator=generator, requires_grad=True)


class Scaled(Function):
    """2 x, with derivatives of one's own."""

    backward_factor = jvp_factor = 2

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * ctx._forward_cls.backward_factor

    @staticmethod
    def jvp(ctx, t):
        return t * ctx._forward_cls.jvp_factor


class WrongBackward(Scaled):
    backward_factor = 3


class WrongJvp(Scaled):
    jvp_factor = 3


class OnesFromNothing(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, a, b):
        parts = [g * factor for g, factor in ((a, 2), (b, 3)) if g is not None]
        return sum(parts) if parts else tessera.ones(2, dtype=tessera.float64)


class SingleGradient(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g if g.sum().item() > 1e9 else g * 2  # asks for a number


@pytest.mark.parametrize("fast", [False, True])
def test_each_mode_finds_its_own_errors(fast):
    x = (double(3),)
    assert gradcheck(Scaled.apply, x, check_forward_ad=True, fast_mode=fast)
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradcheck(WrongBackward.apply, x, fast_mode=fast)
    assert gradcheck(WrongBackward.apply, x, check_forward_ad=True, check_backward_ad=False, fast_mode=fast)
    with pytest.raises(GradcheckError, match="forward mode"):
        gradcheck(WrongJvp.apply, x, check_forward_ad=True, fast_mode=fast)
    assert gradcheck(WrongJvp.apply, x, fast_mode=fast)


@pytest.mark.parametrize("fast", [False, True])
def test_undefined_gradients(fast):
    with pytest.raises(GradcheckError, match="all output grads are undefined"):
        gradcheck(OnesFromNothing.apply, (double(2),), fast_mode=fast)
    assert gradcheck(OnesFromNothing.apply, (double(2),), check_undefined_grad=False, fast_mode=fast)


@pytest.mark.parametrize("fast", [False, True])
def test_batches_of_gradients(fast):
    assert gradcheck(tessera.mul, (double(2), double(2)), check_batched_grad=True, fast_mode=fast)
    with pytest.raises(GradcheckError, match="While computing batched gradients"):
        gradcheck(SingleGradient.apply, (double(2),), check_batched_grad=True, fast_mode=fast)


@pytest.mark.parametrize("fast", [False, True])
def test_batches_in_forward_mode(fast):
    both = dict(check_forward_ad=True, check_batched_forward_grad=True, fast_mode=fast)
    assert gradcheck(tessera.exp, (double(3),), **both)
    assert gradcheck(lambda a, b: (a @ b, a.sum(), b > 2), (double(2, 3), double(3, 2)), **both)
    assert gradcheck(lambda z: z * z.conj() * z, (double(3, dtype=tessera.complex128),), **both)


@pytest.mark.parametrize("fast", [False, True])
def test_forward_mode_in_fast_mode_takes_all_dtypes(fast):
    z = double(3, dtype=tessera.complex128)
    for f in (lambda z: z.abs(), lambda z: z * 1j, lambda z: (z.real, (z.abs() > 0.5))):
        assert gradcheck(f, (z,), check_forward_ad=True, fast_mode=fast)
    assert gradcheck(tessera.sin, (double(0),), check_forward_ad=True, fast_mode=fast)
    before = z.detach().clone()
    gradcheck(lambda z: z.sin(), (z,), check_forward_ad=True, fast_mode=fast)
    assert tessera.equal(before, z)


def test_functions_without_tensors():
    with pytest.raises(TypeError, match="got int"):
        gradcheck(lambda a: 3, (double(2),))


def test_second_derivatives():
    for options in (dict(check_fwd_over_rev=True), dict(gen_non_contig_grad_outputs=True), dict(fast_mode=True)):
        assert gradgradcheck(lambda x, y: x**3 * y, (double(3), double(3)), **options)


# ---- Jacobians alone ------------------------------------------------------------------------------------------------


def test_numerical_jacobians():
    a, b = double(2), double(2)
    by_a, by_b = module._get_numerical_jacobian(lambda a, b: (a * b, a + 1), (a, b))
    eye, none = tessera.eye(2, dtype=tessera.float64), tessera.zeros(2, 2, dtype=tessera.float64)
    for got, want in zip(by_a + by_b, (b.diag(), eye, a.diag(), none)):
        tessera.testing.assert_close(got, want.detach(), rtol=1e-6, atol=1e-9)
    ((only,),) = module._get_numerical_jacobian(lambda a, b: a * b, (a, b), target=b, eps=1e-5)
    tessera.testing.assert_close(only, a.detach().diag(), rtol=1e-6, atol=1e-9)
    z = double(2, dtype=tessera.complex128)
    ((real,),) = module._get_numerical_jacobian(lambda z: z.abs() ** 2, (z,))
    tessera.testing.assert_close(real, (2 * z).detach().diag(), rtol=1e-6, atol=1e-9)  # d/dx + i d/dy
    ((empty,),) = module._get_numerical_jacobian(lambda x: x.sum(), (double(0),))
    assert empty.shape == (0, 1)
    with pytest.raises(ValueError, match="non-complex"):
        module._get_numerical_jacobian(lambda z: z * 1j, (z,))
    ((along,),) = module._get_numerical_jacobian(lambda x: x * 1j, (a,), is_forward_ad=True)
    assert along.dtype == tessera.complex128


def test_the_old_functions_warn():
    a, b = double(2), double(2)
    with pytest.warns(FutureWarning, match="get_numerical_jacobian"):
        (by_a, by_b) = module.get_numerical_jacobian(lambda inputs: inputs[0] * inputs[1], (a, b))
    with pytest.warns(FutureWarning, match="get_analytical_jacobian"):
        (exact_a, exact_b), same, sizes, types = module.get_analytical_jacobian((a, b), a * b)
    assert (same, sizes, types) == (True, True, True)
    tessera.testing.assert_close(by_a, exact_a, rtol=1e-6, atol=1e-9)
    tessera.testing.assert_close(by_b, exact_b, rtol=1e-6, atol=1e-9)
    with pytest.warns(FutureWarning), pytest.raises(ValueError, match="grad_out to be 1.0"):
        module.get_numerical_jacobian(lambda inputs: inputs[0], (a,), grad_out=2.0)
    with pytest.warns(FutureWarning), pytest.raises(ValueError, match="non-complex"):
        module.get_analytical_jacobian((a,), a * 1j)


def test_analytical_jacobians_notice_what_is_wrong():
    class Jittery(Function):
        calls = 0

        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            Jittery.calls += 1
            return g * 2 + 1e-3 * Jittery.calls

    a = double(2)
    with pytest.warns(FutureWarning):
        _, same, sizes, types = module.get_analytical_jacobian((a,), Jittery.apply(a))
    assert (same, sizes, types) == (False, True, True)


@pytest.mark.parametrize("fast", [False, True])
def test_outputs_without_a_gradient_are_looked_at_where_there_are_no_others(fast):
    x = tessera.ones(2, dtype=tessera.float64, requires_grad=True)
    assert gradcheck(lambda x: (x * 2, x.detach() * 3), (x,), fast_mode=fast)
    with pytest.raises(RuntimeError, match="expected to be zero"):
        gradcheck(lambda x: (x.detach() * 0, x.detach() * 3), (x,), fast_mode=fast)


@pytest.mark.parametrize("fast_mode", [True, False])
def test_functions_see_tensors_that_require_gradients_each_time(fast_mode):
    def those_with_gradients(x):
        results = (x * 2, x.detach(), x.sin())
        results[2].register_hook(lambda g: g)
        return tuple(r for r in results if r.requires_grad)

    x = tessera.ones(2, dtype=tessera.float64, requires_grad=True)
    assert gradcheck(those_with_gradients, (x,), fast_mode=fast_mode)
