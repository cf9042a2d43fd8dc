"""jvp, jacfwd, hessian and linearize: forward mode as a level among the others, in-place writes, custom functions."""

import pytest
import tessera
import tessera.autograd.forward_ad as fwAD
from tessera.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap

close = tessera.testing.assert_close
F64 = tessera.float64


def numbers(*shape, seed=0):
    return tessera.randn(*shape, dtype=F64, generator=tessera.Generator().manual_seed(seed))


def entangled(x):
    """Views, writes through views and to new tensors, and a transposed one."""
    y = x * 2
    y[1] = x[0] * x[1]
    y.view(2, 2).t().mul_(x.view(2, 2))
    z = x.new_zeros(4)
    z[2:] = y[:2] * x[2:]
    z[0] = x.prod()
    return tessera.cat([y, z, z[2:].exp()])


MATRIX = numbers(4, 4, seed=9)


def smooth(x):
    return (MATRIX @ x).sin() * x.sum()


@pytest.mark.parametrize("f", [entangled, smooth])
def test_forward_and_reverse_mode_have_the_same_derivatives(f):
    x, v = numbers(4), numbers(4, seed=1)
    jacobian = jacrev(f)(x)
    close(jvp(f, (x,), (v,)), (f(x), jacobian @ v))
    close(jacfwd(f)(x), jacobian)
    second = jacrev(jacrev(f))(x)
    for derivative in (hessian(f), jacfwd(jacfwd(f)), jacrev(jacfwd(f))):
        close(derivative(x), second)
    close(jvp(lambda x: jvp(f, (x,), (v,))[1], (x,), (v,))[1], second @ v @ v)


@pytest.mark.parametrize("f", [entangled, smooth])
def test_a_jvp_among_other_transforms(f):
    x, v = numbers(4), numbers(4, seed=1)
    rows = numbers(3, 4, seed=2)
    each = tessera.stack([jacrev(f)(r) for r in rows])
    close(vmap(jacfwd(f))(rows), each)
    close(vmap(lambda x: jvp(f, (x,), (v,))[1])(rows), each @ v)
    close(jvp(vmap(f), (rows,), (v.expand(3, 4),))[1], each @ v)
    close(jacfwd(vmap(f))(rows), jacrev(vmap(f))(rows))
    along = lambda x: jvp(f, (x,), (v,))[1].sum()
    slope = grad(lambda x: (jacrev(f)(x) @ v).sum())(x)
    close(grad(along)(x), slope)
    close(vmap(grad(along))(rows)[0], grad(along)(rows[0]))
    leaf = x.clone().requires_grad_()
    along(leaf).backward()
    close(leaf.grad, slope)


def test_a_jvp_inside_of_a_dual_level():
    x, v = numbers(4), numbers(4, seed=1)
    with fwAD.dual_level():
        dual = fwAD.make_dual(x, v)
        inner = jvp(smooth, (dual,), (v,))[1]
        close(fwAD.unpack_dual(inner).tangent, jacrev(jacrev(smooth))(x) @ v @ v)
        # What is captured is a constant of the inner level, with its own tangent outside of it.
        captured = jvp(lambda y: y * dual, (v,), (x,))[1]
        close(fwAD.unpack_dual(captured).tangent, x * v)


def test_constants_have_no_tangent():
    x, w = numbers(3), numbers(3, seed=1)
    close(jvp(lambda x: (x.detach() * x, w, x > 0), (x,), (w,))[1][0], x * w)
    value, tangent = jvp(lambda x: w, (x,), (x,))
    close((value, tangent), (w, tessera.zeros(3, dtype=F64)))
    with pytest.raises(RuntimeError, match="independent of the inputs"):
        jvp(lambda x: (x, w), (x,), (x,), strict=True)
    close(jvp(lambda x: (x, w * x), (x,), (x,), strict=True)[1], (x, w * x))


def test_inputs_are_written_and_tangents_are_not():
    x, v = numbers(3), numbers(3, seed=1)
    kept, before = v.clone(), x.clone()
    value, tangent = jvp(lambda x: x.mul_(x).mul_(2), (x,), (v,))
    close(v, kept, rtol=0, atol=0)
    close((value, tangent), (2 * before**2, 4 * before * kept))
    close(x, value)


def test_memory_made_inside_takes_tangents_of_a_batch():
    def f(x):
        y = tessera.zeros(4, dtype=F64)
        y[0] = x[1]
        y[1:3] = x[:2] * y[0].clone()
        return y.view(2, 2).t() @ x[:2]

    x = numbers(4)
    close(jacfwd(f)(x), jacrev(f)(x))
    close(jacfwd(jacfwd(f))(x), jacrev(jacrev(f))(x))


