"""unflatten(): programs with the modules of what was exported."""

import pytest

import tessera
from tessera import nn
from tessera.export import Dim, FlatArgsAdapter, export, unflatten
from tessera.export.unflatten import InterpreterModule, InterpreterModuleDispatcher


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(tessera.tensor([2.0, 3.0]))
        self.register_buffer("b", tessera.ones(2))

    def forward(self, x, *, k=0):
        return {"r": x * self.w + self.b + k}


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Scale()

    def forward(self, x, y):
        return self.inner(x)["r"] - y, self.inner(y)["r"]


class Root(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
        self.stack = Stack()
        self.unused = nn.Linear(3, 3)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        a, b = self.stack(x, x * 2)
        return a + b, x


@pytest.fixture
def root():
    tessera.manual_seed(0)
    return Root()


def test_modules_and_parameters_are_where_they_were(root):
    made = unflatten(export(root, (tessera.ones(1, 2),)))
    assert dict(made.named_parameters()).keys() == dict(root.named_parameters()).keys()
    assert dict(made.named_buffers()).keys() == dict(root.named_buffers()).keys()
    assert {n for n, _ in made.named_modules()} == {n for n, _ in root.named_modules()}
    assert isinstance(made.stack.inner, InterpreterModule)


def test_it_computes_the_same(root):
    x = tessera.randn(1, 2)
    for program in (export(root, (tessera.ones(1, 2),)),):
        for found, expected in zip(unflatten(program)(x), root(x)):
            assert tessera.equal(found, expected)


def test_calls_that_differ_take_turns():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = Scale()

        def forward(self, x):
            return self.scale(x, k=1)["r"] + self.scale(x, k=2)["r"] + self.scale(x, k=2)["r"] + self.scale(x, k=3)["r"]

    m = Twice()
    x = tessera.randn(2)
    made = unflatten(export(m, (tessera.ones(2),)))
    # Each graph that differs is a module of the number of its call, and all have the same parameters.
    assert [n for n, _ in made.named_modules()] == ["", "scale", "scale@1", "scale@3"]
    assert {"scale.w", "scale@1.w", "scale@3.w"} <= set(made.state_dict()) and len(list(made.parameters())) == 1
    assert tessera.equal(made(x), m(x))
    made = unflatten(export(m, (tessera.ones(2),), preserve_module_call_signature=("scale",)))
    assert isinstance(made.scale, InterpreterModuleDispatcher) and len(made.scale.call_modules()) == 4
    for _ in range(2):
        assert tessera.equal(made(x), m(x))
    assert dict(made.named_parameters()).keys() == {"scale.w"}


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("n", tessera.ones(1), persistent=False)

    def forward(self, x, by_one):
        self.n.add_(1) if by_one else self.n.add_(2)
        return x + self.n


class CallsCounts(nn.Module):
    def __init__(self):
        super().__init__()
        self.counts = Counts()

    def forward(self, x):
        return self.counts(self.counts(self.counts(x, True), False) + self.counts.n, True)


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("kept", [(), ("counts",)])
def test_what_calls_write_is_seen_by_those_behind(kept, decomposed):
    x = tessera.ones(1)
    program = export(CallsCounts(), (x,), preserve_module_call_signature=kept)
    made = unflatten(program.run_decompositions({}) if decomposed else program)
    eager, other = CallsCounts(), program.module()
    for _ in range(2):
        wanted = eager(x)
        assert tessera.equal(made(x), wanted) and tessera.equal(other(x), wanted)  # each counts for itself


def test_what_a_kept_signature_does_not_pass_is_computed_again():
    class Half(nn.Module):
        def forward(self, x, y):
            return y[: x.size(0) // 2]

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = Half()

        def forward(self, x, y):
            return y[x.size(0) // 2 :] + self.part(x, y)

    d = 2 * Dim("d", max=64)
    x, y = tessera.randn(6), tessera.randn(6)
    program = export(M(), (x, y), dynamic_shapes=((d,), (d,)), preserve_module_call_signature=("part",))
    made = unflatten(program)
    assert tessera.equal(made(x, y), M()(x, y))
    assert tessera.ops.aten.sym_size.int in [n.target for n in made.part.graph.nodes]


def test_unused_inputs_and_results_of_kept_signatures():
    class Both(nn.Module):
        def forward(self, x, a, b):
            return x + a, b

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.both = Both()

        def forward(self, x, y):
            return self.both(x, *tessera.topk(y, 2))[0]

    x, y = tessera.randn(2), tessera.randn(5)
    program = export(M(), (x, y), preserve_module_call_signature=("both",))
    program.graph.eliminate_dead_code()
    assert tessera.equal(unflatten(program)(x, y), M()(x, y))


def test_calls_that_are_alike_are_one_module():
    m = nn.Sequential(nn.Linear(2, 2))

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.m = m

        def forward(self, x):
            return self.m(self.m(x))

    made = unflatten(export(Twice(), (tessera.ones(1, 2),)))
    assert isinstance(made.m, InterpreterModule)
    x = tessera.randn(1, 2)
    assert tessera.equal(made(x), m(m(x)))


def test_a_kept_signature_allows_calls_and_other_modules(root):
    class Uses(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = Scale()

        def forward(self, x):
            return self.scale(x, k=x * 2)["r"] + 1

    m = Uses()
    program = export(m, (tessera.ones(2),), preserve_module_call_signature=("scale",))
    made, x = unflatten(program), tessera.randn(2)
    assert tessera.equal(made(x), m(x))
    assert tessera.equal(made.scale(x, k=x)["r"], m.scale(x, k=x)["r"])

    class Other(nn.Module):
        def forward(self, x, *, k):
            return {"r": k}

    made.scale = Other()
    assert tessera.equal(made(x), x * 2 + 1)


def test_signatures_are_kept_for_each_call(root):
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = Scale()

        def forward(self, x):
            return self.scale(self.scale(x)["r"])["r"]

    program = export(Twice(), (tessera.ones(2),), preserve_module_call_signature=("scale",))
    entries = {e.fqn: e.signature for e in program.module_call_graph}
    assert [a.name for a in entries["scale"].inputs] == ["x"]
    assert entries["scale@1"].inputs == entries["scale"].outputs


def test_a_module_that_is_not_there():
    with pytest.raises(AttributeError, match="nothing"):
        export(Scale(), (tessera.ones(2),), preserve_module_call_signature=("nothing",))


def test_shared_modules_below_others():
    class Below(nn.Module):
        def __init__(self, shared):
            super().__init__()
            self.shared = shared

        def forward(self, x):
            return self.shared(x) + 1

    class Top(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(2, 2)
            self.below = Below(self.first)

        def forward(self, x):
            return self.below(self.first(x))

    m = Top()
    x = tessera.randn(1, 2)
    assert tessera.equal(unflatten(export(m, (x,)))(x), m(x))


def test_written_buffers_are_copies():
    m = nn.Sequential(nn.BatchNorm1d(2))
    program = export(m, (tessera.randn(4, 2),))
    made = unflatten(program)
    x = tessera.randn(4, 2)
    made(x)
    assert made.state_dict()["0.num_batches_tracked"].item() == 1
    assert program.state_dict["0.num_batches_tracked"].item() == 0
    assert not program.module().graph.eliminate_dead_code()  # its checks of inputs stay


def test_adapters_fit_other_structures():
    class M(nn.Module):
        def forward(self, x, y):
            return x - y

    class FromDict(FlatArgsAdapter):
        def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
            return [input_args[1], input_args[0]]

    program = export(M(), (tessera.ones(2), tessera.zeros(2)))
    found = unflatten(program, FromDict())({"y": tessera.ones(2), "x": tessera.full((2,), 3.0)})
    assert found.tolist() == [2, 2]
    with pytest.raises(TypeError, match="flat args adapter"):
        unflatten(program)({"y": tessera.ones(2), "x": tessera.ones(2)})


def test_inputs_are_checked():
    with pytest.raises(AssertionError, match="Guard failed"):
        unflatten(export(Scale(), (tessera.ones(2),)))(tessera.ones(3))
    with pytest.raises(TypeError, match="expected an ExportedProgram"):
        unflatten(Scale())


def test_text_of_the_hierarchy(root):
    text = unflatten(export(root, (tessera.ones(1, 2),))).print_readable(print_output=False)
    assert "class UnflattenedModule" in text and "class InterpreterModule" not in text and "aten.linear.default" in text


def test_classes_of_the_text_have_the_names_of_their_attributes(root):
    text = unflatten(export(root, (tessera.ones(1, 2),))).print_readable(print_output=False)
    assert all(f"class {name}(torch.nn.Module)" in text for name in ("UnflattenedModule", "0", "1"))


def test_one_module_under_two_names_has_its_graph_under_both():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = self.b = nn.Linear(2, 2)

        def forward(self, x):
            return self.a(self.b(x))

    module, x = unflatten(export(Twice(), (tessera.ones(1, 2),))), tessera.ones(1, 2)
    assert tessera.equal(module.a(x), module.b(x))
