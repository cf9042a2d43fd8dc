"""cond, while_loop, scan, map and associative_scan: eager, traced, differentiated, under vmap and functionalization."""

import pytest

import tessera
from tessera._higher_order_ops import associative_scan, map, out_dtype, scan, while_loop
from tessera._subclasses.functional_tensor import functionalized
from tessera.fx.experimental.proxy_tensor import make_fx

hops = tessera.ops.higher_order


def rand(*shape, seed=0, grad=False):
    return tessera.randn(*shape, generator=tessera.Generator().manual_seed(seed)).requires_grad_(grad)


W = tessera.nn.Parameter(rand(4, seed=7))


def targets(gm):
    return [n.target for n in gm.graph.nodes if n.op == "call_function"]


def same(got, want):
    got, want = tessera.utils._pytree.tree_leaves(got), tessera.utils._pytree.tree_leaves(want)
    assert len(got) == len(want) > 0
    for a, b in zip(got, want):
        tessera.testing.assert_close(a, b)


def check_traced(function, op, *inputs, others=()):
    """The trace has the operator, and gives what the function gives, for these and for other inputs."""
    gm = make_fx(function)(*inputs)
    assert op in targets(gm)
    for given in (inputs, *others):
        same(gm(*given), function(*given))
    return gm


def two_branches(x):
    return tessera.cond(x.sum() > 0, lambda x: {"a": x.sin()}, lambda x: {"a": x * x}, (x,))["a"] + 1


def test_cond_keeps_both_branches():
    x = rand(4)
    gm = check_traced(two_branches, hops.cond, x, others=[(-x,)])
    assert [n.target for n in gm.true_graph_0.graph.nodes][1] is tessera.ops.aten.sin.default
    assert [n.target for n in gm.false_graph_0.graph.nodes][1] is tessera.ops.aten.mul.Tensor


def test_cond_gradients_of_operands_and_of_what_branches_close_over():
    def gradients(x):
        y = tessera.cond(x.sum() > 0, lambda x: x * W, lambda x: x.exp(), (x,))
        found = tessera.autograd.grad(y.sum(), [x, W], allow_unused=True)
        return [tessera.zeros(4) if g is None else g for g in found]

    x = rand(4, grad=True)
    gm = make_fx(gradients)(x)
    assert targets(gm).count(hops.cond) == 2
    for v in (x, (-x).detach().requires_grad_()):
        same(gm(v), gradients(v))


def test_cond_rejects():
    x = rand(3)
    for pred, first, operands, says in [
        ("yes", abs, (x,), "Expected pred to be bool or tensor"),
        (tessera.tensor([True, False]), abs, (x,), "single-element tensor"),
        (tessera.tensor(True), 3, (x,), "callable"),
        (tessera.tensor(True), abs, x, "Expect operands to be a tuple"),
        (tessera.tensor(True), abs, (3,), "Expect operands to be a tuple"),
    ]:
        with pytest.raises(RuntimeError, match=says):
            tessera.cond(pred, first, abs, operands)


def test_traced_branches_must_agree_and_write_to_nothing():
    x = rand(3)
    for first, second, says in [
        (lambda x: x + 1, lambda x: x[:2], "shape"),
        (lambda x: x + 1, lambda x: (x, x), "elements"),
        (lambda x: x + 1, lambda x: x.double(), "dtype"),
        (lambda x: (x + 1,), lambda x: [x * 1], "structure"),
        (lambda x: x.add_(1), lambda x: x * 1, "modifying the input"),
    ]:
        with pytest.raises(RuntimeError, match=says):
            make_fx(lambda x, a=first, b=second: tessera.cond(x.sum() > 0, a, b, (x,)))(x)


def test_cond_in_cond():
    def nested(x):
        inner = lambda x: tessera.cond(x.sum() > 3, lambda x: x * W.detach(), lambda x: x - 1, (x,))  # noqa: E731
        return tessera.cond(x.sum() > 0, inner, lambda x: x * 2, (x,))

    x = tessera.ones(4)
    gm = check_traced(nested, hops.cond, x, others=[(x * 0.1,), (-x,)])
    assert hops.cond in targets(gm.true_graph_0)


