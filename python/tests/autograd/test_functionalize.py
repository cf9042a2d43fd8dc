"""func.functionalize: the same results and the same writes to arguments, by operators that write to nothing."""

import pytest
import tessera
from tessera.func import functionalize, grad, jvp, vmap
from tessera.utils._python_dispatch import TorchDispatchMode

close = tessera.testing.assert_close
MODES = ["mutations", "mutations_and_views"]


class Calls(TorchDispatchMode):
    """The operators that are called underneath."""

    def __init__(self):
        super().__init__()
        self.schemas = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.schemas.append(func._schema)
        return func(*args, **(kwargs or {}))

    @property
    def names(self):
        return [schema.name.split("::")[1] for schema in self.schemas]


def views(a):
    b = a.view(-1)
    b.add_(1)
    c = b[1:]
    c.mul_(2)
    return b, c, a + 1


def transposed(a):
    b = a.clone()
    b.t()[0].fill_(3)
    b.transpose(0, 1)[1:].copy_(a.permute(1, 0)[1:] * 2)
    b.unsqueeze(0).squeeze().zero_()
    b.diagonal().add_(a.diagonal())
    return b, b.t()


def pieces(a):
    first, second = a.clone().unbind(0)
    whole = tessera.stack([first, second])
    left, right = whole.split(1, 1)
    left.mul_(second[:1])
    right.exp_()
    whole.unfold(1, 2, 1)[:, 0].sub_(2)
    return whole, left, right


def in_place_forms(a):
    a.t_()
    return a


def forms(a):
    b = a * 2
    b.t_().unsqueeze_(0)
    b.add_(1)
    c = tessera.tensor([1.0, 2.0])
    c.mul_(a[0])
    d = tessera.empty(0)
    tessera.add(a, 1, out=d)
    d.relu_().clamp_(max=1.5)
    tessera._foreach_add_([b, c], 1.0)
    c.as_strided((1,), (1,), 1).sub_(1)
    return b, c, d


def branches(a):
    """Two views of one memory, each written: both and the memory see everything."""
    x, y = a[:1], a[:, 1:]
    x.add_(10)
    y.mul_(3)
    z = a.view(4)
    z[0] = 7
    return x, y, a, z


@pytest.mark.parametrize("remove", MODES)
@pytest.mark.parametrize("f", [views, transposed, pieces, forms, branches])
def test_results_and_arguments_are_those_of_the_function(f, remove):
    a = tessera.arange(4.0).view(2, 2) + 0.5
    mine, theirs = a.clone(), a.clone()
    want = f(theirs)
    with Calls() as calls:
        got = functionalize(f, remove=remove)(mine)
    close(got, want)
    close(mine, theirs)
    # All writes but the one to the argument are gone, or go to copies that a form without a twin needs.
    copied = {"add", "copy_"} if f is forms else set()
    writes = [s for s in calls.schemas if s.is_mutable and s.name.split("::")[1] not in copied]
    assert [s.name for s in writes] == ([] if theirs.equal(a) else ["aten::copy_"])
    if remove == "mutations_and_views":
        aliasing = [n for n in calls.names if n in ("view", "slice", "select", "t", "transpose", "permute", "unbind")]
        assert aliasing == []


def test_the_operators_that_are_called():
    a = tessera.zeros(2, 2)
    with Calls() as calls:
        functionalize(views, remove="mutations_and_views")(a)
    assert {"view_copy", "add", "slice_copy", "mul", "slice_scatter", "copy_"} == set(calls.names)
    assert calls.names.count("copy_") == 1 and calls.names[-1] == "copy_"
    with Calls() as calls:
        functionalize(views)(a)
    assert {"view", "slice"} < set(calls.names) and not {"view_copy", "slice_copy"} & set(calls.names)


def test_results_share_no_memory_with_what_was_written():
    x = tessera.zeros(3)
    y = functionalize(lambda v: v.add_(1))(x)
    close((x, y), (tessera.ones(3), tessera.ones(3)))
    y.add_(1)
    close(x, tessera.ones(3))


