"""The Python side of autograd: modes, custom functions, gradient checks, functional derivatives, hooks on the graph."""

import pytest
import tessera
from tessera.autograd import Function, functional, gradcheck, graph, gradgradcheck
from tessera.autograd.function import once_differentiable
from tessera.autograd.gradcheck import GradcheckError
from tessera.testing import assert_close


def double(*shape, seed=0):
    return tessera.randn(
        *shape, dtype=tessera.float64, generator=tessera.Generator().manual_seed(seed)
    ).requires_grad_()


class Exp(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * y


class Wrong(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 3


# ---- modes
# ------------------------------------------------------------------------------------------------------------------


def test_modes_as_contexts_functions_and_decorators():
    x = tessera.ones(1, requires_grad=True)
    with tessera.no_grad():
        assert not (x * 2).requires_grad
        with tessera.enable_grad():
            assert (x * 2).requires_grad
    tessera.set_grad_enabled(False)
    assert not tessera.is_grad_enabled()
    tessera.set_grad_enabled(True)

    @tessera.no_grad
    def bare(v):
        return v * 2

    @tessera.set_grad_enabled(False)
    def switched(v):
        return v * 2

    assert tessera.is_grad_enabled() and not bare(x).requires_grad and not switched(x).requires_grad


def test_modes_wrap_each_step_of_a_generator():
    @tessera.no_grad()
    def steps():
        try:
            while True:
                got = yield tessera.is_grad_enabled()
                assert got is None or got == "sent"
        finally:
            closed.append(tessera.is_grad_enabled())

    closed = []
    generator = steps()
    assert next(generator) is False and tessera.is_grad_enabled() and generator.send("sent") is False
    generator.close()
    assert closed == [False] and tessera.is_grad_enabled()


def test_inference_mode():
    with tessera.inference_mode():
        t = tessera.ones(1)
        assert tessera.is_inference_mode_enabled() and t.is_inference()
    with tessera.inference_mode(False):
        assert not tessera.ones(1).is_inference()


# ---- backward and grad
# ------------------------------------------------------------------------------------------------------


def test_gradients_that_cannot_be_implied():
    x = tessera.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        (x * 2).backward(tessera.ones(3))
    with pytest.raises(RuntimeError, match="cannot be empty"):
        x.sum().backward(inputs=[])


@pytest.mark.parametrize(
    "write",
    [
        lambda y, mask, places: y.__setitem__(mask, 1.0),
        lambda y, mask, places: y.__setitem__(mask, tessera.ones(2, dtype=y.dtype)),
        lambda y, mask, places: y.__setitem__(places, tessera.ones(2, dtype=y.dtype)),
        lambda y, mask, places: y.index_put_((places,), tessera.ones(2, dtype=y.dtype)),
        lambda y, mask, places: y.masked_scatter_(mask, tessera.ones(2, dtype=y.dtype)),
        lambda y, mask, places: y.index_add_(0, places, tessera.ones(2, dtype=y.dtype)),
    ],
)
def test_indexed_writes_count_one_version(write):
    mask, places = tessera.tensor([True, False, True, False]), tessera.tensor([0, 2])
    y = double(4).exp()
    version = y._version
    write(y, mask, places)
    assert y._version == version + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_writes_by_mask_take_their_gradients():
    mask = tessera.tensor([[True, False, True], [False, False, True]])
    for value in (double(3), double(1).sum().detach().requires_grad_()):
        x = double(2, 3, seed=1)
        y = x * 2
        y[mask] = value
        assert y[mask].tolist() == value.expand(3).tolist()
        gx, gv = tessera.autograd.grad(y.sum(), (x, value))
        assert gx.tolist() == [[0, 2, 0], [2, 2, 0]]
        assert gv.tolist() == ([1, 1, 1] if value.dim() else 3)


def test_grad_options():
    x, y = double(3), double(3, seed=1)
    with pytest.raises(RuntimeError):
        tessera.autograd.grad(x.sum(), (x, y))
    assert tessera.autograd.grad(x.sum(), (x, y), allow_unused=True)[1] is None
    assert tessera.autograd.grad(x.sum(), (x, y), materialize_grads=True)[1].tolist() == [0, 0, 0]
    (rows,) = tessera.autograd.grad(x * y, x, tessera.eye(3, dtype=tessera.float64), is_grads_batched=True)
    assert_close(rows, tessera.diag(y.detach()))


# ---- custom functions
# -------------------------------------------------------------------------------------------------------


def test_custom_function_and_its_node():
    x = double(3)
    y = Exp.apply(x)
    assert y.grad_fn.name() == "ExpBackward" and isinstance(y.grad_fn, graph.Node)
    assert gradcheck(Exp.apply, (x,)) and gradgradcheck(Exp.apply, (x,))
    with pytest.raises(RuntimeError):
        Exp()(x)


def test_setup_context_with_defaults():
    class Scale(Function):
        @staticmethod
        def forward(x, factor=3.0):
            return x * factor

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.factor = inputs[1]

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.factor, None

    x = double(2)
    Scale.apply(x).sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_once_differentiable():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            return 2 * grad * ctx.saved_tensors[0]

    x = double(1)
    (g,) = tessera.autograd.grad(Square.apply(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()


# ---- gradcheck
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fast", [False, True])
def test_gradcheck_accepts_right_and_rejects_wrong(fast):
    assert gradcheck(lambda a, b: (a @ b).tanh(), (double(2, 3), double(3, 2, seed=1)), fast_mode=fast)
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0"):
        gradcheck(Wrong.apply, (double(2),), fast_mode=fast)
    assert gradcheck(Wrong.apply, (double(2),), raise_exception=False, fast_mode=fast) is False


def test_gradcheck_finds_broken_rules():
    class Constant(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return grad + 1e-9  # right within tolerance, but not linear in grad

    with pytest.raises(GradcheckError, match="not multiplied by grad_output"):
        gradcheck(Constant.apply, (double(2),))

    class Jittery(Function):
        calls = 0

        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            Jittery.calls += 1
            return grad * (1 + 1e-7 * Jittery.calls)

    with pytest.raises(GradcheckError, match="not reentrant"):
        gradcheck(Jittery.apply, (double(2),))


def test_gradcheck_arguments():
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        gradcheck(tessera.sin, (tessera.ones(2),))
    with pytest.warns(UserWarning, match="double precision"):
        gradcheck(tessera.sin, (tessera.ones(2, requires_grad=True),), raise_exception=False)
    x = double(1).detach().expand(3).requires_grad_()
    with pytest.raises(RuntimeError, match="stride 0"):
        gradcheck(tessera.sin, (x,))


def test_gradcheck_leaves_inputs_as_they_were():
    x = double(2, 2)
    before = x.detach().clone()
    gradcheck(tessera.sin, (x,))
    gradcheck(tessera.sin, (x,), fast_mode=True)
    assert tessera.equal(x.detach(), before)


# ---- functional
# -------------------------------------------------------------------------------------------------------------


def test_jacobian_and_products():
    def f(x, y):
        return x.exp() * y, x.sum()

    x, y = double(3), double(3, seed=1)
    jac = functional.jacobian(f, (x, y))
    assert_close(jac[0][0], tessera.diag((x.exp() * y).detach()))
    assert jac[1][1].tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="independent of input 1"):
        functional.jacobian(f, (x, y), strict=True)
    v = double(3, seed=2).detach()
    assert_close(functional.jvp(lambda a: a.exp(), x, v)[1], x.detach().exp() * v)
    assert_close(functional.vjp(lambda a: a.exp(), x, v)[1], x.detach().exp() * v)


def test_hessian_and_products():
    def f(x):
        return (x**3).sum() + x.prod()

    x, v = double(3), double(3, seed=1).detach()
    h = functional.hessian(f, x)
    assert_close(h, h.t())
    assert_close(functional.hvp(f, x, v)[1], h @ v)
    assert_close(functional.vhp(f, x, v)[1], v @ h)
    with pytest.raises(RuntimeError, match="single element"):
        functional.hessian(lambda a: a * 2, x)


# ---- graph
# ------------------------------------------------------------------------------------------------------------------


def test_saved_tensor_hooks_and_their_switch():
    x = double(2)
    seen = []
    with graph.saved_tensors_hooks(lambda t: seen.append("pack") or t.detach(), lambda t: seen.append("unpack") or t):
        y = x.exp()
    y.sum().backward()
    assert seen == ["pack", "unpack"]
    with graph.disable_saved_tensors_hooks("not here"), pytest.raises(RuntimeError, match="not here"):
        with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            x.exp()


def test_gradient_edges():
    x = double(2)
    y = x * 2
    edge = graph.get_gradient_edge(y)
    assert edge.node is y.grad_fn and edge.output_nr == 0
    (g,) = tessera.autograd.grad((y**2).sum(), edge)
    assert_close(g, 2 * y.detach())
    assert graph.get_gradient_edge(x).node.name() == "torch::autograd::AccumulateGrad"
    with pytest.raises(RuntimeError):
        graph.get_gradient_edge(tessera.ones(1))


def test_multi_grad_hook_modes():
    a, b = double(1), double(1, seed=1)
    seen = []
    handle = graph.register_multi_grad_hook((a, b), lambda grads: seen.append([g is not None for g in grads]))
    (a * b).sum().backward()
    handle.remove()
    (a * b).sum().backward()
    assert seen == [[True, True]]
    with pytest.raises(ValueError):
        graph.register_multi_grad_hook((a,), lambda g: None, mode="some")


def test_nodes_are_one_object_while_they_live():
    x = double(2)
    y = (x * 2).exp()
    assert y.grad_fn is y.grad_fn and y.grad_fn.next_functions[0][0] is y.grad_fn.next_functions[0][0]
    assert (
        repr(y.grad_fn).startswith("<ExpBackward0 object at 0x")
        and y.grad_fn._sequence_nr() > y.grad_fn.next_functions[0][0]._sequence_nr()
    )
    assert y.grad_fn._input_metadata[0].shape == (2,)
    y.sum().backward()  # looking at nodes does not free what they saved
    with pytest.raises(AttributeError):
        y.grad_fn._saved_nothing


@pytest.mark.parametrize(
    "hook,error",
    [(lambda g: 3, TypeError), (lambda g: g.new_ones(5), RuntimeError), (lambda g: 1 / 0, ZeroDivisionError)],
)
def test_hooks_that_fail(hook, error):
    x = double(2)
    y = x * 2
    handle = y.register_hook(hook)
    with pytest.raises(error):
        y.sum().backward(retain_graph=True)
    handle.remove()
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2, 2]
    with pytest.raises(TypeError):
        x.register_hook(3)


def test_a_result_that_became_a_leaf_has_the_hooks_of_a_leaf():
    y = double(2) * 2
    y.retain_grad()
    y.detach_().requires_grad_()
    seen = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    (y * 3).sum().backward()
    assert seen == [[3, 3]] and y.grad.tolist() == [3, 3] and not y.retains_grad


def test_an_edge_keeps_a_custom_node_alive():
    x = double(2)
    edge = graph.get_gradient_edge(Exp.apply(x).sum())
    inner = graph.get_gradient_edge(Exp.apply(x))
    tessera.autograd.backward(edge)
    tessera.autograd.backward(inner, tessera.ones(2, dtype=tessera.float64))
    assert_close(x.grad, 2 * x.detach().exp())


def test_anomaly_mode_names_the_forward_call():
    class Fails(Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            raise KeyError("inside")

    def the_forward_call(x):
        return Fails.apply(x)

    with tessera.autograd.set_detect_anomaly(True):
        y = the_forward_call(double(2)).sum()
        with pytest.warns(UserWarning, match="the_forward_call"), pytest.raises(KeyError, match="inside"):
            y.backward()


def test_context_lets_go_with_the_graph():
    import gc
    import weakref

    class Holder:
        pass

    class Keeps(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.holder = Holder()
            refs.append(weakref.ref(ctx.holder))
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    refs = []
    y = Keeps.apply(double(1))
    assert refs[0]() is not None
    del y
    gc.collect()
    assert refs[0]() is None


def test_mutation_on_saved_tensors_keeps_nothing_of_freed_graphs():
    with tessera.autograd.graph.allow_mutation_on_saved_tensors() as state:
        x = tessera.ones(3, requires_grad=True)
        for i in range(50):
            y = x.clone()
            loss = (y * y).sum()
            y.mul_(2)  # the product has saved it
            del y
            if i % 2:
                (g,) = tessera.autograd.grad(loss, x)
                assert g.tolist() == [2.0] * 3
            del loss
        assert sum(len(group) for group in state.saved.values()) == 0


def test_atan2_has_no_slope_at_the_origin():
    y, x = tessera.tensor([0.0, 1.0], requires_grad=True), tessera.tensor([0.0, 1.0], requires_grad=True)
    tessera.atan2(y, x).sum().backward()
    assert y.grad.tolist() == [0, 0.5] and x.grad.tolist() == [0, -0.5]


def test_the_dtype_of_a_leafs_gradient():
    class Halved(tessera.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad.to(tessera.bfloat16)

    for dtype, wanted in (
        (tessera.float64, tessera.float64),
        (None, tessera.bfloat16),
        (tessera.float32, tessera.float32),
    ):
        x = tessera.ones(2, requires_grad=True)
        assert x.grad_dtype == tessera.float32
        seen = []
        x.register_hook(lambda g, seen=seen: seen.append(g.dtype))
        y = Halved.apply(x)  # made before: what counts is the dtype when the gradient arrives
        x.grad_dtype = dtype
        assert x.grad_dtype == dtype
        for total in (1.0, 2.0):
            y.sum().backward(retain_graph=True)
            assert x.grad.dtype == wanted and x.grad.tolist() == [total, total]
        assert tessera.autograd.grad(y.sum(), x)[0].dtype == wanted
        assert seen == [wanted] * 3


def test_the_dtype_of_gradients_is_of_leaves_and_refuses_others():
    x = tessera.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        (x * 2).grad_dtype  # noqa: B018
    with pytest.raises(RuntimeError, match="leaf"):
        (x * 2).grad_dtype = None
    with pytest.raises(RuntimeError, match="must be a torch.dtype or None"):
        x.grad_dtype = 5
    with pytest.raises(RuntimeError, match="grad_dtype"):
        x.grad = tessera.ones(2, dtype=tessera.float64)
    x.grad_dtype = tessera.float64
    x.grad = tessera.ones(2, dtype=tessera.float64)
    with pytest.raises(RuntimeError, match="already a gradient"):
        x.grad_dtype = tessera.float32
    x.grad_dtype = None
    x.grad = tessera.ones(2)
    assert x.grad.dtype == tessera.float32 and x.detach().grad_dtype == tessera.float32


def test_a_hook_can_be_removed_after_the_dtype_is_set():
    x, seen = tessera.ones(2, requires_grad=True), []
    before = x.register_hook(lambda g: seen.append("before"))
    after = x.register_post_accumulate_grad_hook(lambda t: seen.append("after"))
    x.grad_dtype = tessera.float64
    x.sum().backward()
    assert seen == ["before", "after"]
    before.remove()
    after.remove()
    x.sum().backward()
    assert seen == ["before", "after"] and x.grad.dtype == tessera.float64


def test_a_leaf_can_be_detached_in_place():
    x = tessera.ones(2, requires_grad=True)
    assert x.detach_() is x and x.is_leaf and not x.requires_grad
    y = tessera.ones(2, requires_grad=True) * 2
    version = y._version
    assert y.detach_().grad_fn is None and not y.requires_grad and y._version == version


def test_numpy_without_recording():
    x = tessera.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="requires grad"):
        x.numpy()
    with tessera.no_grad():
        assert x.numpy().tolist() == [1, 1]


def test_leaves_that_are_views_refuse_writes():
    x = tessera.arange(6.0).reshape(2, 3).requires_grad_()
    for write in (lambda: x.mul_(2), lambda: x.copy_(tessera.ones(2, 3)), lambda: x[0].zero_(), x.normal_):
        with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
            write()
    assert x.is_leaf
    with tessera.no_grad():
        x.mul_(2)
    (x * x).sum().backward()
    assert x.grad.tolist() == [[0, 4, 8], [12, 16, 20]]
    y = tessera.arange(6.0).reshape(2, 3)
    y.mul_(tessera.ones((), requires_grad=True))
    assert not y.is_leaf
