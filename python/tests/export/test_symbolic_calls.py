"""Calls that kept sizes fixed, or were refused, while a program with dynamic sizes is traced."""

import io
import math

import pytest

import tessera
from tessera import nn
from tessera.export import Dim, export, load, save

DYNAMIC = {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}


class Fn(nn.Module):
    """A function as a module."""

    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x):
        return self.f(x)


def check(f, first=(2, 8), others=((3, 5), (7, 2)), make=tessera.rand):
    """Exports, saves, loads, runs with other sizes: the same bits."""
    program = export(Fn(f), (make(*first),), dynamic_shapes=(DYNAMIC,))
    file = io.BytesIO()
    save(program, file)
    file.seek(0)
    loaded = load(file).module()
    for sizes in others:
        x = make(*sizes)
        assert tessera.equal(loaded(x), f(x))
    return program


class Passing(tessera.overrides.TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("mode", [None, Passing])
@pytest.mark.parametrize(
    "f",
    [
        lambda x: x + x.shape[0], lambda x: x.shape[1] - x, lambda x: x / x.shape[1], lambda x: x < x.shape[0],
        lambda x: x**x.shape[0], lambda x: x.clone().mul_(x.shape[1]), lambda x: (x * 9) // x.shape[1],
    ],
)  # fmt: skip
def test_tensors_and_sizes_are_operands(f, mode):
    def within(x):
        with mode():
            return f(x)

    check(f if mode is None else within)


def causal(x):
    rows, columns = tessera.arange(x.shape[0]), tessera.arange(x.shape[1])
    f = lambda i, j: (j <= i) & (tessera.ops.aten.index.Tensor(x, [i, j]) > 0.3)  # noqa: E731
    return tessera.vmap(tessera.vmap(f, (None, 0)), (0, None))(rows, columns)


@pytest.mark.parametrize(
    "f",
    [
        causal,
        tessera.vmap(lambda row: row.flip(0).cumsum(0) - row.shape[0]),
        tessera.vmap(lambda row: (row @ row.unsqueeze(1)).squeeze(), in_dims=1),
        lambda x: tessera.vmap(lambda row, all: all @ row, in_dims=(0, None), out_dims=1)(x, x),
        lambda x: tessera.vmap(lambda row: x.sum(), out_dims=0)(x),
    ],
)
def test_vmap_over_sizes_that_differ(f):
    program = check(f)
    assert not any("8" in str(a) for n in program.graph.nodes for a in n.args)


def test_what_vmap_refuses():
    with pytest.raises(ValueError, match="out_dim is None"):
        export(Fn(tessera.vmap(lambda row: row + 1, out_dims=None)), (tessera.ones(2, 8),), dynamic_shapes=(DYNAMIC,))


def test_a_loop_counts_in_a_constant():
    from tessera._higher_order_ops import while_loop

    def f(x):
        return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (tessera.tensor(0), x))[1]

    assert check(f).module()(tessera.ones(2, 2)).tolist() == [[8.0, 8.0], [8.0, 8.0]]


def test_errors_name_the_line_that_fixed_a_size():
    def f(x):
        return x.reshape(2, -1) if x.shape[0] == 2 else x

    with pytest.raises(RuntimeError, match=r"specialized it to be a constant \(2\).*test_symbolic_calls.py:\d+"):
        export(Fn(f), (tessera.ones(2, 8),), dynamic_shapes=({0: Dim("n")},))


REPEATS = tessera.tensor([1, 0, 2])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: tessera.repeat_interleave(x, REPEATS, dim=0, output_size=3),
        lambda x: tessera.repeat_interleave(x, REPEATS, dim=0),
        lambda x: tessera.repeat_interleave(REPEATS, output_size=3),
        lambda x: nn.functional.one_hot((x * 5).long(), 6),
        lambda x: tessera.bincount((x[0] * 5).long(), minlength=6),
    ],
)
@pytest.mark.parametrize("dynamic", [None, ({1: Dim.DYNAMIC},)])
def test_sizes_that_values_would_tell(f, dynamic):
    x = tessera.rand(3, 8)
    loaded = export(Fn(f), (x,), dynamic_shapes=dynamic).module()
    y = tessera.rand(3, 8 if dynamic is None else 5)
    assert tessera.equal(loaded(y), f(y))


def test_without_symbols_sizes_of_values_are_refused():
    from tessera._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensorMode

    mode = FakeTensorMode()
    x = mode.from_tensor(REPEATS)
    for f in (lambda: tessera.bincount(x), lambda: tessera.repeat_interleave(x, x)):
        with pytest.raises(DynamicOutputShapeException):
            f()
    assert tessera.repeat_interleave(x, x, output_size=3).shape == (3,)
    with pytest.raises(RuntimeError, match="must have the same size as input along dim"):
        tessera.repeat_interleave(mode.from_tensor(tessera.ones(2, 2)), x, dim=1, output_size=3)


def test_masks_of_attention_are_inputs():
    model = nn.Transformer(8, 2, 1, 1, 16, batch_first=True).eval()

    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x, mask):
            return self.model(x, x, tgt_mask=mask)

    b, s = Dim("b"), Dim("s")
    mask = nn.Transformer.generate_square_subsequent_mask
    program = export(Masked(), (tessera.rand(2, 5, 8), mask(5)), dynamic_shapes=({0: b, 1: s}, {0: s, 1: s}))
    x = tessera.rand(3, 7, 8)
    assert tessera.equal(program.module()(x, mask(7)), model(x, x, tgt_mask=mask(7)))


