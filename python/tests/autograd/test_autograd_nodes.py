"""Nodes of the graph as objects: how long they live, what they show, calling them; what backward says of bad calls."""

import gc
import warnings
import weakref

import pytest
import tessera
from tessera.autograd import Function, backward, grad
from tessera.autograd.graph import allow_mutation_on_saved_tensors, get_gradient_edge, saved_tensors_hooks


class Double(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.factor = 2
        return x * ctx.factor

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * ctx.factor + 0 * x


def leaf(*values):
    return tessera.tensor(values or (1.0, 2.0), requires_grad=True)


# ---- how long nodes of custom functions live ------------------------------------------------------------------------


def test_a_node_outlives_its_output():
    x = leaf()
    node = Double.apply(x).grad_fn  # the output is gone
    assert node.name() == "DoubleBackward"
    assert node.factor == 2 and node.requires_grad
    assert [n.name() for n, _ in node.next_functions] == ["torch::autograd::AccumulateGrad"]
    assert node.saved_tensors[0] is x and len(node._raw_saved_tensors) == 1
    assert node.metadata == {} and node._input_metadata[0].shape == x.shape
    seen = []
    node.register_hook(lambda grads, _: seen.append(grads))
    assert grad(tessera.autograd.graph.GradientEdge(node, 0), x, tessera.ones(2))[0].tolist() == [2, 2]
    assert len(seen) == 1


def test_an_outside_node_found_by_its_neighbours():
    x = leaf()
    (inner, _), *_ = (Double.apply(x) * 3).grad_fn.next_functions
    assert inner.saved_tensors[0] is x
    edge = get_gradient_edge(Double.apply(x))
    assert edge.ownership_token is None
    assert grad(edge, x, tessera.ones(2))[0].tolist() == [2, 2]


def test_node_and_context_change_hands():
    x, kept = leaf(), []
    for _ in range(3):
        y = Double.apply(x)
        for _ in range(4):  # taken, and let go while the graph lives
            node = y.grad_fn
            node.mark = 1
            del node
            assert y.grad_fn.mark == 1
        alive = weakref.ref(y.grad_fn)
        assert alive() is y.grad_fn
        kept.append(y.grad_fn)
        del y
        assert alive() is kept[-1]
        assert kept[-1].saved_tensors[0] is x
        kept.clear()
        assert alive() is None


def test_contexts_in_cycles_are_collected():
    x = leaf()
    y = Double.apply(x)
    node = y.grad_fn
    node.itself = node
    del node
    gc.collect()
    assert y.grad_fn.itself is y.grad_fn  # the graph has it
    node = y.grad_fn
    del y
    alive = weakref.ref(node)
    del node
    gc.collect()
    assert alive() is None


def test_a_long_chain_of_held_nodes():
    y, nodes = leaf(), []
    for _ in range(5000):
        y = Double.apply(y)
        nodes.append(y.grad_fn)
    del y
    while nodes:
        nodes.pop()


def test_arguments_by_keyword():
    class Scale(Function):
        @staticmethod
        def forward(ctx, x, factor=2, power=1):
            ctx.save_for_backward(x)
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * ctx.factor, g * x, None

    x, w = leaf(1.0), leaf(3.0)
    Scale.apply(factor=w, x=x).sum().backward()
    assert x.grad.tolist() == [3] and w.grad.tolist() == [1]
    assert Scale.apply(x, factor=5).tolist() == [5]
    with pytest.raises(TypeError, match="size"):
        Scale.apply(x, size=1)

    class KeywordOnly(Double):
        @staticmethod
        def forward(ctx, x, *, factor=2):
            return x * factor

    with pytest.raises(TypeError, match="factor by keyword only"):
        KeywordOnly.apply(x, factor=3)


def test_what_is_marked_dirty_has_a_new_version():
    class Fill(Function):
        @staticmethod
        def forward(ctx, x):
            x.detach().numpy()[:] = 7  # no operator: nobody else counts
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 0

    x = leaf() * 1
    y, before = x * x, x._version
    assert Fill.apply(x) is x and x._version > before
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    plain = tessera.ones(2)
    before = plain._version
    Fill.apply(plain)
    assert plain._version > before


# ---- calling nodes --------------------------------------------------------------------------------------------------


def test_nodes_can_be_called():
    x, w = leaf(), leaf(3.0, 4.0)
    product = (x * w).grad_fn
    one, two = product(tessera.ones(2))
    assert one.tolist() == [3, 4] and two.tolist() == [1, 2]
    assert (x.exp()).grad_fn(tessera.ones(2)).tolist() == x.exp().tolist()  # one result stands for itself
    assert product(None) == (None, None)
    assert (x * 2).grad_fn(tessera.ones(2))[0].tolist() == [2, 2]
    assert x.unbind()[0].grad_fn(tessera.tensor(5.0), None).tolist() == [5, 0]
    with pytest.raises(TypeError, match="expected 1, got 2"):
        product(tessera.ones(2), tessera.ones(2))
    with pytest.raises(TypeError, match="must be a Tensor or None, not int"):
        product(1)
    with pytest.raises(TypeError, match="no keyword"):
        product(grad=tessera.ones(2))
    product.name()
    (x * w).sum().backward()
    backward_once = (x * w).sum()
    node = backward_once.grad_fn.next_functions[0][0]
    backward_once.backward()
    with pytest.raises(RuntimeError, match="second time"):
        node(tessera.ones(2))


# ---- what they saved ------------------------------------------------------------------------------------------------


def saved(node):
    return {n for n in dir(node) if n.startswith("_saved_")}


def test_saved_sizes_have_the_documented_names():
    x = tessera.rand(3, 4, requires_grad=True)
    assert x.sum(1).grad_fn._saved_self_sym_sizes == (3, 4)
    assert x.mean().grad_fn._saved_self_sym_numel == 12
    assert {"_saved_mat2_sym_strides", "_saved_self_sym_strides"} <= saved((x @ tessera.rand(4, 2)).grad_fn)
    assert (x * 1)[tessera.tensor([0])].grad_fn._saved_self_sym_sizes == (3, 4)
    for node in (x.nansum().grad_fn, x[tessera.tensor([0])].grad_fn, x.split(2, 1)[0].grad_fn, x.softmax(1).grad_fn):
        assert not [n for n in saved(node) if n.endswith(("_options", "_self_sizes", "_self_dtype"))], node


def test_numbers_of_operators_are_not_packed():
    packed = []
    with saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        y = (leaf() * 3).exp() / 2
    assert len(packed) == 1  # the result of exp
    y.sum().backward()


# ---- what backward says ---------------------------------------------------------------------------------------------


def test_the_unused_input_is_named():
    x, other = leaf(), leaf()
    with pytest.raises(RuntimeError, match="at index 1 appears to not have been used"):
        grad(x.sum(), (x, other))
    with pytest.raises(RuntimeError, match="at index 0 appears to not have been used"):
        grad((x * 2), other, tessera.ones(2))
    zeros = grad((x * x).sum(), (x, other), create_graph=True, materialize_grads=True)[1]
    assert zeros.requires_grad and zeros.tolist() == [0, 0]
    assert not grad((x * x).sum(), (x, other), materialize_grads=True)[1].requires_grad


def test_backward_of_nothing():
    with pytest.raises(TypeError, match="None"):
        backward(None)


def test_a_hook_keeps_the_dtype():
    x = tessera.ones(2, dtype=tessera.float64, requires_grad=True)
    x.register_hook(lambda g: g.float())
    with pytest.raises(RuntimeError, match="changed the type of value"):
        (x * 2).sum().backward()
    assert x.grad is None


def test_create_graph_warns_of_the_cycle():
    before = tessera.is_warn_always_enabled()
    tessera.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="cycle of references"):
            leaf().pow(2).sum().backward(create_graph=True)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            grad(leaf().pow(2).sum(), leaf(), create_graph=True, allow_unused=True)
            leaf().pow(2).sum().backward()
    finally:
        tessera.set_warn_always(before)


