"""jit.trace: sizes and what is computed with them stay functions of the inputs, also in archives."""

import io
import math
import warnings

import pytest
import tessera as t
from tessera import jit, nn
from tessera.nn import functional as F


def store(x):
    y = x.clone()
    y[: x.size(0) // 2, 1:] = x.size(1)
    y[0] = 1.0
    y[-1, x.size(1) - 1] = 7
    return y


def count_up(x):
    n = x.size(0)
    n += 1
    return t.zeros(n, x.size(1)).fill_(n)


@jit.script
def repeated(x, n: int, shape: list[int]):
    return x.new_zeros(shape).repeat(n, 1)


@jit.script
def rows(x) -> int:
    return x.size(0)


PROGRAMS = {
    "size": lambda x: t.zeros(x.size(0)),
    "shape": lambda x: t.zeros(x.shape[0], 3),
    "whole shape": lambda x: t.zeros(x.shape),
    "last": lambda x: t.ones(x.size(-1)),
    "numel": lambda x: t.arange(x.numel()) + t.numel(x) + x.shape.numel(),
    "arithmetic": lambda x: t.zeros(x.size(0) * 2 // 3, x.size(1) + 1, 70 // x.size(0), 10 - x.size(0) % 3),
    "view": lambda x: x.view(x.size(0), -1),
    "list": lambda x: x.view([*x.shape, 1]),
    "unpacked": lambda x: x.reshape(*x.size(), 1),
    "part of a shape": lambda x: x.new_zeros(x.shape[1:]),
    "shape and more": lambda x: x.new_zeros(x.shape[:-1] + (3,)),
    "Size": lambda x: t.zeros(t.Size([x.size(0), 2])),
    "product": lambda x: t.zeros(math.prod(x.shape)),
    "operand": lambda x: (x * x.size(0) + x.size(1) ** 2) / x.size(1) ** 0.5,
    "scalar": lambda x: t.add(x, x, alpha=x.size(0)).clamp(0, x.size(1)),
    "keyword": lambda x: t.addmm(x, x, x.t() @ x, beta=x.size(0), alpha=2),
    "mean": lambda x: x.sum() / x.numel(),
    "slices": lambda x: x[: x.size(0) // 2, 1 : x.shape[1] - 1 : 2],
    "slices from the end": lambda x: x[1:, -2:],
    "last row": lambda x: x[-1, 1:],
    "index": lambda x: x[x.size(0) - 1, ..., None],
    "column": lambda x: x[:, x.size(1) - 1],
    "stop of a tensor": lambda x: x[: (x[0] * 0).sum().long() + 2],
    "gather": lambda x: x[t.arange(x.size(0)), t.zeros(x.size(0), dtype=t.long)],
    "store": store,
    "in place": count_up,
    "result": lambda x: x.size(0),
    "results": lambda x: (x, x.shape),
    "expand": lambda x: x[:1].expand(x.size(0), -1),
    "pad": lambda x: F.pad(x, (x.size(1) // 2, x.size(0)), value=2.0),
    "resize": lambda x: F.interpolate(x[None, None], size=(x.size(0) * 2, x.size(1))),
    "rescale": lambda x: F.interpolate(x[None, None], scale_factor=1.5),
    "number": lambda x: t.full((x.size(0),), x.size(1)),
    "range": lambda x: t.arange(0, x.size(0), 2, dtype=t.float),
    "diagonal": lambda x: t.ones(x.size(0), x.size(0)).tril(x.size(0) - 5),
    "heads": lambda x: x.view(x.size(0), 2, x.size(1) // 2).transpose(0, 1),
    "norm": lambda x: F.layer_norm(x, x.size()[1:]),
    "pool": lambda x: F.max_pool1d(x[None], 2, x.size(0) // 2),
    "positions": lambda x: x + t.arange(x.size(1)).unsqueeze(0),
    "data": lambda x: x.data * x.size(0),
    "script": lambda x: repeated(x, x.size(0), x.shape),
    "size from a script": lambda x: t.zeros(rows(x) + 1),
}


def numbers(n, m):
    return t.arange(n * m, dtype=t.float32).view(n, m) % 7 - 3


def same(a, b):
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    a, b = t.as_tensor(a), t.as_tensor(b)
    return a.dtype == b.dtype and a.shape == b.shape and t.allclose(a, b)


def stored(program):
    file = io.BytesIO()
    jit.save(program, file)
    file.seek(0)
    return jit.load(file)


@pytest.mark.parametrize("name", PROGRAMS)
def test_other_sizes(name):
    program = PROGRAMS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jit.TracerWarning)
        traced = jit.trace(program, (numbers(4, 6),))
    for form in (traced, stored(traced)):
        for size in ((4, 6), (6, 8), (8, 10), (5, 12)):
            x = numbers(*size)
            assert same(program(x), form(x)), size


def test_graph_has_the_documented_operators():
    graph = str(jit.trace(lambda x: t.zeros(x.size(0) * 2, 3), (t.ones(2),)).graph)
    for text in ("aten::size(", "prim::NumToTensor(", "aten::mul(", "aten::Int(", "prim::ListConstruct("):
        assert text in graph
    assert "aten::ScalarImplicit(" in str(jit.trace(lambda x: t.arange(x.numel()), (t.ones(2),)).graph)


def test_sizes_are_tensors_while_a_trace_is_under_way():
    seen = []

    def program(x):
        seen.append((x.size(0), x.shape, x.numel(), t.ones(3).size(0), x.dim()))
        return x + 1

    jit.trace(program, (t.ones(2, 3),), check_trace=False)
    size, shape, count, known, dims = seen[0]
    assert size.dtype == t.int64 and size.dim() == 0 and isinstance(shape, t.Size)
    assert [int(n) for n in shape] == [2, 3] and int(count) == 6
    assert isinstance(known, t.Tensor) and isinstance(dims, int)
    assert type(t.ones(2).size(0)) is int and type(t.ones(2).numel()) is int


@pytest.mark.parametrize(
    ("program", "text"),
    [
        (lambda x: t.zeros(int(x.size(0))), "Python integer"),
        (lambda x: x * float(x.size(0)), "Python float"),
        (lambda x: x if x.size(0) > 1 else -x, "Python boolean"),
        (lambda x: x * x.sum().item(), "Python number"),
        (lambda x: x * x.sum(0).tolist()[0], "Python list"),
        (lambda x: x + t.from_numpy(x.numpy()), "NumPy array"),
        (lambda x: x * len(x), "Using len to get tensor shape"),
        (lambda x: sum(row for row in x), "Iterating over a tensor"),
        (lambda x: x + t.tensor([1.0]), "torch.tensor results are registered as constants"),
    ],
)
def test_what_becomes_a_constant_warns(program, text):
    with pytest.warns(jit.TracerWarning, match=text):
        jit.trace(program, (t.ones(2, 3),), check_trace=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", jit.TracerWarning)
        program(t.ones(2, 3))


def test_module_with_sizes():
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(8, 24)
            self.register_buffer("mask", t.ones(16, 16).tril().bool())

        def forward(self, x):
            b, n, d = x.shape
            q, k, v = self.qkv(x).view(b, n, 3, 2, d // 2).permute(2, 0, 3, 1, 4)
            scores = (q @ k.transpose(-2, -1)) / math.sqrt(4)
            scores = scores.masked_fill(~self.mask[:n, :n], float("-inf"))
            return (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d)

    module = Attention().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jit.TracerWarning)
        traced = jit.trace(module, (t.randn(2, 5, 8),))
    for form in (traced, stored(traced), jit.freeze(traced)):
        for b, n in ((1, 3), (4, 16), (2, 5)):
            x = t.randn(b, n, 8)
            assert t.allclose(module(x), form(x), atol=1e-6)


def test_numbers_go_to_the_call_that_got_them():
    """A call that fails, or that is not recorded, leaves nothing behind for the next one."""

    def program(x):
        try:
            x.view(x.size(0) + 1, 5)
        except RuntimeError:
            pass
        return x.view(-1, 3) + t.zeros(2, 3)

    traced = jit.trace(program, (t.ones(2, 3),), check_trace=False)
    assert "aten::Int" not in str(traced.graph)
    assert same(traced(t.ones(2, 3)), t.ones(2, 3))
