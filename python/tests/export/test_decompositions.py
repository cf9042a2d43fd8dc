"""run_decompositions(): programs in core operators, and without writes."""

import io
import operator

import pytest

import tessera
from tessera import nn
from tessera.export import Dim, default_decompositions, export
from tessera.export.decomp_utils import CustomDecompTable

aten = tessera.ops.aten


def targets(program):
    nodes = [n for n in program.graph.nodes if n.op == "call_function"]
    return [n.target for n in nodes if n.target is not operator.getitem]


def conv_net():
    tessera.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))


def test_core_operators_and_new_values_of_buffers():
    m, x = conv_net(), tessera.randn(2, 1, 4, 4)
    program = export(m, (x,)).run_decompositions()
    assert targets(program) == [
        aten.convolution.default, aten.add.Tensor, aten._native_batch_norm_legit_functional.default, aten.relu.default,
        aten.view.default, aten.permute.default, aten.addmm.default,
    ]  # fmt: skip
    shown = [(s.kind.name, s.target) for s in program.graph_signature.output_specs]
    assert shown == [
        ("BUFFER_MUTATION", "1.running_mean"), ("BUFFER_MUTATION", "1.running_var"),
        ("BUFFER_MUTATION", "1.num_batches_tracked"), ("USER_OUTPUT", None),
    ]  # fmt: skip
    assert program.dialect == "ATEN"
    expected, found = m(x), program.module()(x)
    tessera.testing.assert_close(found, expected)
    assert program.state_dict["1.num_batches_tracked"].item() == 2  # the module's own: it was called, too


def test_an_empty_table_keeps_operators_and_takes_writes_out():
    program = export(conv_net(), (tessera.randn(2, 1, 4, 4),)).run_decompositions({})
    found = targets(program)
    assert aten.conv2d.default in found and aten.linear.default in found and aten.add_.Tensor not in found


def test_tables_say_what_is_decomposed():
    program = export(nn.Linear(2, 2), (tessera.ones(1, 2),))
    table = default_decompositions()
    assert isinstance(table, CustomDecompTable) and aten.linear.default in table
    del table[aten.linear.default]
    assert targets(program.run_decompositions(table)) == [aten.linear.default]
    table[aten.linear.default] = lambda x, w, b: aten.mm.default(x, aten.t.default(w)) + b
    assert aten.mm.default in targets(program.run_decompositions(table))
    copied = table.copy()
    copied.update({aten.linear.default: None})
    assert table[aten.linear.default] is not None and set(table.materialize()) == set(table.keys())
    with pytest.raises(KeyError):
        table.pop("nothing")
    with pytest.raises(TypeError, match="expected a dict"):
        program.run_decompositions([1])


def test_writes_to_inputs_and_views_are_outputs():
    class M(nn.Module):
        def forward(self, x):
            y = x.clone()
            y.view(-1)[0] = 7
            x.add_(1)
            return x * 2, y

    program = export(M(), (tessera.ones(2, 2),)).run_decompositions()
    assert [s.kind.name for s in program.graph_signature.output_specs] == [
        "USER_INPUT_MUTATION", "USER_OUTPUT", "USER_OUTPUT",
    ]  # fmt: skip
    assert not any(t._schema.is_mutable for t in targets(program))
    x = tessera.zeros(2, 2)
    twice, y = program.module()(x)
    assert x.tolist() == [[1, 1], [1, 1]] and twice.sum().item() == 8 and y.tolist() == [[7, 0], [0, 0]]


def test_statistics_that_a_function_writes_are_outputs():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", tessera.zeros(3))
            self.register_buffer("var", tessera.ones(3))

        def forward(self, x):
            return nn.functional.batch_norm(x, self.mean, self.var, training=True)

    program = export(M(), (tessera.randn(4, 3),)).run_decompositions()
    assert list(program.graph_signature.buffers_to_mutate.values()) == ["mean", "var"]


def test_dynamic_sizes_stay_dynamic():
    m = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.LayerNorm(4), nn.Linear(4, 2)).eval()
    n = Dim("n", min=1, max=20)
    program = export(m, (tessera.randn(3, 4),), dynamic_shapes=({0: n},)).run_decompositions()
    assert [str(e) for e in program.range_constraints] == ["s0"] and aten.addmm.default in targets(program)
    x = tessera.randn(11, 4)
    tessera.testing.assert_close(program.module()(x), m(x))
    with pytest.raises(AssertionError, match="Guard failed"):
        program.module()(tessera.randn(21, 4))


def test_sizes_computed_by_nodes_stay_so():
    class M(nn.Module):
        def forward(self, x):
            return x.reshape(x.shape[0] * 2, -1).sum(1), x.shape[0] + 1

    program = export(M(), (tessera.ones(3, 4),), dynamic_shapes=({0: Dim("n", max=20)},)).run_decompositions()
    found, more = program.module()(tessera.ones(5, 4))
    assert found.shape == (10,) and more == 6


def test_kept_signatures_follow_the_new_names():
    class Inner(nn.Module):
        def forward(self, x):
            return {"r": x + 1}

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()
            self.lin = nn.Linear(2, 2)

        def forward(self, x):
            return self.inner(self.lin(x))["r"] * 2

    m = Outer()
    program = export(m, (tessera.ones(1, 2),), preserve_module_call_signature=("inner",)).run_decompositions()
    x = tessera.randn(1, 2)
    made = tessera.export.unflatten(program)
    tessera.testing.assert_close(made(x), m(x))
    assert made.inner(x)["r"].tolist() == (x + 1).tolist()