def test_trees_aux_and_argnums():
    x, y = numbers(2), numbers(2, seed=1)
    f = lambda p, z: ({"sum": p["a"] + z, "product": p["a"] * z}, (p["a"].sum(), "note"))
    out, tangent, (aux, note) = jvp(f, ({"a": x}, y), ({"a": y}, x), has_aux=True)
    close(tangent, {"sum": x + y, "product": y * y + x * x})
    close(aux, x.sum())
    assert note == "note"
    got, (aux, note) = jacfwd(f, argnums=(1, 0), has_aux=True)({"a": x}, y)
    close(got["product"][0], tessera.diag(x))
    close(got["product"][1]["a"], tessera.diag(y))
    close(aux, x.sum())
    assert note == "note"
    assert jacfwd(lambda x: (x * 2, x))(tessera.zeros(0))[0].shape == (0, 0)


def test_randomness_of_jacfwd():
    f = lambda x: x * tessera.rand(3)
    with pytest.raises(RuntimeError, match="randomness"):
        jacfwd(f)(tessera.ones(3))
    same = jacfwd(f, randomness="same")(tessera.ones(3))
    assert (same != 0).sum() == 3


def test_what_is_no_tangent_is_refused():
    x = tessera.ones(3)
    with pytest.raises(ValueError, match="floating point or complex"):
        jvp(lambda x: x, (x.long(),), (x,))
    with pytest.raises(RuntimeError, match="dtype"):
        jvp(lambda x: x, (x,), (x.double(),))
    with pytest.raises(RuntimeError, match="only tensors"):
        jvp(lambda x: 1, (x,), (x,))
    assert not tessera._C._func._levels() and fwAD._is_fwd_grad_enabled()


def test_forward_mode_off_inside_is_respected():
    x = numbers(3)
    with fwAD._set_fwd_grad_enabled(False):
        close(jvp(tessera.sin, (x,), (x,))[1], x.cos() * x)

    def f(x):
        with fwAD._set_fwd_grad_enabled(False):
            return x.sin()

    assert not jvp(f, (x,), (x,))[1].any()


def test_no_grad_does_not_stop_forward_mode():
    x = numbers(3)

    def f(x):
        with tessera.no_grad():
            return x.sin()

    close(jvp(f, (x,), (x,))[1], x.cos() * x)


# --- linearize ---


@pytest.mark.parametrize("f", [entangled, smooth])
def test_linearize_is_the_jacobian(f):
    x = numbers(4)
    value, push = linearize(f, x)
    jacobian = jacrev(f)(x)
    close(value, f(x))
    for seed in (1, 2):
        close(push(numbers(4, seed=seed)), jacobian @ numbers(4, seed=seed))
    close(vmap(push)(tessera.eye(4, dtype=F64)).T, jacobian)
    close(jacfwd(push)(x), jacobian)
    close(vjp(push, x)[1](numbers(*value.shape, seed=3))[0], numbers(*value.shape, seed=3) @ jacobian)


def test_linearize_runs_the_function_once():
    runs = []

    def f(x):
        runs.append(None)
        return smooth(x)

    _, push = linearize(f, numbers(4))
    push(numbers(4, seed=1))
    push(numbers(4, seed=2))
    assert len(runs) == 1


def test_linearize_is_differentiable_at_its_primals():
    x, v = numbers(4).requires_grad_(), numbers(4, seed=1)
    linearize(smooth, x)[1](v).sum().backward()
    close(x.grad, grad(lambda x: (jacrev(smooth)(x) @ v).sum())(x.detach()))


def test_linearize_of_trees_and_constants():
    x, y = numbers(2), numbers(2, seed=1)
    value, push = linearize(lambda p, z: {"product": p["a"] * z, "constant": y * 2}, {"a": x}, y)
    close(push({"a": y}, x), {"product": y * y + x * x, "constant": tessera.zeros(2, dtype=F64)})
    with pytest.raises(RuntimeError, match="same python structure"):
        push(y, x)
    with pytest.raises(RuntimeError, match="shape"):
        push({"a": y}, x[:1])


@pytest.mark.parametrize("f", [lambda x: x * x.sin(), lambda x: x.exp().mul_(2)], ids=["tape", "rerun"])
def test_linearize_notices_that_its_primals_were_written(f):
    x = numbers(3)
    push = linearize(f, x)[1]
    push(x)
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        push(x)


# --- custom functions ---


