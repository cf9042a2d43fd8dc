"""tessera.func: transforms nested in each other, errors, trees, modules, custom functions."""

import pytest
import tessera
from tessera.func import (
    debug_unwrap,
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)

close = tessera.testing.assert_close
F64 = tessera.float64


def numbers(*shape, seed=0):
    return tessera.randn(*shape, dtype=F64, generator=tessera.Generator().manual_seed(seed))


# --- nesting ---


def test_vmap_of_grad_of_vmap():
    x, w = numbers(4, 3, 2), numbers(2, seed=1)
    loss = lambda w, rows: vmap(lambda r: (r @ w).tanh())(rows).sum()
    got = vmap(grad(loss), (None, 0))(w, x)
    want = tessera.stack([((1 - (r @ w).tanh() ** 2)[:, None] * r).sum(0) for r in x])
    close(got, want)


def test_three_derivatives_and_a_batch():
    f = lambda x: (x**4).sum()
    x = numbers(5)
    close(vmap(grad(grad(grad(f))))(x), 24 * x)


def test_outer_backward_reaches_arguments_and_captured_tensors():
    x, w = numbers(3).requires_grad_(), numbers(3, seed=1).requires_grad_()
    vmap(grad(lambda v, c: v**2 * c))(x, w).sum().backward()
    close(x.grad, 2 * w.detach())
    close(w.grad, 2 * x.detach())
    scale = tessera.tensor(3.0, dtype=F64, requires_grad=True)
    grad(lambda v: (v**2 * scale).sum())(x.detach()).sum().backward()
    close(scale.grad, (2 * x.detach()).sum())


def test_captured_tensors_are_constants_of_the_inner_level():
    f = lambda x: grad(lambda y: x * y**2)(x)
    close(grad(f)(tessera.tensor(3.0, dtype=F64)), tessera.tensor(12.0, dtype=F64))


def test_perturbation_confusion():
    x = tessera.tensor(2.0, dtype=F64)
    assert grad(lambda x: x * grad(lambda y: x + y)(x))(x).item() == 1.0


def test_inplace_and_views_inside_of_grad():
    def f(x):
        y = x.clone()
        y[0] *= x[1]
        y[1:].mul_(2)
        return y.sum()

    x = numbers(3)
    close(grad(f)(x), tessera.stack([x[1], x[0] + 2, tessera.tensor(2.0, dtype=F64)]))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        grad(lambda x: (y := x.clone())[0].mul_(y[1]).sum())(x)
    xs = numbers(4, 3)
    close(vmap(grad(f))(xs), tessera.stack([grad(f)(r) for r in xs]))


def test_item_is_allowed_in_grad():
    assert grad(lambda x: x * x.item())(tessera.tensor(3.0)).item() == 3.0


def test_autograd_grad_inside_of_grad():
    def f(x):
        (g,) = tessera.autograd.grad((x**3).sum(), x, create_graph=True)
        return g.sum()

    x = numbers(3)
    close(grad(f)(x), 6 * x)


# --- vmap ---


def test_vmap_trees_and_negative_dims():
    x = numbers(2, 3, 4)
    got = vmap(lambda d: {"s": d["a"].sum(-1), "p": (d["b"], d["a"])}, in_dims=({"a": -1, "b": None},), out_dims=-1)(
        {"a": x, "b": numbers(3)}
    )
    close(got["s"], x.sum(1))
    assert got["p"][0].shape == (3, 4) and got["p"][1].shape == (2, 3, 4)


def test_vmap_out_dims_none():
    c = numbers(3)
    got = vmap(lambda v: (v * 2, c), out_dims=(0, None))(numbers(2))
    assert got[1].shape == (3,)
    with pytest.raises(ValueError, match="out_dim is None"):
        vmap(lambda v: v, out_dims=None)(numbers(2))


