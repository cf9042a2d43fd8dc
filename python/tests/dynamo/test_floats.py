"""Floats as arguments of compiled functions: symbols from their second value on, which graphs read from a tensor."""

import math

import pytest
import tessera
from tessera import _dynamo, nn
from tessera._dynamo.testing import EagerAndRecordGraphs

x = tessera.arange(3.0)


def graphs(function, *values, **options):
    """The graphs that calls with these floats take; results are compared with those of the function."""
    backend = EagerAndRecordGraphs()
    compiled = tessera.compile(function, backend=backend, **options)
    for value in values:
        found, wanted = compiled(x.clone(), value), function(x.clone(), value)
        for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (found, wanted)), strict=True):
            if isinstance(b, tessera.Tensor):
                tessera.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)
            else:
                assert type(a) is type(b) and a == b
    return backend.graphs


def inputs(graph):
    return [n.meta["example_value"] for n in graph.graph.nodes if n.op == "placeholder"]


def test_a_float_that_differs_is_a_tensor_of_the_graph():
    first, second = graphs(lambda x, y: x * y, 2.0, 3.0, 4.5, 0.0, -0.0)
    assert len(inputs(first)) == 1
    (number,) = [v for v in inputs(second) if v.dim() == 0]
    assert number.dtype is tessera.float64 and "l_y_.item()" in second.code
    assert len(graphs(lambda x, y: x * y, 2.0, 3.0, dynamic=True)) == 1
    assert len(graphs(lambda x, y: x * y, 2.0, 3.0, 4.0, dynamic=False)) == 3
    with _dynamo.config.patch(specialize_float=True):
        assert len(graphs(lambda x, y: x * y, 2.0, 3.0, 4.0)) == 3


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x * math.sqrt(y) + math.sin(y) - math.log2(y),
        lambda x, y: x * (y // 2) + y % 3 + -y + abs(y) + min(y, 3.0) + max(y, 3.0) + round(y) + y**2 + 1 / y,
        lambda x, y: tessera.add(x, x, alpha=y) + tessera.full((3,), y),
        lambda x, y: nn.functional.leaky_relu(x - 1, y) + x.clamp(y) ** y,
        lambda x, y: tessera.where(x > y, x, y),
        lambda x, y: x.new_zeros(int(y * 4)),
        lambda x, y: (x.sin(), y * 2 + 1, y == 3.0),
        lambda x, y: x.fill_(y).add_(y),
        lambda x, y: (x + 0.1 * y).half() * y if isinstance(y, float) else x,
        lambda x, y: tessera.vmap(lambda t: t * y)(x),
        lambda x, y: tessera.cond(x.sum() > 1, lambda x: x * y, lambda x: x - y, (x,)),
    ],
)
def test_one_graph_for_all_other_values(function):
    assert len(graphs(function, 2.0, 3.25, 4.5, 7.1)) == 2


def test_branches_are_guarded_in_the_programs_own_arithmetic():
    def branch(x, y):
        return x * y if y * 0.1 + 0.2 > 0.3 + 0.1 * 2 else x - y

    assert len(graphs(branch, 2.0, 3.0, 3.0000000000000004, 2.9999999999999996, 1.0, 9.0)) <= 3


def test_sizes_and_python_take_their_numbers():
    assert len(graphs(lambda x, y: tessera.arange(y) + 1, 2.0, 3.0, 4.0)) == 3
    up = lambda x, y: nn.functional.interpolate(x[None, None], scale_factor=y)  # noqa: E731
    assert len(graphs(up, 2.0, 3.0, 4.0)) == 3
    graphs(lambda x, y: (x * y, f"{y}"), 2.0, 3.0, 4.0)
    graphs(lambda x, y: x * {1.0: 2, 2.0: 3, 3.0: 4}[y], 1.0, 2.0, 3.0)
    graphs(lambda x, y: x * y if y.is_integer() else x, 1.0, 2.0, 3.5, 4.5)


def test_what_is_not_finite_stays_a_number():
    assert len(graphs(lambda x, y: x * y, 2.0, math.inf, math.nan, 4.0, 5.0)) == 4


def test_attributes_globals_and_closures():
    class Scaled(nn.Module):
        scale = 1.0

        def forward(self, x):
            return x * self.scale

    module, backend = Scaled(), EagerAndRecordGraphs()
    compiled = tessera.compile(module, backend=backend)
    for value in (1.0, 2.0, 3.0, 4.0):
        module.scale = value
        assert tessera.equal(compiled(x), x * value)
    assert len(backend.graphs) == 2


def test_gradients_and_ahead_of_time_backends():
    for name in ("eager", "aot_eager"):
        compiled = tessera.compile(lambda x, y: (x * y).sin(), backend=name)
        for y in (1.0, 2.0, 3.0, 4.0):
            leaf = x.clone().requires_grad_()
            compiled(leaf, y).sum().backward()
            assert tessera.equal(leaf.grad, (x * y).cos() * y)


def test_layers_with_floats_as_symbols():
    layers = [
        (nn.LayerNorm(4), (2, 4)), (nn.BatchNorm1d(4), (3, 4)), (nn.Dropout(0.0), (3,)), (nn.ELU(0.5), (3,)),
        (nn.GroupNorm(2, 4), (2, 4, 3)), (nn.RMSNorm(4), (2, 4)), (nn.Hardtanh(-0.5, 0.5), (4,)), (nn.CELU(), (3,)),
        (nn.Softplus(), (3,)), (nn.InstanceNorm1d(4), (2, 4, 3)), (nn.Threshold(0.1, 2.0), (3,)),
        (nn.CosineSimilarity(), (2, 4)), (nn.PairwiseDistance(), (2, 4)), (nn.Upsample(scale_factor=2.0), (1, 2, 3)),
        (nn.TransformerEncoderLayer(8, 2, dropout=0.0, batch_first=True), (2, 3, 8)),
        (nn.LocalResponseNorm(2), (2, 4, 3)),
    ]  # fmt: skip
    for layer, shape in layers:
        value = tessera.randn(shape)
        args = (value, value + 1) if isinstance(layer, (nn.CosineSimilarity, nn.PairwiseDistance)) else (value,)
        found = tessera.compile(layer, backend="eager", dynamic=True)(*args)
        tessera.testing.assert_close(found, layer(*args), msg=type(layer).__name__)
