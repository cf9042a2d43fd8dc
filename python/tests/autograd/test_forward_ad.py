"""tessera.autograd.forward_ad: levels, dual tensors, views and writes, custom functions, both modes at once."""

import threading

import pytest
import tessera
import tessera.autograd.forward_ad as fwAD
from tessera.autograd import functional, gradcheck, gradgradcheck
from tessera.testing import assert_close

DOUBLE = tessera.float64


def randn(*shape, seed=0):
    return tessera.randn(*shape, dtype=DOUBLE, generator=tessera.Generator().manual_seed(seed))


def tangent(tensor):
    return fwAD.unpack_dual(tensor).tangent


def make(*shape, seed=0):
    return fwAD.make_dual(randn(*shape, seed=seed), randn(*shape, seed=seed + 100))


def test_unpacked_is_a_named_tuple():
    x, t = randn(3), randn(3, seed=1)
    with fwAD.dual_level() as level:
        assert level == 0
        unpacked = fwAD.unpack_dual(fwAD.make_dual(x, t))
        assert unpacked._fields == ("primal", "tangent")
        assert unpacked.tangent is t
        assert_close(unpacked.primal, x)
        assert unpacked.primal.data_ptr() == x.data_ptr()
        assert fwAD.unpack_dual(x) == (x, None)
    assert fwAD.unpack_dual(x).tangent is None


def test_level_errors():
    ones = tessera.ones(2)
    with pytest.raises(RuntimeError, match="no level exists"):
        fwAD.make_dual(ones, ones)
    with pytest.raises(RuntimeError, match="no level is open"):
        fwAD.exit_dual_level()
    with fwAD.dual_level():
        with pytest.raises(RuntimeError, match="Nested"):
            fwAD.enter_dual_level()
        with pytest.raises(RuntimeError, match="not the last one"):
            fwAD.exit_dual_level(level=3)
        with pytest.raises(RuntimeError, match="does not nest"):
            fwAD.make_dual(ones, ones, level=1)
        with pytest.raises(RuntimeError, match="different size"):
            fwAD.make_dual(ones, tessera.ones(3))
        with pytest.raises(RuntimeError, match="dtype"):
            fwAD.make_dual(ones, tessera.ones(2, dtype=DOUBLE))
        with pytest.raises(ValueError, match="Expected primal to be floating point"):
            fwAD.make_dual(tessera.ones(2, dtype=tessera.int64), ones)
        with pytest.raises(ValueError, match="Expected tangent to be floating point"):
            fwAD.make_dual(ones, tessera.ones(2, dtype=tessera.int64))
        with pytest.raises(TypeError, match="must be Tensor, not float"):
            fwAD.make_dual(1.0, ones)
        dual = fwAD.make_dual(ones, ones)
        with pytest.raises(RuntimeError, match="same level"):
            fwAD.make_dual(dual, ones)
    with fwAD.dual_level():
        assert tangent(dual) is None and tangent(dual * 2) is None


def test_grad_modes():
    with fwAD.dual_level():
        x = make(3)
        with tessera.no_grad():
            assert tangent(x * 2) is not None
        with tessera.inference_mode():
            assert tangent(x * 2) is None
        with fwAD._set_fwd_grad_enabled(False):
            assert tangent(x * 2) is None
        assert tangent(x * 2) is not None
        assert tangent(x > 0) is None and tangent(x.detach()) is None


def test_printing():
    with fwAD.dual_level():
        dual = fwAD.make_dual(tessera.tensor([1.0, 2.0]), tessera.tensor([3.0, 4.0]))
        assert repr(dual) == "tensor([1., 2.], tangent=tensor([3., 4.]))"
    assert repr(dual) == "tensor([1., 2.])"


# ---- views and writes


def test_views_and_bases_stay_together():
    with fwAD.dual_level():
        x = make(4, 3)
        y = x * 1
        view = y.t()[1:]
        assert_close(tangent(view), tangent(y).t()[1:])
        view.mul_(2)
        assert_close(tangent(view), tangent(y).t()[1:])
        y.add_(randn(4, 3) * x)
        assert_close(tangent(view), tangent(y).t()[1:])
        first, second = y.split(2)
        assert_close(tangent(second), tangent(y)[2:])
        assert_close(tangent(y.unbind()[3]), tangent(y)[3])