@pytest.mark.parametrize("batched", [(0, 0), (0, None), (None, 0)])
@pytest.mark.parametrize("function", [tessera.add, tessera.mul, tessera.pow, tessera.where])
def test_numbers_count_less_in_promotion(function, batched):
    scalar = tessera.tensor(2.0, dtype=F64)
    vector = tessera.ones(3)
    f = function if function is not tessera.where else lambda a, b: tessera.where(b > 0, a, b)
    args = [scalar.expand(4) if batched[0] == 0 else scalar, vector.expand(4, 3) if batched[1] == 0 else vector]
    got = vmap(f, batched)(*args)
    assert got.dtype == f(scalar, vector).dtype
    close(got, f(scalar, vector).expand(4, 3))


def test_vmap_randomness():
    x = tessera.zeros(5, 3)
    for f in (
        lambda v: v + tessera.rand(3),
        lambda v: tessera.rand_like(v),
        lambda v: tessera.nn.functional.dropout(v + 1, 0.5),
        lambda v: v.clone().normal_(),
    ):
        with pytest.raises(RuntimeError, match="random"):
            vmap(f)(x)
        same = vmap(f, randomness="same")(x)
        assert all(tessera.equal(same[0], row) for row in same)
        different = vmap(f, randomness="different")(x)
        assert not all(tessera.equal(different[0], row) for row in different)
    draws = vmap(lambda v: tessera.randperm(9), randomness="different")(x)
    assert draws.shape == (5, 9) and (draws.sort().values == tessera.arange(9)).all()
    with pytest.raises(RuntimeError, match="inplace randomness"):
        y = tessera.zeros(3)
        vmap(lambda v: y.uniform_(), randomness="different")(x)


def test_chunks_with_same_randomness():
    got = vmap(lambda v: v + tessera.rand(()), randomness="same", chunk_size=2)(tessera.zeros(5))
    assert got.unique().numel() == 1


@pytest.mark.parametrize(
    "f",
    [
        lambda v: v if v.sum() > 0 else -v,
        lambda v: tessera.zeros(3).copy_(v),
        lambda v: v.nonzero(),
        lambda v: v[v > 0],
        lambda v: tessera.add(v, 1, out=tessera.zeros(3)),
        lambda v: v.tolist(),
        lambda v: v.numpy(),
        lambda v: v + v.data_ptr(),
        lambda v: v.unique(),
    ],
)
def test_what_vmap_can_not_do_is_a_runtime_error(f):
    with pytest.raises(RuntimeError):
        vmap(f)(numbers(2, 3))
    assert not tessera._C._func._levels()


def test_indexing_under_vmap():
    x, i = numbers(4, 5, 6), tessera.tensor([[0, 2], [1, 1], [4, 3], [2, 0]])
    for f in (
        lambda v, k: v[k],
        lambda v, k: v[:, k],
        lambda v, k: v[k, k + 1],
        lambda v, k: v[k, :, None],
        lambda v, k: v[1:, 2],
        lambda v, k: v[None, :, k][0],
        lambda v, k: v.index_select(1, k),
        lambda v, k: v.index_add(0, k, v[:2]),
        lambda v, k: v.clone().index_put((k, k), v[0, :2]),
        lambda v, k: v.clone().index_put((k,), v[0], accumulate=True),
    ):
        for dims in ((0, 0), (0, None), (None, 0)):
            a = [x if dims[0] == 0 else x[0], i if dims[1] == 0 else i[0]]
            rows = [f(*(t[n] if d == 0 else t for t, d in zip(a, dims))) for n in range(4)]
            close(vmap(f, dims)(*a), tessera.stack(rows))


def test_assignment_under_vmap():
    def f(v, k):
        y = v.new_zeros(3, 4)
        y[0] = v
        y[:, 1] = v[:3]
        y[k] = v * 2
        y[2, k] = 7.0
        return y

    x, k = numbers(5, 4), tessera.tensor([0, 1, 2, 0, 1])
    close(vmap(f)(x, k), tessera.stack([f(a, b) for a, b in zip(x, k)]))
    masked = lambda v: v.clone().masked_fill(v > 0, 0.0)
    close(vmap(masked)(x), masked(x))

    def by_mask(v):
        y = v.clone()
        y[v > 0] = 1.0
        return y

    close(vmap(by_mask)(x), by_mask(x))