def test_what_a_module_remembers_is_taken_back():
    class Remembers(nn.Module):
        def __init__(self):
            super().__init__()
            self.cache, self.seen = {}, [1]

        def forward(self, x):
            self.seen.append(x)
            if "two" not in self.cache:
                self.cache["two"] = x * 2
            return self.cache["two"]

    module = Remembers()
    program = export(module, (tessera.ones(2),))
    assert module.cache == {} and module.seen == [1]
    assert program.module()(tessera.ones(2)).tolist() == [2, 2]


class Program(nn.Module):
    """A function of any arguments as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


space = {}
TEXT = """
def asserted(x):
    assert x.max().item() > 0
    assert (x < 9).all(), "too large"
    assert not (x < -9).any()
    return x + 1
"""
exec(compile(TEXT, "program.py", "exec"), space)  # not as pytest writes assertions
asserted = space["asserted"]


def best(scores, most):
    kept = scores[scores > 0.15]
    count = tessera.minimum(most, tessera.tensor(kept.shape[0])).item()
    return kept.sort(descending=True).values[:count]


NUMBERS = [tessera.tensor([n, n]) for n in (3, 5, 8)]
UNKNOWN = {
    "equal": (lambda n: tessera.ones(n[0].item()).expand(n[1].item()), [(n,) for n in NUMBERS]),
    "a known one": (
        lambda x, w: tessera.layer_norm(x.masked_select(x == x)[None], w.shape, w) * x.nonzero().shape[0],
        [(tessera.ones(70), tessera.ones(70))],
    ),
    "multiples": (lambda x, m: x.masked_select(m).view(-1, 9) * 2, [
        (tessera.randn(7, 9), tessera.arange(7)[:, None] % k == 0) for k in (2, 3)
    ]),
    "max": (lambda n: tessera.ones(max(n[0].item(), 4) + min(2, n[0].item())), [(n,) for n in NUMBERS]),
    "tensors' max": (lambda x: max(x.max(), x.sum()), [(tessera.ones(3),), (-tessera.ones(3),)]),
    "pow": (lambda n, x: x * math.pow(n[0].item(), 2), [(n, tessera.ones(2)) for n in NUMBERS]),
    "assert": (asserted, [(tessera.ones(3),)]),
    "tensor": (
        lambda x: tessera.tensor(x.nonzero().shape[0]) * 2, [(tessera.ones(3),), (tessera.tensor([1.0, 0.0, 2.0]),)]
    ),
    "names of results": (best, [(tessera.rand(9), tessera.tensor(k)) for k in (3, 20)]),
    "an item of a constant": (
        lambda n: tessera.arange(8)[n[0].item() - 1] * 2, [(n,) for n in NUMBERS]
    ),
    "no 1": (
        lambda n, x: x[:, None].expand(4, n[0].item() // 2, 3) @ x[0], [(n, tessera.randn(4, 3)) for n in NUMBERS]
    ),
}  # fmt: skip


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", UNKNOWN)
def test_sizes_that_values_give(name, strict):
    function, calls = UNKNOWN[name]
    program = export(Program(function), calls[0], strict=strict).module()
    for args in calls:
        tessera.testing.assert_close(program(*args), function(*args), rtol=0, atol=0)
    if name == "assert":
        with pytest.raises(RuntimeError, match="assertion failed"):
            program(-tessera.ones(3))


def test_attention_with_shared_keys_is_taken_apart():
    q, k, v = tessera.randn(1, 8, 5, 4), tessera.randn(1, 2, 5, 4), tessera.randn(1, 2, 5, 4)
    attend = Program(lambda q, k, v: tessera.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True))
    taken_apart = export(attend, (q, k, v)).run_decompositions().module()
    tessera.testing.assert_close(taken_apart(q, k, v), attend(q, k, v))


def test_views_by_strides_and_packets_keep_their_sizes():
    aten = tessera.ops.aten
    check(lambda x: aten.as_strided(x.contiguous(), (x.shape[0], 2), (x.shape[1], 1), 0))
    check(lambda x: aten.view(x, (x.shape[0] * x.shape[1],)))
    program = check(lambda x: x.as_strided((x.shape[0] - 1, 2), (x.shape[1], 1), 1), (3, 8))
    assert all(limits.lower <= 2 for limits in program.range_constraints.values())

    def counted(x):
        n = x.sum().int().item()
        tessera._check(n >= 0)
        return x.as_strided((n, 2), (1, 0))

    program = export(Fn(counted), (tessera.ones(2, 8),), dynamic_shapes=(DYNAMIC,))
    assert program.module()(tessera.ones(3, 2)).shape == (6, 2)
    with pytest.raises(RuntimeError, match="out of bounds for storage"):
        program.module()(tessera.full((3, 2), 2.0))


@pytest.mark.parametrize("name", ["as_strided", "view", "slice", "narrow", "split", "expand", "unfold"])
def test_copies_of_views_are_decomposed_at_any_size(name):
    copies = {
        "as_strided": lambda x: tessera.as_strided_copy(x, (x.shape[0], 2), (x.shape[1], 1)),
        "view": lambda x: tessera.view_copy(x, (x.shape[0] * x.shape[1],)),
        "slice": lambda x: tessera.slice_copy(x, 0, 0, x.shape[0] - 1),
        "narrow": lambda x: tessera.narrow_copy(x, 0, 0, x.shape[0] - 1),
        "split": lambda x: tessera.split_copy(x, x.shape[0] - 1)[0],
        "expand": lambda x: tessera.expand_copy(x[None], (x.shape[0], *x.shape)),
        "unfold": lambda x: tessera.unfold_copy(x, 0, x.shape[0] - 1, 1),
    }
    program = export(Fn(copies[name]), (tessera.rand(4, 8),), dynamic_shapes=(DYNAMIC,)).run_decompositions()
    x = tessera.rand(6, 5)
    assert tessera.equal(program.module()(x), copies[name](x))
