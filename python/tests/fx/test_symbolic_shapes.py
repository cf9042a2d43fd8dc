"""Sizes as symbols: what operators make of them, what is assumed, what is not known."""

import pytest
import tessera
import tessera.nn.functional as F
from tessera._subclasses.fake_tensor import FakeTensorMode
from tessera.fx.experimental.proxy_tensor import make_fx
from tessera.fx.experimental.symbolic_shapes import (
    ConstraintViolationError,
    DimDynamic,
    GuardOnDataDependentSymNode,
    ShapeEnv,
    StatelessSymbolicContext,
    StrictMinMaxConstraint,
    ValueRanges,
    free_symbols,
    free_unbacked_symbols,
    guard_int,
    guard_or_false,
    guard_or_true,
    guard_size_oblivious,
    has_free_symbols,
    hint_int,
    statically_known_true,
)


@pytest.fixture
def env():
    return ShapeEnv()


def fake(env, *sizes, static=False, **options):
    mode = getattr(env, "test_mode", None) or FakeTensorMode(shape_env=env)
    env.test_mode = mode
    return mode.from_tensor(tessera.empty(*sizes, **options), static_shapes=static)


def shown(sizes):
    return [str(s) for s in sizes]


def test_sizes_get_symbols_equal_ones_the_same(env):
    x = fake(env, 5, 7, 5, 1)
    assert shown(x.shape) == ["s0", "s1", "s0", "1"]
    assert shown(x.stride()) == ["s0*s1", "s0", "1", "1"] and str(x.numel()) == "s0**2*s1"
    assert repr(x.shape) == f"{tessera._display_name}.Size([s0, s1, s0, 1])" and len(x.shape) == 4
    assert isinstance(x.shape[0], tessera.SymInt) and x.shape[0].node.hint == 5
    assert env.var_to_range[x.shape[0].node.expr] == ValueRanges(2, float("inf"))


# What operators make of a tensor of sizes (s0, s1, s2) = (6, 8, 10): the sizes, and no guard.
WITHOUT_GUARDS = {
    "pointwise": (lambda x: (x * 2 + x).relu(), ["s0", "s1", "s2"]),
    "reduction": (lambda x: x.sum(1, keepdim=True), ["s0", "1", "s2"]),
    "flatten": (lambda x: x.flatten(1), ["s0", "s1*s2"]),
    "view": (lambda x: x.view(x.shape[0] * x.shape[1], -1), ["s0*s1", "s2"]),
    "transpose": (lambda x: x.permute(2, 0, 1), ["s2", "s0", "s1"]),
    "slice": (lambda x: x[1:, :2], ["s0 - 1", "2", "s2"]),
    "slice by a size": (lambda x: F.pad(x, (0, 3))[..., : x.shape[2]], ["s0", "s1", "s2"]),
    "select": (lambda x: x[:, -1], ["s0", "s2"]),
    "new axis": (lambda x: x[:, None], ["s0", "1", "s1", "s2"]),
    "cat": (lambda x: tessera.cat([x, x, x], 2), ["s0", "s1", "3*s2"]),
    "stack": (lambda x: tessera.stack([x, x]), ["2", "s0", "s1", "s2"]),
    "expand": (lambda x: x.unsqueeze(0).expand(4, -1, -1, -1), ["4", "s0", "s1", "s2"]),
    "repeat": (lambda x: x.repeat(2, 1, 3), ["2*s0", "s1", "3*s2"]),
    "bmm": (lambda x: x @ x.mT, ["s0", "s1", "s1"]),
    "pad": (lambda x: F.pad(x, (1, 2)), ["s0", "s1", "s2 + 3"]),
    "chunk": (lambda x: x.chunk(2)[0], ["((s0 + 1)//2)", "s1", "s2"]),
    "factory": (lambda x: tessera.zeros(x.shape[0] // 2 + 1, 3), ["(s0//2) + 1", "3"]),
    "arange": (lambda x: tessera.arange(x.shape[1]), ["s1"]),
    "softmax": (lambda x: x.softmax(-1), ["s0", "s1", "s2"]),
    "layer_norm over a symbol": (lambda x: F.layer_norm(x, (x.shape[2],)), ["s0", "s1", "s2"]),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x), ["s0", "s1", "s2"]),
    "pooling": (lambda x: F.max_pool1d(x, 2), ["s0", "s1", "(s2//2)"]),
    "one of results": (lambda x: x.max(0).indices, ["s1", "s2"]),
}