def test_repr_of_wrappers():
    seen = []
    vmap(lambda v: (seen.append(repr(v)), v)[1])(tessera.ones(2, 3))
    assert seen[0].startswith("BatchedTensor(lvl=1,") and "bdim=0" in seen[0]
    grad(lambda v: (seen.append(repr(v)), v.sum())[1])(tessera.ones(2))
    assert seen[1].startswith("GradTrackingTensor(lvl=1,")
    grad(lambda v: (vmap(lambda w: (seen.append(repr(w)), w)[1])(v)).sum())(tessera.ones(2))
    assert "BatchedTensor(lvl=2, bdim=0" in seen[2] and "GradTrackingTensor(lvl=1," in seen[2]


def test_debug_unwrap():
    seen = []
    vmap(lambda v: (seen.append(debug_unwrap(v)), v)[1])(tessera.ones(2, 3))
    assert seen[0].shape == (2, 3)


def test_tensors_that_outlive_their_level_are_their_value():
    kept = []
    grad(lambda x: (kept.append(x * 2), (x**2).sum())[1])(tessera.ones(3))
    assert (kept[0] + 1).tolist() == [3, 3, 3]


# --- layers ---

LAYERS = {
    "conv1d": (lambda: tessera.nn.Conv1d(4, 6, 3, padding=1, groups=2), (2, 4, 7)),
    "conv2d": (lambda: tessera.nn.Conv2d(3, 4, 3, stride=2), (2, 3, 8, 8)),
    "conv_transpose2d": (lambda: tessera.nn.ConvTranspose2d(3, 4, 3, stride=2), (2, 3, 5, 5)),
    "linear": (lambda: tessera.nn.Linear(5, 3), (2, 5)),
    "layer_norm": (lambda: tessera.nn.LayerNorm(5), (2, 5)),
    "group_norm": (lambda: tessera.nn.GroupNorm(2, 4), (2, 4, 5)),
    "batch_norm": (lambda: tessera.nn.BatchNorm2d(3, track_running_stats=False), (4, 3, 5, 5)),
    "instance_norm": (lambda: tessera.nn.InstanceNorm1d(3, affine=True), (2, 3, 6)),
    "max_pool": (lambda: tessera.nn.MaxPool2d(2), (2, 3, 6, 6)),
    "avg_pool": (lambda: tessera.nn.AdaptiveAvgPool2d(2), (2, 3, 6, 6)),
    "upsample": (lambda: tessera.nn.Upsample(scale_factor=2, mode="bilinear"), (2, 3, 4, 4)),
    "reflection_pad": (lambda: tessera.nn.ReflectionPad2d(1), (2, 3, 4, 4)),
    "attention": (lambda: tessera.nn.MultiheadAttention(4, 2, batch_first=True), (2, 3, 4)),
    "gru": (lambda: tessera.nn.GRU(4, 3, batch_first=True), (2, 3, 4)),
}


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("mapped", ["input", "parameters", "both"])
@pytest.mark.parametrize("name", LAYERS)
def test_layers_and_their_gradients_under_vmap(name, mapped):
    make, shape = LAYERS[name]
    tessera.manual_seed(0)
    layer = make().to(F64)
    parameters = {k: v.detach() for k, v in layer.named_parameters()}
    if mapped != "input" and not parameters:
        return
    x = numbers(3, *shape)

    def loss(p, v):
        out = functional_call(layer, p, (v, v, v) if name == "attention" else (v,))
        out = out[0] if isinstance(out, tuple) else out
        return (out * tessera.linspace(0, 1, out.numel(), dtype=F64).view(out.shape)).sum()

    both = grad_and_value(loss, argnums=(0, 1))
    many = {k: tessera.stack([v * (1 + 0.1 * n) for n in range(3)]) for k, v in parameters.items()}
    p, v = (many if mapped != "input" else parameters), (x if mapped != "parameters" else x[0])
    dims = (0 if mapped != "input" else None, 0 if mapped != "parameters" else None)
    (got_p, got_x), got = vmap(both, dims)(p, v)
    for n in range(3):
        one = {k: t[n] if dims[0] == 0 else t for k, t in p.items()}
        (want_p, want_x), want = both(one, v[n] if dims[1] == 0 else v)
        close(got[n], want)
        close(got_x[n], want_x)
        for k in parameters:
            close(got_p[k][n], want_p[k])


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_cross_entropy_under_vmap(reduction):
    x, t = numbers(3, 5, 4), tessera.tensor([[0, 1, 2, 3, -100], [3, 3, 3, 0, 1], [1, -100, 2, 2, 0]])
    weight = tessera.tensor([1.0, 2.0, 0.5, 0.1], dtype=F64)
    loss = lambda v, k: tessera.nn.functional.cross_entropy(v, k, weight, reduction=reduction)
    close(vmap(loss)(x, t), tessera.stack([loss(a, b) for a, b in zip(x, t)]))
    g = grad(lambda v, k: loss(v, k).sum())
    close(vmap(g)(x, t), tessera.stack([g(a, b) for a, b in zip(x, t)]))