class Cube(tessera.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x**3, x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def backward(ctx, grad, other):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad + 2 * other

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * tangent, 2 * tangent


class CubeByHand(Cube):
    generate_vmap_rule = False

    @staticmethod
    def vmap(info, in_dims, x):
        return CubeByHand.apply(x), in_dims[0]


@pytest.mark.parametrize("cls", [Cube, CubeByHand])
def test_custom_functions(cls):
    f = lambda x: cls.apply(x.sin())[0] * cls.apply(x)[1]
    plain = lambda x: x.sin() ** 3 * x * 2
    x, v, rows = numbers(4), numbers(4, seed=1), numbers(3, 4, seed=2)
    for d in (jacfwd, jacrev, hessian, lambda f: jacfwd(jacfwd(f)), lambda f: jacrev(jacfwd(f))):
        close(d(f)(x), d(plain)(x))
    close(vmap(jacfwd(f))(rows), vmap(jacrev(plain))(rows))
    close(jacfwd(vmap(f))(rows), jacfwd(vmap(plain))(rows))
    close(vmap(lambda x: jvp(f, (x,), (v,))[1])(rows), vmap(lambda x: jvp(plain, (x,), (v,))[1])(rows))
    close(linearize(f, x)[1](v), jvp(plain, (x,), (v,))[1])


def test_a_custom_function_without_jvp_says_so():
    class Double(tessera.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    with pytest.raises(NotImplementedError, match="implement the jvp function"):
        jvp(Double.apply, (tessera.ones(2),), (tessera.ones(2),))
    assert not tessera._C._func._levels()


def test_modules():
    model = tessera.nn.Sequential(tessera.nn.Linear(3, 4), tessera.nn.LayerNorm(4), tessera.nn.GELU()).double()
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    tangents = {name: numbers(*p.shape, seed=5) for name, p in parameters.items()}
    x = numbers(5, 3)
    f = lambda p: functional_call(model, p, (x,))
    moved = jvp(f, (parameters,), (tangents,))[1]
    jacobian = jacrev(f)(parameters)
    close(moved, sum((jacobian[n] * tangents[n]).flatten(2).sum(2) for n in parameters))
    loss = lambda p, row: functional_call(model, p, (row,)).sum()
    along = lambda row: jvp(lambda p: grad(loss)(p, row), (parameters,), (tangents,))[1]
    close(vmap(along)(x)["1.weight"][2], along(x[2])["1.weight"])
    each = vmap(grad(loss), (None, 0))
    close(jvp(lambda p: each(p, x), (parameters,), (tangents,))[1]["1.weight"], vmap(along)(x)["1.weight"])


# --- autograd.functional ---


def test_functional_jacobian_and_hessian_in_forward_mode():
    from tessera.autograd import functional

    f = lambda a, b: (a.sin() * b.sum(), (a * b).cumsum(0))
    x, y = numbers(3), numbers(3, seed=1)
    forward = dict(strategy="forward-mode", vectorize=True)
    close(functional.jacobian(f, (x, y), **forward), functional.jacobian(f, (x, y)))
    close(functional.jacobian(smooth, numbers(4), **forward), jacrev(smooth)(numbers(4)))
    loss = lambda a, b: (a.sin() * b.exp()).sum() * a.sum()
    outer = dict(outer_jacobian_strategy="forward-mode", vectorize=True)
    close(functional.hessian(loss, (x, y), **outer), functional.hessian(loss, (x, y)))
    close(functional.hessian(lambda a: loss(a, y), x, **outer), functional.hessian(lambda a: loss(a, y), x))
    calls = []
    functional.jacobian(lambda a: calls.append(None) or a * 2, x, **forward)
    assert len(calls) == 1  # all columns at once


# --- dual levels inside of transforms ---


def test_a_dual_level_inside_of_vmap_and_grad():
    x, tangents = numbers(4), tessera.eye(4, dtype=F64)

    def along(t, x=x):
        with fwAD.dual_level():
            dual = fwAD.make_dual(x, t)
            with pytest.raises(RuntimeError, match="same level"):
                fwAD.make_dual(dual, t)
            primal, tangent = fwAD.unpack_dual(smooth(dual))
            close(primal, smooth(x))
            assert fwAD.unpack_dual(x).tangent is None
            return tangent

    close(vmap(along)(tangents).T, jacrev(smooth)(x))
    close(grad(lambda y: along(tangents[0], y).sum())(x), grad(lambda y: jacrev(smooth)(y)[:, 0].sum())(x))
    assert not tessera._C._func._levels() and tessera._C._current_dual_level() == -1
    assert tessera.autograd.gradcheck(
        smooth, (x.requires_grad_(),), check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True
    )


def test_a_dual_level_that_is_left_open_ends_with_its_transform():
    def f(x):
        fwAD.enter_dual_level()
        return x

    with pytest.raises(RuntimeError, match="reverse order"):
        vmap(f)(tessera.ones(2))
    assert not tessera._C._func._levels() and tessera._C._current_dual_level() == -1
    assert vmap(lambda x: x + 1)(tessera.ones(2)).tolist() == [2, 2]