@pytest.mark.parametrize("name", WITHOUT_GUARDS)
def test_operators_keep_symbols(env, name):
    function, expected = WITHOUT_GUARDS[name]
    x = fake(env, 6, 8, 10)
    with env.test_mode:
        assert shown(function(x).shape) == expected
    assert env.guards == []


def test_layers_with_plain_weights_fix_the_sizes_that_they_have(env):
    x, w = fake(env, 6, 3, 17, 19), fake(env, 4, 3, 3, 3, static=True)
    out = F.conv2d(x, w, stride=2, padding=1)
    assert shown(out.shape) == ["s0", "4", "((s2 + 1)//2)", "((s3 + 1)//2)"]
    assert [str(g.expr) for g in env.guards] == ["Eq(s1, 3)"] and x.shape[1] == 3
    assert shown(F.linear(fake(env, 9, 16), fake(env, 5, 16, static=True)).shape) == ["s4", "5"]


def test_equal_sizes_of_two_symbols_become_one(env):
    dynamic = StatelessSymbolicContext([DimDynamic.DYNAMIC])
    x = fake(env, 13)
    y = env.test_mode.from_tensor(tessera.empty(13), symbolic_context=dynamic)
    assert shown(x.shape) != shown(y.shape)
    out = x + y
    assert shown(out.shape) == shown(x.shape) == shown(y.shape) == ["s0"]
    assert [str(g.expr) for g in env.guards] == ["Eq(s1, s0)"]


def test_a_size_of_one_less_becomes_one_with_its_partner(env):
    """Where the cut size is 1 it broadcasts, which hid the relation that holds at all others."""
    dynamic = StatelessSymbolicContext([DimDynamic.DYNAMIC])
    fake(env, 1)
    x, y = (env.test_mode.from_tensor(tessera.empty(n), symbolic_context=dynamic) for n in (5, 6))
    assert shown((x + y[1:]).shape) == ["s0"] and shown(y.shape) == ["s0 + 1"]
    assert [str(g.expr) for g in env.guards] == ["Eq(s1, s0 + 1)"]


def test_what_the_program_asks_is_a_guard_with_its_line(env):
    n = fake(env, 6).shape[0]
    assert n > 3 and (n > 4) and not n == 5
    guard = env.guards[0]
    assert str(guard.expr) == "s0 >= 4" and __file__ in guard.sloc
    count = len(env.guards)
    assert n >= 2 and n > 1, "what is known needs no guard"
    assert len(env.guards) == count
    assert 2 * n == 12 and shown([n]) == ["6"]


def test_numbers_that_python_needs_are_guards(env):
    n = fake(env, 3).shape[0]
    assert len(range(n)) == 3 and str(env.guards[0].expr) == "Eq(s0, 3)"
    m = fake(env, 4).shape[0]
    assert guard_int(m) == 4 and hint_int(m + 1) == 5
    with pytest.raises(TypeError, match="unhashable"):
        hash(fake(env, 8).shape[0])