def test_embedding_gradients_per_sample():
    w, i = numbers(6, 3), tessera.tensor([[0, 1, 1], [5, 2, 0]])
    f = lambda w, k: (tessera.nn.functional.embedding(k, w, padding_idx=0) ** 2).sum()
    close(vmap(grad(f), (None, 0))(w, i), tessera.stack([grad(f)(w, k) for k in i]))


def test_batch_norm_with_running_statistics_says_what_to_do():
    layer = tessera.nn.BatchNorm1d(3)
    with pytest.raises(RuntimeError, match="replace_all_batch_norm_modules_"):
        vmap(layer)(tessera.randn(2, 4, 3))


# --- derivatives ---


def test_jacobians_agree_and_have_trees():
    f = lambda d, b: {"p": (d["a"] @ b).sin(), "q": d["a"].sum() * b[0]}
    d, b = {"a": numbers(3, 2)}, numbers(2, seed=1)
    one, two = jacrev(f, (0, 1))(d, b), jacfwd(f, (0, 1))(d, b)
    assert one["p"][0]["a"].shape == (3, 3, 2) and one["q"][1].shape == (2,)
    for k in "pq":
        close(one[k][0]["a"], two[k][0]["a"])
        close(one[k][1], two[k][1])


def test_hessian_of_two_arguments():
    f = lambda a, b: (a**2 * b.sin()).sum()
    a, b = numbers(3), numbers(3, seed=1)
    (aa, ab), (ba, bb) = hessian(f, (0, 1))(a, b)
    close(aa, tessera.diag(2 * b.sin()))
    close(ab, tessera.diag(2 * a * b.cos()))
    close(ba, ab.T)
    close(bb, tessera.diag(-(a**2) * b.sin()))


def test_jvp_linearize_and_vjp_have_the_same_jacobian():
    f = lambda x: (x.sin() * x.sum()).cumsum(0)
    x, v = numbers(4), numbers(4, seed=1)
    jacobian = jacrev(f)(x)
    close(jvp(f, (x,), (v,))[1], jacobian @ v)
    close(linearize(f, x)[1](v), jacobian @ v)
    close(vjp(f, x)[1](v)[0], v @ jacobian)
    close(vmap(lambda t: jvp(f, (x,), (t,))[1])(tessera.eye(4, dtype=F64)), jacobian.T)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: grad(lambda x: x)(tessera.ones(2)), "scalar"),
        (lambda: grad(lambda x: 1)(tessera.ones(2)), "scalar tensor"),
        (lambda: grad(tessera.sum, argnums=1)(tessera.ones(2)), "argnum"),
        (lambda: grad(tessera.sum, argnums=())(tessera.ones(2)), "argnums"),
        (lambda: grad(lambda x: x.sum(), has_aux=True)(tessera.ones(2)), "tuple"),
        (lambda: vjp(lambda x: x, tessera.ones(2))[1](tessera.ones(3)), "shape"),
        (lambda: vjp(lambda x: x, tessera.ones(2))[1]((tessera.ones(2), tessera.ones(2))), "structure"),
        (lambda: jvp(lambda x: x, (tessera.ones(2),), (tessera.ones(3),)), "shape"),
        (lambda: grad(lambda x: x.requires_grad_().sum(), argnums="x")(tessera.ones(2)), "argnums"),
    ],
)
def test_errors(call, error):
    with pytest.raises(RuntimeError, match=error):
        call()
    assert not tessera._C._func._levels()