def test_while_loop():
    x = rand(4)

    def loop(x):
        return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2 + x), (tessera.tensor(0), x))

    same(loop(x), (tessera.tensor(3), x * 15))
    check_traced(loop, hops.while_loop, x, others=[(x + 1,)])
    assert tessera.while_loop is while_loop


def test_while_loop_gradients_with_another_number_of_steps():
    def gradients(x):
        step = lambda i, y: (i + 1, y.abs() * (W.abs() + 1) + x.abs())  # noqa: E731
        y = while_loop(lambda i, y: y.sum() < 100, step, (tessera.tensor(0), x))[1]
        return tessera.autograd.grad((y * y).sum(), [x, W])

    x = rand(4, grad=True)
    gm = make_fx(gradients)(x)
    for v in (x, (x * 0.1).detach().requires_grad_()):
        same(gm(v), gradients(v))
    far = (x.abs() * 1000).detach().requires_grad_()  # no step is made
    same(gm(far), (2 * far.detach(), tessera.zeros(4)))


def test_loops_are_exported_and_decomposed():
    class Loops(tessera.nn.Module):
        def __init__(self):
            super().__init__()
            self.l = tessera.nn.Linear(3, 3)

        def forward(self, x):
            c, y = scan(lambda c, a: (tessera.tanh(self.l(c) + a), c * 2), tessera.zeros(3), x)
            step = lambda i, z: (i + 1, self.l(z).relu_())  # noqa: E731
            z = while_loop(lambda i, z: i < 3, step, (tessera.zeros((), dtype=tessera.int64), c))[1]
            return tessera.cond(z.sum() > 0, lambda z: self.l(z), lambda z: z * 2, (z,)), y

    module, x = Loops(), rand(5, 3)
    program = tessera.export.export(module, (x,))
    core = program.run_decompositions()
    for made in (program, core):
        assert {hops.scan, hops.while_loop, hops.cond} <= set(targets(made.graph_module))
        for given in (x, -x):
            same(made.module()(given), module(given))
    inside = [n.target for _, body in core.graph_module.named_children() for n in body.graph.nodes]
    assert tessera.ops.aten.linear.default not in inside and tessera.ops.aten.relu_.default not in inside
    assert tessera.ops.aten.addmm.default in inside or tessera.ops.aten.mm.default in inside


def test_a_loop_over_fake_tensors_has_no_gradient():
    def run(x):
        return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * W), (tessera.tensor(0), x))[1]

    x = rand(4, grad=True)
    options = {"tracing_mode": "fake", "_allow_non_fake_inputs": True}
    assert hops.while_loop in targets(make_fx(run, **options)(x))
    with pytest.raises(RuntimeError, match="number of steps"):
        make_fx(lambda x: tessera.autograd.grad(run(x).sum(), x), **options)(x)


def test_while_loop_rejects():
    x = rand(3)
    go = lambda i, x: i < 2  # noqa: E731
    for cond_fn, body, carried, says in [
        (3, abs, (x,), "callable"),
        (go, lambda i, x: (i + 1,), (tessera.tensor(0), x), "elements"),
        (go, lambda i, x: (i + 1, x[:2]), (tessera.tensor(0), x), "shape"),
        (go, lambda i, x: i + 1, (tessera.tensor(0), x), "tuple"),
        (lambda i, x: x, lambda i, x: (i + 1, x), (tessera.tensor(0), x), "boolean scalar"),
        (go, lambda i, x: (i + 1, x), tessera.tensor(0), "Expect carried_inputs to be a tuple"),
    ]:
        with pytest.raises(RuntimeError, match=says):
            while_loop(cond_fn, body, carried)


@pytest.mark.parametrize("reverse", [False, True])
def test_scan(reverse):
    def run(x):
        return scan(lambda c, a: (c * a + 1, {"k": c * a}), tessera.ones(3), x, dim=1, reverse=reverse)

    x = rand(3, 5)
    carry, rows = tessera.ones(3), []
    for i in reversed(range(5)) if reverse else range(5):
        rows.append(carry * x[:, i])
        carry = carry * x[:, i] + 1
    same(run(x), (carry, {"k": tessera.stack(rows[::-1] if reverse else rows)}))
    check_traced(run, hops.scan, x, others=[(x * 2,)])