def test_writes_to_one_of_several_views_name_it():
    with pytest.raises(RuntimeError, match="Output 1 of UnbindBackward0 is a view and is being modified inplace"):
        (leaf() * 1).unbind()[1].add_(1)


def test_the_hint_at_a_modified_tensor():
    def broken():
        x = leaf() * 1
        y = x * x
        x.add_(1)
        y.sum().backward()

    with pytest.raises(RuntimeError, match="enable anomaly detection"):
        broken()
    with warnings.catch_warnings(), tessera.autograd.set_detect_anomaly(True):
        warnings.simplefilter("ignore")
        with pytest.raises(RuntimeError, match="the traceback shown with this error"):
            broken()


def test_outside_of_its_context_a_changed_tensor_is_an_error():
    x = leaf()
    with allow_mutation_on_saved_tensors():
        b = x.clone()
        y = b.sin()
        b.mul_(3)
    with pytest.raises(RuntimeError, match="outside of the 'allow_mutation_on_saved_tensors'"):
        y.sum().backward()


def test_gradients_of_nothing():
    x = leaf()
    with pytest.raises(ValueError, match="non-empty inputs"):
        grad(x.sum(), [])
    assert tessera.autograd.gradcheck(lambda v: (), (x.detach().double().requires_grad_(),))