def test_writing_a_derivative_to_a_captured_tensor_raises():
    y = tessera.zeros(3)
    with pytest.raises(RuntimeError, match="captured"):
        grad(lambda x: y.add_(x).sum())(tessera.ones(3))


def test_an_exception_ends_its_levels():
    def f(x):
        raise KeyError("x")

    with tessera.no_grad(), pytest.raises(KeyError):
        vmap(grad(f))(tessera.ones(3))
    assert not tessera._C._func._levels() and tessera.is_grad_enabled()


# --- modules ---


def test_functional_call_leaves_modules_alone_and_hands_buffers_back():
    class Counter(tessera.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", tessera.zeros(()))

        def forward(self, x):
            self.n = self.n + 1
            return x + self.n

    m, state = Counter(), {"n": tessera.tensor(5.0)}
    assert functional_call(m, (state,), (tessera.zeros(()),)).item() == 6
    assert m.n.item() == 0 and state["n"].item() == 6
    with pytest.raises(ValueError, match="multiple dictionaries"):
        functional_call(m, (state, state), (tessera.zeros(()),))


def test_ensembles():
    models = [
        tessera.nn.Sequential(tessera.nn.Linear(3, 4), tessera.nn.Tanh(), tessera.nn.Linear(4, 2)) for _ in range(3)
    ]
    p, b = stack_module_state(models)
    x = tessera.randn(3, 5, 3)
    out = vmap(lambda p, b, x: functional_call(models[0], (p, b), (x,)))(p, b, x)
    close(out, tessera.stack([m(v) for m, v in zip(models, x)]))
    out.sum().backward()
    assert p["0.weight"].grad.shape == (3, 4, 3)


# --- custom functions ---


class Cube(tessera.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x**3, x**2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output[1])
        ctx.mark_non_differentiable(output[1])
        ctx.factor = 3

    @staticmethod
    def backward(ctx, g, _):
        x, square = ctx.saved_tensors
        return CubeBackward.apply(x, g) if ctx.needs_input_grad[0] else None


class CubeBackward(tessera.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, g):
        return 3 * x**2 * g

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, before = ctx.saved_tensors
        return 6 * x * before * g, 3 * x**2 * g


class Scale(tessera.autograd.Function):
    calls = 0

    @staticmethod
    def forward(x, factor):
        return x * factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, factor = ctx.saved_tensors
        return g * factor, (g * x).sum()

    @staticmethod
    def vmap(info, in_dims, x, factor):
        Scale.calls += 1
        assert info.batch_size == 4 and info.randomness == "error"
        x = x.movedim(in_dims[0], 0) if in_dims[0] is not None else x.expand(4, *x.shape)
        factor = factor.view(-1, *[1] * (x.dim() - 1)) if in_dims[1] is not None else factor
        return x * factor, 0


def test_generated_vmap_rules():
    x = numbers(4, 3)
    cube = lambda v: Cube.apply(v)[0]
    close(vmap(cube, in_dims=1)(x), (x**3).T)
    close(vmap(grad(lambda v: cube(v).sum()))(x), 3 * x**2)
    close(vmap(vmap(grad(grad(lambda v: cube(v)))))(x), 6 * x)
    leaf = x.clone().requires_grad_()
    vmap(cube)(leaf).sum().backward()
    close(leaf.grad, 3 * x**2)


def test_own_vmap_rules():
    x, s = numbers(4, 3), numbers(4, seed=1)
    before = Scale.calls
    close(vmap(Scale.apply)(x, s), x * s[:, None])
    assert Scale.calls == before + 1
    close(grad(lambda v: Scale.apply(v, s[0]).sum())(x), x * 0 + s[0])


def test_indices_that_are_mapped_over():
    """What looks at the range of indices leaves that, inside, to what uses them."""
    x, y = tessera.randn(3, 2, 4), tessera.tensor([[0, 1], [3, 2], [1, 1]])
    labels = tessera.tensor([[[0, 1, -1, -1], [2, -1, 0, 0]]]).expand(3, 2, 4)
    places = tessera.arange(4).reshape(1, 2, 2) * tessera.tensor([1, 3, 4]).reshape(3, 1, 1, 1)
    F = tessera.nn.functional
    for f, args in (
        (F.multi_margin_loss, (x, y)),
        (F.multilabel_margin_loss, (x, labels)),
        (lambda a, i: F.max_unpool2d(a, i, 2), (x.reshape(3, 2, 2, 2)[:, :1], places)),
        (lambda a, i: F.max_unpool1d(a, i, 2), (x, y.unsqueeze(-1) + tessera.arange(4))),
        (lambda a: tessera.bincount(a, minlength=5), (y,)),
    ):
        expected = tessera.stack([f(*each) for each in zip(*args)])
        tessera.testing.assert_close(tessera.vmap(f)(*args), expected)
    with pytest.raises((RuntimeError, IndexError), match="range|out of bounds"):
        tessera.vmap(F.multi_margin_loss)(x, y + 4)
    with pytest.raises(RuntimeError, match="minlength"):
        tessera.vmap(tessera.bincount)(y)
    weights, of = tessera.rand(3, 2), tessera.tensor([1, 4])
    counts = tessera.vmap(lambda w: tessera.bincount(of, w))(weights)
    tessera.testing.assert_close(counts, tessera.stack([tessera.bincount(of, w) for w in weights]))


def test_functions_without_rules_say_so():
    class Plain(tessera.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with pytest.raises(RuntimeError, match="setup_context"):
        grad(lambda x: Plain.apply(x))(tessera.tensor(1.0))
    with pytest.raises(RuntimeError, match="vmap"):
        vmap(Plain.apply)(tessera.ones(3))


def test_registered_rules_of_operators():
    calls = []
    lib = tessera.library.Library("func_test", "DEF")
    lib.define("twice(Tensor x, float by=2.0) -> Tensor")
    lib.impl("twice", lambda x, by=2.0: x * by, "CompositeExplicitAutograd")

    def rule(info, in_dims, x, by=2.0):
        calls.append((info.batch_size, in_dims[0]))
        return x * by, in_dims[0]

    tessera.library.register_vmap("func_test::twice", rule, lib=lib)
    x = numbers(3, 4)
    close(vmap(tessera.ops.func_test.twice, in_dims=1)(x), 2 * x.T)
    assert calls == [(4, 1)]
    with pytest.raises(RuntimeError, match="own operator"):
        tessera.library.register_vmap("aten::sin", rule)


# --- autograd on top ---


def test_batched_gradients_run_once():
    x = numbers(3).requires_grad_()
    calls = []
    x.register_hook(lambda g: calls.append(g.shape))
    y = x**2
    (j,) = tessera.autograd.grad(y, x, tessera.eye(3, dtype=F64), is_grads_batched=True)
    close(j, tessera.diag(2 * x.detach()))
    assert calls == [(3,)]


def test_vectorized_functional_jacobian_and_hessian():
    f = lambda a, b: (a * b.sin()).sum() * a
    a, b = numbers(3), numbers(3, seed=1)
    for plain, fast in zip(
        tessera.autograd.functional.jacobian(f, (a, b)), tessera.autograd.functional.jacobian(f, (a, b), vectorize=True)
    ):
        close(plain, fast)
    g = lambda a: (a**3).sum()
    close(tessera.autograd.functional.hessian(g, a, vectorize=True), tessera.diag(6 * a))


def test_names_that_other_libraries_use():
    from tessera._functorch.vmap import _add_batch_dim, _broadcast_to_and_flatten, _remove_batch_dim, tree_flatten

    level = tessera._C._func._push_vmap(2, "error")
    try:
        inside = _add_batch_dim(tessera.ones(2, 3), 0, level)
        assert inside.shape == (3,) and tessera._C._functorch.is_batchedtensor(inside)
        assert _remove_batch_dim(inside * 2, level, 2, 0).shape == (2, 3)
        assert tessera._C._functorch.get_unwrapped(inside).shape == (2, 3)
    finally:
        tessera._C._func._pop(level)
    assert _broadcast_to_and_flatten(0, tree_flatten((1, 2))[1]) == [0, 0]


def test_vmap_goes_by_the_steps_that_a_library_puts_in_its_place(monkeypatch):
    """As tensordict does, whose containers know a batch size besides their tensors."""
    from tessera._functorch import vmap as steps

    class Box:
        def __init__(self, tensor, size):
            self.tensor, self.size = tensor, size

    plain = (steps._process_batched_inputs, steps._create_batched_inputs, steps._unwrap_batched)

    def process(in_dims, args, func):
        size, dims, leaves, spec = plain[0](in_dims, [a.tensor for a in args], func)
        return size, dims, leaves, spec

    def create(dims, leaves, level, spec):
        return [Box(t, t.shape) for t in plain[1](dims, leaves, level, spec)]

    def unwrap(box, out_dims, level, size, func):
        assert box.size == box.tensor.shape == (3,)
        outside = plain[2](box.tensor, out_dims, level, size, func)
        return Box(outside, outside.shape)

    monkeypatch.setattr(steps, "_process_batched_inputs", process)
    monkeypatch.setattr(steps, "_create_batched_inputs", create)
    monkeypatch.setattr(steps, "_unwrap_batched", unwrap)
    x = tessera.arange(6.0).reshape(2, 3)
    made = tessera.func.vmap(lambda box: Box(box.tensor * 2, box.size))(Box(x, x.shape))
    assert made.size == (2, 3) and made.tensor.tolist() == (x * 2).tolist()
    monkeypatch.undo()
    assert tessera.func.vmap(lambda t: t * 2, out_dims=1)(x).tolist() == (x * 2).T.tolist()
    size, dims, leaves, spec = plain[0](0, (x, [x]), len)
    assert (size, dims, len(leaves)) == (2, [0, 0], 2)


def test_numbers_are_read_inside_of_grad():
    """What a level tracks has one value: lists of it, and operators whose results depend on the values."""
    x = tessera.tensor([1.0, 2.0])
    F = tessera.nn.functional
    assert grad(lambda v: (v * v.tolist()[1] + tessera.tensor([3]).tolist()[0]).sum())(x).tolist() == [2, 2]
    assert jvp(lambda v: v * tessera.tensor([3]).tolist()[0], (x,), (x,))[1].tolist() == [3, 6]
    assert grad(lambda v: (v * F.one_hot(tessera.tensor(1), 2)).sum())(x).tolist() == [0, 1]
    assert grad(lambda v: (v * F.one_hot(v.long() - 1)[1]).sum())(x).tolist() == [0, 1]
    assert grad(lambda v: (v * tessera.bincount(tessera.tensor([1, 1]))).sum())(x).tolist() == [0, 2]
    losses = jacrev(lambda v: F.ctc_loss(v.log_softmax(-1), tessera.tensor([[1]]), tessera.tensor([2]), [1]))
    assert losses(tessera.ones(2, 1, 3)).shape == (2, 1, 3)
    classes = tessera.tensor([[0, 2], [1, 1]])
    assert vmap(lambda c: F.one_hot(c, 3))(classes).equal(F.one_hot(classes, 3))
    with pytest.raises(RuntimeError):
        vmap(F.one_hot)(classes)
    with pytest.raises(RuntimeError):
        vmap(lambda c: c.tolist())(classes)


def test_arguments_that_are_no_tensors():
    for call in (lambda: grad(lambda v: v)(3), lambda: vjp(lambda v: v, 3.0), lambda: jacrev(lambda v: v)([1])):
        with pytest.raises(ValueError, match="unsupported type"):
            call()
    with pytest.raises(RuntimeError, match="at least one Tensor"):
        jvp(lambda: None, (), ())


def test_what_is_no_tensor_is_returned_where_out_dims_is_none():
    x = tessera.arange(3.0)
    assert tessera.vmap(lambda v: "done", out_dims=None)(x) == "done"
    doubled, note = tessera.vmap(lambda v: (2 * v, 7), out_dims=(0, None))(x)
    assert doubled.tolist() == [0, 2, 4] and note == 7
    with pytest.raises(ValueError, match="must only return Tensors"):
        tessera.vmap(lambda v: "done")(x)