def test_a_write_gives_plain_tensors_tangents():
    with fwAD.dual_level():
        x = make(2)
        base = tessera.zeros(4, dtype=DOUBLE)
        earlier = base[2:]
        base[1:3] = x
        assert_close(tangent(base), tessera.cat([tessera.zeros(1), tangent(x), tessera.zeros(1)]).double())
        assert_close(tangent(earlier * 1), tangent(base)[2:])
        base.zero_()
        assert not tangent(base).any() and not tangent(earlier * 1).any()


def test_a_layout_of_its_own_is_copied_for_views():
    x, t = randn(3, 2), randn(2, 3, seed=1).t()
    with fwAD.dual_level():
        dual = fwAD.make_dual(x, t)
        assert_close(tangent(dual.view(6)), t.reshape(6))
        assert_close(tangent(dual), t)


def test_tangents_shared_by_results_are_not_written():
    t = randn(3, seed=1)
    with fwAD.dual_level():
        x = fwAD.make_dual(randn(3), t)
        y = x + 1
        x.mul_(3)
        assert_close(tangent(y), randn(3, seed=1))
        assert_close(tangent(x), 3 * randn(3, seed=1))


def test_writes_that_change_the_shape():
    with fwAD.dual_level():
        x = make(2, 3)
        y = x * 1
        y.t_().unsqueeze_(0)
        assert_close(tangent(y), tangent(x).t()[None])
        y.mul_(2)
        assert_close(tangent(y), 2 * tangent(x).t()[None])


def test_primal_has_no_tangent_in_any_view():
    with fwAD.dual_level():
        y = make(3, 3) * 1
        y.mul_(2)
        primal = fwAD.unpack_dual(y).primal
        assert tangent(primal.t()) is None
        assert_close(tangent(primal[0] * y[1]), primal[0] * tangent(y)[1])


def test_missing_tangents_are_zero():
    with fwAD.dual_level():
        x, c = make(3, 3), randn(3, 3, seed=5)
        assert_close(tangent(tessera.stack([c, x])), tessera.stack([tessera.zeros_like(c), tangent(x)]))
        assert_close(tangent(tessera.where(c > 0, c, x)), tessera.where(c > 0, 0.0, tangent(x)))
        assert_close(tangent(x + c.float()), tangent(x))
        assert_close(tangent(tessera.add(x[0], c)), tangent(x)[0].expand(3, 3))


# ---- with backward


def test_second_derivatives_in_every_order():
    x, u = randn(4).requires_grad_(), randn(4, seed=1)

    def f(v):
        return (v.exp() * v.cumsum(0).tanh()).prod()

    expected = functional.hessian(f, x) @ u
    with fwAD.dual_level():  # forward over reverse
        dual = fwAD.make_dual(x, u)
        (g,) = tessera.autograd.grad(f(dual), dual)
        assert_close(tangent(g), expected)
    with fwAD.dual_level():  # reverse over forward
        (g,) = tessera.autograd.grad(tangent(f(fwAD.make_dual(x, u))), x)
        assert_close(g, expected)


def test_saved_tensor_hooks_keep_tangents():
    x, u = randn(3).requires_grad_(), randn(3, seed=1)
    with fwAD.dual_level(), tessera.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        dual = fwAD.make_dual(x, u)
        (g,) = tessera.autograd.grad((dual**3).exp().sum(), dual)
        assert_close(tangent(g), functional.hvp(lambda v: (v**3).exp().sum(), x, u)[1])


def test_modules():
    layer = tessera.nn.Sequential(tessera.nn.Linear(3, 4), tessera.nn.LayerNorm(4), tessera.nn.GELU()).double()
    x, u = randn(5, 3), randn(5, 3, seed=1)
    with fwAD.dual_level():
        assert_close(tangent(layer(fwAD.make_dual(x, u))), functional.jvp(layer, x, u)[1])


def test_gradcheck():
    x = randn(3).requires_grad_()
    assert gradcheck(lambda v: v.sin().cumsum(0), (x,), check_forward_ad=True)
    assert gradcheck(lambda v: v.sin().cumsum(0), (x,), check_forward_ad=True, check_backward_ad=False)
    assert gradgradcheck(lambda v: v.sin().prod(), (x,), check_fwd_over_rev=True, check_rev_over_rev=False)