def test_the_same_tensor_twice_and_trees():
    x = tessera.zeros(3)
    got = functionalize(lambda p, *, q: {"r": p["a"].add_(1) + q})({"a": x}, q=x)
    close(got, {"r": 2 * tessera.ones(3)})
    close(x, tessera.ones(3))


def test_what_is_refused_changes_nothing():
    x, captured = tessera.ones(3), tessera.zeros(3)
    with pytest.raises(RuntimeError, match="non-functional tensor"):
        functionalize(lambda v: captured.add_(v))(x)
    z = tessera.zeros(4)
    with pytest.raises(RuntimeError, match="shares its memory"):
        functionalize(lambda a, b: a.add_(1) + b.sum())(z, z[:2])
    square = tessera.arange(4.0).view(2, 2)
    with pytest.raises(RuntimeError, match="changes the form"):
        functionalize(in_place_forms)(square)
    with pytest.raises(RuntimeError, match="broadcast shape"):
        functionalize(lambda v: v.add_(tessera.ones(2, 3)))(x)
    with pytest.raises(RuntimeError, match="can't be cast"):
        functionalize(lambda v: v.add_(1.5))(tessera.ones(3, dtype=tessera.int64))
    with pytest.raises(RuntimeError, match="single memory"):
        functionalize(lambda v: v[:1].expand(3).add_(1))(x)
    with pytest.raises(KeyError):
        functionalize(lambda v: {}[v.add_(1)])(x)
    with pytest.raises(RuntimeError, match="remove='x'|remove=x"):
        functionalize(lambda v: v, remove="x")
    close((x, captured, z), (tessera.ones(3), tessera.zeros(3), tessera.zeros(4)))
    close(square, tessera.arange(4.0).view(2, 2))
    assert not tessera._C._func._levels()


def test_captured_tensors_are_written_as_ever_where_no_argument_is_involved():
    counter = tessera.zeros(())
    f = functionalize(lambda v: v + counter.add_(1))
    close((f(tessera.zeros(2)), f(tessera.zeros(2))), (tessera.ones(2), 2 * tessera.ones(2)))


def test_among_other_transforms():
    def f(x):
        y = x.clone()
        y[0].mul_(x[1])
        return (y * x).sum()

    x = tessera.randn(2, dtype=tessera.float64)
    for remove in MODES:
        g = functionalize(f, remove=remove)
        close(grad(g)(x), grad(f)(x))
        close(functionalize(grad(f), remove=remove)(x), grad(f)(x))
        close(jvp(g, (x,), (x,)), jvp(f, (x,), (x,)))
        close(functionalize(lambda x: jvp(f, (x,), (x,)), remove=remove)(x), jvp(f, (x,), (x,)))
        rows = tessera.stack([x, 2 * x])
        close(vmap(g)(rows), vmap(f)(rows))
        close(functionalize(vmap(f), remove=remove)(rows), vmap(f)(rows))
        leaf = x.clone().requires_grad_()
        g(leaf).backward()
        close(leaf.grad, grad(f)(x))


def test_custom_functions_and_batch_norm():
    class Double(tessera.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 5

    x = tessera.ones(3, requires_grad=True)
    functionalize(lambda x: Double.apply(x).add_(1).sum())(x).backward()
    close(x.grad, 5 * tessera.ones(3))

    layer, twin = tessera.nn.BatchNorm1d(3), tessera.nn.BatchNorm1d(3)
    batch = tessera.randn(4, 3)
    mean, var = layer.running_mean, layer.running_var
    run = functionalize(
        lambda x, mean, var: tessera.nn.functional.batch_norm(x, mean, var, training=True), remove=MODES[1]
    )
    close(run(batch, mean, var), twin(batch))
    close((mean, var), (twin.running_mean, twin.running_var))