def test_arithmetic_is_symbolic_and_canonical(env):
    a, b = fake(env, 6, 8).shape
    assert str((a + 2) * (a - 2)) == "s0**2 - 4" and (a * b) // b == a and a - a == 0
    assert str(a // 2) == "(s0//2)" and str((2 * a + 1) % 2) == "1" and str(-a) == "-s0"
    assert [hint_int(v) for v in (a / 4, tessera.sym_sqrt(b * 2), 2**3 * a, a**2, a % 4)] == [1.5, 4.0, 48, 36, 2]
    assert [hint_int(v) for v in (tessera.sym_max(a, b), tessera.sym_min(a, 4), tessera.sym_int(a / 4))] == [8, 4, 1]
    assert isinstance(tessera.sym_float(a), tessera.SymFloat) and isinstance(a < b, tessera.SymBool)
    assert bool(tessera.sym_not(a > b)) and bool((a < b) & (a != b))
    assert hint_int(tessera.sym_ite(a < b, a, b)) == 6 and str(tessera.sym_sum([a, b, 1])) == "s0 + s1 + 1"


def test_ranges_and_facts_decide(env):
    a, b = fake(env, 6, 8).shape
    assert statically_known_true(a >= 2) and not statically_known_true(a > 2)
    assert a % 3 == 0
    assert statically_known_true(a % 3 == 0) and not statically_known_true(a % 2 == 0)
    assert a < b
    assert statically_known_true(a < b + 1) and statically_known_true(b > a) and not statically_known_true(b > a + 1)


def test_numbers_from_values_are_not_known(env):
    x = fake(env, 6, dtype=tessera.int64)
    u = x.sum().item()
    assert free_unbacked_symbols(u) and not u.node.has_hint() and has_free_symbols(u + 1)
    with pytest.raises(GuardOnDataDependentSymNode, match=r"(?s)u0.*torch._check"):
        bool(u > 3)
    assert guard_or_false(u > 3) is False and guard_or_true(u > 3) is True
    tessera._check(u > 3)
    tessera._check(u <= 10)
    assert u > 2 and not u > 10 and len(env.deferred_runtime_asserts[u.node.expr]) == 2
    y = fake(env, 4).sum()
    assert y.item() is y.item() and isinstance(y.item(), tessera.SymFloat)
    assert isinstance((y > 0).item(), tessera.SymBool)


def test_sizes_from_values_are_not_known(env):
    x = fake(env, 6, 8)
    rows = x.nonzero()
    assert shown(rows.shape) == ["u0", "2"] and shown((rows * 2).sum(1).shape) == ["u0"]
    assert not guard_size_oblivious(rows.shape[0] == 0)
    assert shown(x[x > 0].shape) == ["u1"] and shown(tessera.masked_select(x, x > 0).shape) == ["u2"]
    values, counts = x.unique(return_counts=True)
    assert shown(values.shape) == shown(counts.shape) == ["u3"]
    with env.test_mode:
        assert shown(tessera.zeros(rows.shape[0], 3).shape) == ["u0", "3"]


def test_an_environment_may_refuse_what_depends_on_values():
    from tessera._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

    env = ShapeEnv(allow_scalar_outputs=False, allow_dynamic_output_shape_ops=False)
    x = fake(env, 6)
    with pytest.raises(DataDependentOutputException):
        x.sum().item()
    with pytest.raises(DynamicOutputShapeException):
        x.nonzero()


def test_guards_are_checked_for_other_values(env):
    x = fake(env, 6, 8)
    assert x.shape[0] * 2 < x.shape[1] + 5
    assert env.evaluate_guards_for_args([x], [tessera.empty(4, 20)])
    assert not env.evaluate_guards_for_args([x], [tessera.empty(20, 4)])
    assert env.produce_guards([x], ["x"])


def test_constraints_are_violated_by_what_is_assumed(env):
    context = StatelessSymbolicContext([DimDynamic.DYNAMIC], None, [StrictMinMaxConstraint(False, ValueRanges(2, 64))])
    mode = FakeTensorMode(shape_env=env)
    x = mode.from_tensor(tessera.empty(6), symbolic_context=context, source="x")
    env.produce_guards([x], ["x"])
    int(x.shape[0])
    with pytest.raises(ConstraintViolationError, match="constant"):
        env.produce_guards([x], ["x"])


def test_writes_keep_symbols(env):
    x = fake(env, 6, 8)
    x[1:].add_(1)
    x[:, 0] = 2.0
    assert shown(x.shape) == ["s0", "s1"] and shown(x.t_().shape) == ["s1", "s0"]


def test_indices_of_every_kind(env):
    x, still = fake(env, 6, 8), fake(env, 6, 8, static=True)
    rows = fake(env, 3, static=True, dtype=tessera.int64)
    assert shown(x[rows].shape) == ["3", "s1"] and shown(x[..., rows].shape) == ["s0", "3"]
    assert shown(x[rows, 1:].shape) == ["3", "s1 - 1"] and shown(x[None, :, -1].shape) == ["1", "s0"]
    still[:, rows] = 1.0
    still[True] = 2.0
    assert still[rows, 2:].shape == (3, 6) and still[[0, 1]].shape == (2, 8)
    x[rows] = 0.0
    x[x > 0] = 1.0
    assert shown(x.shape) == ["s0", "s1"]
    x[:, rows] = 3.0
    assert x.shape == (6, 8)
    with pytest.raises(IndexError, match="too many indices"):
        fake(env, 7)[0, 0]


def test_gradients_flow_through_composites(env):
    x = fake(env, 6, 8)
    w = fake(env, 5, 8, static=True)
    out = F.linear(x, w.requires_grad_()).flatten()
    assert out.requires_grad and shown(out.shape) == ["5*s0"]


def test_symbols_belong_to_their_environment(env):
    assert free_symbols(fake(env, 6)) and not free_symbols(fake(env, 6, static=True))
    with pytest.raises(NotImplementedError, match="tracked_fakes"):
        ShapeEnv(tracked_fakes=[1])


def test_fake_implementations_make_sizes(env):
    @tessera.library.custom_op("symbolic_tests::positive", mutates_args=())
    def positive(x: tessera.Tensor) -> tessera.Tensor:
        return x[x > 0]

    @positive.register_fake
    def _(x):
        return x.new_empty(tessera.library.get_ctx().new_dynamic_size(min=1))

    x = fake(env, 6)
    with env.test_mode:
        assert shown(positive(x).shape) == ["u0"]
    assert env.var_to_range[positive(x).shape[0].node.expr].lower == 1


# --- make_fx ---


def test_make_fx_has_nodes_for_sizes():
    def f(x):
        return x.reshape(x.shape[0], -1, 2), x.shape[0] + 1

    graph = make_fx(f, tracing_mode="symbolic")(tessera.randn(4, 5, 6))
    for sizes in ((4, 5, 6), (3, 7, 8), (9, 2, 2)):
        x = tessera.randn(*sizes)
        out, count = graph(x)
        assert tessera.equal(out, f(x)[0]) and count == sizes[0] + 1
    assert "sym_size.int" in graph.code


def test_make_fx_splits_composites_at_any_size():
    def f(x, w):
        return F.linear(x, w).flatten(1).relu()

    graph = make_fx(f, tracing_mode="symbolic")(tessera.randn(4, 5, 6), tessera.randn(7, 6))
    names = {str(n.target) for n in graph.graph.nodes if n.op == "call_function"}
    assert "aten.mm.default" in names and "aten.linear.default" not in names
    for batch in (2, 9):
        x, w = tessera.randn(batch, 3, 6), tessera.randn(8, 6)
        assert tessera.equal(graph(x, w), f(x, w))


def test_make_fx_keeps_numbers_from_values_and_integers():
    graph = make_fx(lambda x: x * x.sum().item(), tracing_mode="symbolic")(tessera.randn(3))
    x = tessera.randn(5)
    assert tessera.equal(graph(x), x * x.sum().item())
    graph = make_fx(lambda x, n: x.expand(n, x.shape[0]), tracing_mode="symbolic")(tessera.randn(4), 3)
    assert graph(tessera.randn(6), 2).shape == (2, 6)


def test_plain_numbers_are_checked():
    tessera._check(True)
    for check, error in ((tessera._check, RuntimeError), (tessera._check_index, IndexError),
                         (tessera._check_value, ValueError), (tessera._check_type, TypeError),
                         (tessera._check_not_implemented, NotImplementedError)):  # fmt: skip
        with pytest.raises(error, match="why"):
            check(False, lambda: "why")
    with pytest.raises(TypeError):
        tessera._check(1)
    tessera._check_is_size(3, max=4)
    with pytest.raises(RuntimeError):
        tessera._check_is_size(-1)
    with pytest.raises(RuntimeError):
        tessera._check_tensor_all(tessera.tensor([True, False]))


def test_nodes_compute_as_their_numbers():
    from tessera._subclasses.fake_tensor import FakeTensorMode
    from tessera.fx.experimental import sym_node, symbolic_shapes

    env = symbolic_shapes.ShapeEnv()
    x = FakeTensorMode(shape_env=env).from_tensor(tessera.ones(4, 9))
    a, b = (size.node for size in x.shape)
    three, half, true = a.wrap_int(3), a.wrap_float(0.5), a.wrap_bool(True)
    assert str(a.add(b)) == str(x.shape[0] + x.shape[1]) and a.sym_sum([a, b, three]).hint == 16
    conditions = {"and_", "or_", "sym_and", "sym_or", "sym_not"}
    for name, compute in sym_node.magic_methods.items():
        unary = name in sym_node._UNARY
        left = (a.lt(b), True) if name in conditions else (a, 4)
        right = (true, True) if name in conditions else (three, 3)
        if name.startswith("bitwise"):
            left = (a.wrap_int(5), 5)
        node = getattr(left[0], name)(*() if unary else (right[0],))
        assert isinstance(node, sym_node.SymNode) and node.hint == compute(left[1], *() if unary else (right[1],)), name
    assert three.add(half).maybe_as_float() == 3.5 and true.maybe_as_bool() is True and a.maybe_as_int() is None
    assert a.lt(b).sym_ite(a, b).hint == 4 and b.truediv(half).round().hint == 18 and a.round() is a.clone()
    assert a.sub(a).maybe_as_int() == 0 and symbolic_shapes.size_hint(x.shape[1]) == 9
    bound = env.bind_symbols([x], [tessera.ones(3, 7)])
    assert {str(s): n for s, n in bound.items()} == {"s0": 3, "s1": 7}
    assert env.guards == []
    assert a.lt(b).guard_or_false() and a.evaluate() == 4 and len(env.guards) == 2