def test_scan_gradients():
    def gradients(x, h):
        c, y = scan(lambda c, a: (tessera.tanh(c * a + W), c * a * W), h, x)
        return tessera.autograd.grad(c.sum() + (y * y).sum(), [x, W, h])

    x, h = rand(5, 4, grad=True), rand(4, seed=1, grad=True)
    gm = make_fx(gradients)(x, h)
    assert targets(gm).count(hops.scan) == 3
    for v in (x, rand(5, 4, seed=3, grad=True)):
        same(gm(v, h), gradients(v, h))


def test_scan_rejects():
    x, zero = rand(4), tessera.zeros(())
    for f, init, xs, says in [
        (2, zero, x, "callable"),
        (lambda c, a: (c, a), 3, x, "All init leaves must be a Tensor"),
        (lambda c, a: (c, a), [], x, "requires init leaves"),
        (lambda c, a: (tessera.stack([c, a]), a), zero, x, "shape"),
        (lambda c, a: c + a, zero, x, "pair"),
    ]:
        with pytest.raises(RuntimeError, match=says):
            scan(f, init, xs)


def test_map_and_its_gradients():
    h = rand(4, seed=2, grad=True)

    def run(x):
        return map(lambda a, k: (a.sin() * k * W, a), x, h)

    def gradients(x):
        first, second = run(x)
        return tessera.autograd.grad(first.sum() + (second**2).sum(), [x, W, h])

    x, y = rand(5, 4, grad=True), rand(5, 4, seed=5, grad=True)
    same(run(x)[0], x.sin() * h * W)
    check_traced(run, hops.map_impl, x, others=[(y,)])
    same(make_fx(gradients)(x)(y), gradients(y))
    with pytest.raises(RuntimeError, match="cannot be 0"):
        map(abs, tessera.ones(0))
    with pytest.raises(RuntimeError, match="only consist of tensors"):
        map(abs, 3)


@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan(reverse):
    for n in range(1, 12):
        x = rand(3, n, seed=n)
        want = x.flip(1).cumsum(1).flip(1) if reverse else x.cumsum(1)
        same(associative_scan(lambda a, b: a + b, x, 1, reverse=reverse, combine_mode="generic"), want)


def test_associative_scan_of_pairs_traced_and_differentiated():
    def run(x):  # the linear recurrence h = a * h + x
        return associative_scan(lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (x.sigmoid(), x), 0)[1]

    def gradients(x):
        return tessera.autograd.grad((run(x) ** 2).sum(), x)

    x, y = rand(7, 4), rand(7, 4, seed=9)
    h, rows = tessera.zeros(4), []
    for row in x:
        h = row.sigmoid() * h + row
        rows.append(h)
    same(run(x), tessera.stack(rows))
    check_traced(run, hops.associative_scan, x, others=[(y,)])
    x, y = x.requires_grad_(), y.requires_grad_()
    same(make_fx(gradients)(x)(y), gradients(y))


def test_associative_scan_rejects():
    x = rand(4)
    with pytest.raises(ValueError, match="Combine_mode must either 'pointwise' or 'generic'"):
        associative_scan(lambda a, b: a + b, x, 0, combine_mode="other")
    with pytest.raises(ValueError, match="Combine_fn must be a callable"):
        associative_scan(3, x, 0)
    with pytest.raises(ValueError, match="pytree of the output"):
        associative_scan(lambda a, b: (a, b), x, 0)
    with pytest.raises(IndexError):
        associative_scan(lambda a, b: a + b, x, 3)


def test_under_vmap():
    pred, x = tessera.tensor([1.0, -1.0]), rand(2, 3)
    got = tessera.vmap(lambda p, x: tessera.cond(p > 0, lambda x: x + 1, lambda x: x * 2, (x,)))(pred, x)
    same(got, tessera.stack([x[0] + 1, x[1] * 2]))
    count = tessera.vmap(lambda n: while_loop(lambda i: i < n, lambda i: (i + 1,), (tessera.tensor(0.0),))[0])
    assert count(tessera.tensor([1.0, 3.5])).tolist() == [1, 4]