def test_the_jacobian_of_a_number_in_a_number():
    at = tessera.tensor(0.0)
    assert tessera.autograd.functional.jacobian(tessera.sin, at).shape == ()
    assert tessera.autograd.functional.hessian(tessera.exp, at) == 1
    assert tessera.func.jacrev(tessera.cos)(at) == 0 and tessera.func.jacfwd(tessera.sin)(at) == 1


@pytest.mark.parametrize(
    ("call", "name", "saved"),
    [
        (lambda x: x.fmod(2.0), "FmodBackward0", {}),
        (lambda x: x % 2, "RemainderBackward0", {}),
        (lambda x: x % x.detach(), "RemainderBackward1", {}),
        (lambda x: x.copysign(-1), "CopysignBackward1", {}),
        (lambda x: tessera.xlogy(x, 2.0), "XlogyBackward2", {"other": 2.0}),
        (lambda x: tessera.xlogy(2.0, x), "XlogyBackward1", {"self": 2.0}),
        (lambda x: tessera.special.xlog1py(x, 3), "SpecialXlog1PyBackward2", {"other": 3}),
        (lambda x: x**3.5, "PowBackward0", {"exponent": 3.5}),
        (lambda x: (x * 1).pow_(3), "PowBackward0", {"exponent": 3}),
        (lambda x: 2.0**x, "PowBackward2", {"self": 2.0}),
        (lambda x: x ** tessera.tensor(3.5), "PowBackward1", {"exponent": tessera.tensor(3.5)}),
        (lambda x: x.clamp_min(1), "ClampMinBackward0", {"min": 1}),
        (lambda x: x.clamp_max(tessera.ones(2)), "ClampMaxBackward1", {"max": tessera.ones(2)}),
        (lambda x: x.clamp(max=1), "ClampBackward1", {"max": 1}),
    ],
)
def test_a_node_of_a_plain_number_has_its_own_name(call, name, saved):
    node = call(leaf()).grad_fn
    assert node.name() == type(node).__name__ == name
    for key, value in saved.items():
        found = getattr(node, "_saved_" + key)
        assert type(found) is type(value) and tessera.equal(tessera.as_tensor(found), tessera.as_tensor(value))


def test_a_number_goes_with_its_graph():
    y = leaf() ** 3.5
    y.sum().backward()
    with pytest.raises(RuntimeError, match="freed"):
        y.grad_fn._saved_exponent  # noqa: B018


def test_views_are_not_detached_in_place():
    plain, tracked = tessera.arange(4.0)[1:], (tessera.arange(4.0, requires_grad=True) * 1)[1:]
    for view in (plain, tracked, tracked.view(3, 1)):
        with pytest.raises(RuntimeError, match="Can't detach views in-place"):
            view.detach_()
    assert tracked.detach().detach_().requires_grad is False  # a tensor of its own


def test_a_counter_of_versions_survives_new_data():
    x = tessera.zeros(2)
    x.add_(1)
    x.data = tessera.ones(2)
    twin, part = x.detach(), x[0]
    x.data = tessera.ones(3)
    x.add_(1)
    part.add_(1)
    assert x._version == twin._version == part._version == 3


def test_leaves_of_a_graph_are_swapped_and_the_graph_is_over():
    a, b = leaf(), leaf(3.0, 4.0)
    before = (a * 2).sum()
    tessera.utils.swap_tensors(a, b)
    assert a.tolist() == [3.0, 4.0] and b.tolist() == [1.0, 2.0]
    with pytest.raises(RuntimeError, match="poisoned by swap_tensors"):
        before.backward()
    (a * 3).sum().backward()
    assert a.grad.tolist() == [3.0, 3.0] and b.grad is None
    kept = a * a
    with pytest.raises(RuntimeError, match="Expected use_count of t1 to be 1 or 2 with an AccumulateGrad node"):
        tessera.utils.swap_tensors(a, b)
    del kept
    tessera.utils.swap_tensors(a, b)
    assert b.grad.tolist() == [3.0, 3.0]


def test_modules_are_converted_by_swapping_while_a_graph_lives():
    layer = tessera.nn.Linear(2, 2)
    weight, out = layer.weight, layer(tessera.ones(1, 2))
    tessera.__future__.set_swap_module_params_on_conversion(True)
    try:
        layer.double()
        layer.load_state_dict(tessera.nn.Linear(2, 2).state_dict())
    finally:
        tessera.__future__.set_swap_module_params_on_conversion(False)
    assert layer.weight is weight and weight.dtype == tessera.float64
    with pytest.raises(RuntimeError, match="poisoned by swap_tensors"):
        out.sum().backward()
    layer(tessera.ones(1, 2, dtype=tessera.float64)).sum().backward()
    assert weight.grad.tolist() == [[1.0, 1.0]] * 2