@pytest.mark.parametrize("training", [True, False])
def test_sizes_stay_open_where_a_program_writes(training):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm, self.lin = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(36, 2)

        def forward(self, x):
            y = nn.functional.relu(self.norm(self.conv(x)), inplace=True)
            return self.lin(y.flatten(1)).unflatten(-1, (2, 1))

    m = M().train(training)
    x = tessera.randn(3, 3, 5, 5)
    program = export(m, (x,), dynamic_shapes=({0: Dim.DYNAMIC},)).run_decompositions()
    assert len(program.range_constraints) == 1
    made, other = program.module(), tessera.randn(5, 3, 5, 5)
    wanted = m(other)
    tessera.testing.assert_close(made(other), wanted)


def test_dropout_of_training_is_functional():
    program = export(nn.Dropout(0.5), (tessera.ones(3),)).run_decompositions()
    assert any(n.target is tessera.ops.aten.native_dropout.default for n in program.graph.nodes)


def test_documented_forms():
    class M(nn.Module):
        def forward(self, input):
            first, _ = input.split([1, 1])
            return first.sub(1, alpha=2).div(3, rounding_mode="floor"), nn.functional.interpolate(
                input[None], scale_factor=2, mode="linear"
            )

    program = export(M(), (tessera.ones(2, 3),))
    assert [n.name for n in program.graph.find_nodes(op="placeholder")] == ["input"]
    aten, targets = tessera.ops.aten, [n.target for n in program.graph.nodes]
    for op in (aten.split_with_sizes.default, aten.sub.Tensor, aten.div.Tensor_mode, aten.upsample_linear1d.vec):
        assert op in targets
    made = program.run_decompositions()
    assert aten.upsample_linear1d.default in [n.target for n in made.graph.nodes]
    x = tessera.randn(2, 3)
    for a, b in zip(made.module()(x), M()(x)):
        assert tessera.equal(a, b)


def test_writes_into_copies_stay_one_call():
    class Scattered(nn.Module):
        def forward(self, x):
            return x.diagonal_scatter(x[:, 0]), tessera.as_strided_scatter(x, x[:, 1], (2,), (3,), 0)

    x = tessera.randn(2, 2)
    program = export(Scattered(), (x,)).run_decompositions()
    assert {aten.diagonal_scatter.default, aten.as_strided_scatter.default} <= set(targets(program))
    assert all(tessera.equal(a, b) for a, b in zip(program.module()(x), Scattered()(x)))


def test_random_slopes_are_decomposed():
    class Sloped(nn.Module):
        def forward(self, x):
            return nn.functional.rrelu(x, 0.1, 0.4, training=True), nn.functional.rrelu(x, 0.1, 0.3)

    x = tessera.randn(50)
    program = export(Sloped(), (x,)).run_decompositions()
    assert aten.rand_like.default in targets(program) and aten.rrelu.default not in targets(program)
    drawn, mean = program.module()(x)
    slopes = (drawn / x)[x < 0]
    assert slopes.min() >= 0.1 and slopes.max() <= 0.4 and slopes.std() > 0 and tessera.equal(drawn[x > 0], x[x > 0])
    tessera.testing.assert_close(mean, nn.functional.leaky_relu(x, 0.2))


@tessera.library.custom_op("decomposed_writes::scaled", mutates_args={"out"})
def scaled(x: tessera.Tensor, out: tessera.Tensor, by: float) -> None:
    out.copy_(x * by)


@tessera.library.custom_op("decomposed_writes::add_to_all", mutates_args={"all"})
def add_to_all(all: list[tessera.Tensor], x: tessera.Tensor) -> tessera.Tensor:
    for t in all:
        t.add_(x)
    return x + 1


@add_to_all.register_fake
def _(all, x):
    return tessera.empty_like(x)


class Writes(nn.Module):
    def __init__(self):
        super().__init__()
        self.b = nn.Buffer(tessera.ones(3))

    def forward(self, x, y):
        z = add_to_all([x, y[0]], x * 2)
        scaled(z, out=self.b, by=2.0)
        return self.b + x + y


def test_custom_operators_that_write_return_what_they_wrote():
    make = lambda: (tessera.arange(3.0), tessera.ones(2, 3))  # noqa: E731
    program = export(Writes(), make()).run_decompositions({})
    called = targets(program)
    assert called.count(tessera.ops.higher_order.auto_functionalized_v2) == 2 and scaled._opoverload not in called
    file = io.BytesIO()
    tessera.export.save(program, file)
    file.seek(0)
    compiled = tessera.compile(Writes(), backend="aot_eager")
    for module in (program.module(), tessera.export.load(file).module(), compiled):
        eager, first, second = Writes(), make(), make()
        for _ in range(2):
            assert tessera.equal(module(*first), eager(*second))
            assert all(map(tessera.equal, first, second))
            assert tessera.equal(dict(module.named_buffers()).popitem()[1], eager.b)


def test_custom_operators_whose_arguments_overlap_are_refused():
    class M(nn.Module):
        def forward(self, x):
            scaled(x, x, 2.0)
            return x

    with pytest.raises(NotImplementedError, match="shares memory"):
        export(M(), (tessera.ones(3),)).run_decompositions({})
    with pytest.raises(ValueError, match="does not write to arguments"):
        tessera.ops.higher_order.auto_functionalized_v2(aten.add_.Tensor, _all_bases=[])