@pytest.mark.parametrize("strict", [False, True])
def test_branches_read_numbers(strict):
    def counted(x):
        n = x[0].item()
        tessera._check(n >= 0)
        tessera._check(n < 10)
        return x.new_ones(n).sum() + x * x.max().item()

    class Chosen(tessera.nn.Module):
        def forward(self, pred, x):
            return tessera.cond(pred, counted, lambda x: x - x.sum().item(), (x,))

    example, yes = (tessera.tensor(True), tessera.tensor([3, 4])), tessera.tensor(True)
    exported = tessera.export.export(Chosen(), example, strict=strict)
    for program in (exported.module(), make_fx(Chosen(), tracing_mode="fake")(*example)):
        assert program(yes, tessera.tensor([5, 4])).tolist() == [30, 25]
        assert program(~yes, tessera.tensor([5, 4])).tolist() == [-4, -5]
        with pytest.raises(RuntimeError, match="u0 <= 9"):
            program(yes, tessera.tensor([11, 4]))
    body = exported.graph_module.true_graph_0
    assert all("counted" in n.meta["stack_trace"] for n in body.graph.find_nodes(op="call_function")[:3])


def test_functionalized_branches():
    def f(x):
        y = x.clone()
        y.add_(1)
        return tessera.cond(y.sum() > 0, lambda y: y.clone().add_(1), lambda y: y * 1, (y,))

    x = rand(4)
    gm = check_traced(functionalized(f), hops.cond, x, others=[(-x - 9,)])
    every = targets(gm) + targets(gm.true_graph_0)
    assert tessera.ops.aten.add.Tensor in every and tessera.ops.aten.add_.Tensor not in every
    with pytest.raises(RuntimeError, match="modifying the input"):
        functionalized(lambda x: tessera.cond(x.sum() > 9, lambda y: y * 1, lambda y: y.add_(1), (x,)))(
            tessera.zeros(2)
        )


def test_out_dtype():
    a, b = tessera.full((2, 3), 100, dtype=tessera.int8), tessera.full((3, 2), 100, dtype=tessera.int8)
    got = out_dtype(tessera.ops.aten.mm.default, tessera.int32, a, b)
    assert got.dtype == tessera.int32 and got.tolist() == [[30000, 30000]] * 2
    gm = make_fx(lambda a, b: out_dtype(tessera.ops.aten.mm.default, tessera.int32, a, b))(a, b)
    assert hops.out_dtype in targets(gm) and tessera.equal(gm(a, b), got)
    with pytest.raises(ValueError, match="OpOverload"):
        out_dtype(tessera.mm, tessera.int32, a, b)
    with pytest.raises(ValueError, match="functional"):
        out_dtype(tessera.ops.aten.add_.Tensor, tessera.int32, a, b)


def test_own_higher_order_operator():
    from tessera._ops import HigherOrderOperator
    from tessera.utils._python_dispatch import TorchDispatchMode

    class Twice(HigherOrderOperator):
        def __init__(self):
            super().__init__("tests_twice")

        def __call__(self, f, x):
            return super().__call__(f, x)

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    twice = Twice()
    twice.py_impl("CompositeExplicitAutograd")(lambda f, x: f(f(x)))
    assert twice(lambda x: x + 1, tessera.zeros(1)).item() == 2
    assert hops.tests_twice is twice and str(twice) == "tests_twice"
    with Mode(), pytest.raises(NotImplementedError, match="no rule"):
        twice(abs, tessera.zeros(1))
    twice.py_impl(Mode)(lambda mode, f, x: f(x))
    with Mode():
        assert twice(lambda x: x + 1, tessera.zeros(1)).item() == 1
    twice.py_autograd_impl(lambda f, x: f(x) * 5)
    assert twice(lambda x: x + 1, tessera.zeros(1, requires_grad=True)).item() == 5
    with pytest.raises(RuntimeError, match="Direct instantiation"):
        HigherOrderOperator("x")