# ---- custom functions


class Scale(tessera.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor, y):
        ctx.factor = factor
        ctx.save_for_backward(x, y)
        ctx.save_for_forward(x, y)
        return x * y * factor, x > 0

    @staticmethod
    def backward(ctx, grad, _):
        x, y = ctx.saved_tensors
        return grad * y * ctx.factor, None, grad * x * ctx.factor

    @staticmethod
    def jvp(ctx, x_t, factor_t, y_t):
        assert factor_t is None
        x, y = ctx.saved_tensors
        return (x_t * y + x * y_t) * ctx.factor, None


def test_custom_function():
    x, y = randn(3), randn(3, seed=1)
    with fwAD.dual_level():
        out, sign = Scale.apply(fwAD.make_dual(x, tessera.ones_like(x)), 2.0, y)  # y's tangent: zeros
        assert_close(tangent(out), 2 * y)
        assert tangent(sign) is None
    assert gradcheck(
        lambda a, b: Scale.apply(a, 2.0, b)[0], (x.requires_grad_(), y.requires_grad_()), check_forward_ad=True
    )


def test_custom_function_without_materialized_tangents():
    seen = []

    class Second(tessera.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.set_materialize_grads(False)
            return x + y

        @staticmethod
        def jvp(ctx, x_t, y_t):
            seen.append(y_t)
            return x_t

    with fwAD.dual_level():
        x = make(2)
        out = Second.apply(x, randn(2))
        x.mul_(2)
        assert_close(2 * tangent(out), tangent(x))
    assert seen == [None]


def test_custom_function_in_place():
    class Double(tessera.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def jvp(ctx, x_t):
            return x_t.mul_(2)

    with fwAD.dual_level():
        x = make(3)
        before = tangent(x).clone()
        out = Double.apply(x)
        assert out is x
        assert_close(tangent(x), 2 * before)


def test_custom_function_errors():
    class Wrong(tessera.autograd.Function):
        result = None

        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def jvp(ctx, x_t):
            return Wrong.result(x_t)

    class Without(tessera.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

    with fwAD.dual_level():
        x = make(3)
        for result, error, message in (
            (lambda t: (t, t), RuntimeError, "returned 2 tangents, but forward has 1"),
            (lambda t: t[:2], RuntimeError, "size"),
            (lambda t: t.float(), RuntimeError, "dtype"),
            (lambda t: "t", TypeError, "expected a Tensor or None"),
        ):
            Wrong.result = staticmethod(result)
            with pytest.raises(error, match=message):
                Wrong.apply(x)
        with pytest.raises(NotImplementedError, match="implement the jvp function"):
            Without.apply(x)


@pytest.mark.parametrize("name", ["round", "floor", "ceil", "trunc", "sign"])
def test_steps_have_tangents_of_zeros(name):
    with fwAD.dual_level():
        assert tangent(getattr(tessera, name)(make(3))).tolist() == [0, 0, 0]


def test_threads():
    found = []
    with fwAD.dual_level():
        x = make(3)

        def work():
            with fwAD.dual_level():
                found.append(tangent(fwAD.make_dual(tessera.ones(1), tessera.ones(1)) * 3).item())
            found.append(x * 2)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert found[0] == 3.0
        assert_close(tangent(found[1]), 2 * tangent(x))


def test_tangents_with_a_batch_that_the_primal_has_not():
    x, w = tessera.rand(3, dtype=tessera.float64), tessera.rand(3, 3, dtype=tessera.float64, requires_grad=True)
    tangents = tessera.rand(4, 3, dtype=tessera.float64)

    def along(tangent):
        with fwAD.dual_level():
            dual = fwAD.make_dual(x, tangent)
            primal, tangent = fwAD.unpack_dual((w @ dual).exp())
            return tangent, fwAD.unpack_dual(dual).primal, primal

    got, primals, results = tessera.vmap(along)(tangents)
    assert_close(got, tessera.stack([along(t)[0] for t in tangents]))
    assert all(tessera.equal(p, x) for p in primals)
    assert_close(results, (w @ x).exp().expand(4, 3))
    (gradient,) = tessera.autograd.grad(got.sum(), w)
    (want,) = tessera.autograd.grad(sum(along(t)[0].sum() for t in tangents), w)
    assert_close(gradient, want)
