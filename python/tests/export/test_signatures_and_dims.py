"""Signatures of graphs, Dim and what is said of sizes before anything is traced."""

import io

import pytest

import tessera
from tessera import nn
from tessera.export import AdditionalInputs, Dim, ShapesCollection, dims, export, load, save
from tessera.export.dynamic_shapes import _process_dynamic_shapes, refine_dynamic_shapes_from_suggested_fixes
from tessera.export.graph_signature import (
    ConstantArgument, ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec, TensorArgument,
)  # fmt: skip


def signature():
    t = TensorArgument
    return ExportGraphSignature(
        [
            InputSpec(InputKind.PARAMETER, t("p_w"), "w"), InputSpec(InputKind.BUFFER, t("b_b"), "b", True),
            InputSpec(InputKind.BUFFER, t("b_n"), "n", False), InputSpec(InputKind.CONSTANT_TENSOR, t("c_c"), "c"),
            InputSpec(InputKind.USER_INPUT, t("x"), None), InputSpec(InputKind.USER_INPUT, ConstantArgument("k", 2),
            None),
        ],
        [
            OutputSpec(OutputKind.BUFFER_MUTATION, t("add"), "b"), OutputSpec(OutputKind.USER_INPUT_MUTATION,
            t("mul"), "x"),
            OutputSpec(OutputKind.LOSS_OUTPUT, t("loss"), None),
            OutputSpec(OutputKind.GRADIENT_TO_PARAMETER, t("grad"), "w"),
            OutputSpec(OutputKind.USER_OUTPUT, ConstantArgument("", 3), None),
        ],
    )  # fmt: skip


def test_properties_of_signatures():
    s = signature()
    assert s.parameters == ("w",) and s.buffers == ("b", "n") and s.non_persistent_buffers == ("n",)
    assert s.inputs_to_buffers == {"b_b": "b", "b_n": "n"} and s.lifted_tensor_constants == ("c",)
    assert s.user_inputs == ("x", 2) and s.user_outputs == ("loss", 3)
    assert s.buffers_to_mutate == {"add": "b"} and s.user_inputs_to_mutate == {"mul": "x"}
    assert s.backward_signature.gradients_to_parameters == {"grad": "w"} and s.backward_signature.loss_output == "loss"
    assert s.input_tokens == s.output_tokens == () and s.assertion_dep_token is None


def test_names_are_replaced_by_hooks():
    s, graph = signature(), tessera.fx.Graph()
    x = graph.placeholder("x")
    user = graph.output(x)
    s.get_replace_hook(replace_inputs=True)(x, "y", user)
    assert s.user_inputs == ("y", 2)
    s.replace_all_uses("loss", "other")
    assert s.backward_signature.loss_output == "other"
    with pytest.raises(AssertionError, match="str"):
        s.replace_all_uses("a", x)


def test_specs_are_checked():
    with pytest.raises(AssertionError, match="persistent"):
        InputSpec(InputKind.BUFFER, TensorArgument("b"), "b")
    with pytest.raises(AssertionError, match="TensorArgument"):
        OutputSpec(OutputKind.USER_OUTPUT, "x", None)


def test_derived_dims():
    d = Dim("d", min=3, max=6)
    twice = (d + 1) * 2 - 3
    assert (twice.__name__, twice.min, twice.max, twice.root) == ("2*d - 1", 5, 11, d)
    assert 1 + d != d and (3 + d).__name__ == "d + 3"
    assert [x.__name__ for x in dims("a", "b", max=3)] == ["a", "b"]


@pytest.mark.parametrize(
    "make, error",
    [
        (lambda: Dim("a b"), AssertionError), (lambda: Dim("a", min=3, max=2), AssertionError),
        (lambda: Dim("a") * 0, NotImplementedError), (lambda: Dim("a") * 1.5, NotImplementedError),
        (lambda: Dim("a") + Dim("b"), NotImplementedError), (lambda: 3 - Dim("a"), NotImplementedError),
        (lambda: (Dim("a") - 1).min, AssertionError), (lambda: Dim.AUTO(min=5, max=3), AssertionError),
        (lambda: Dim.AUTO(min=-1), AssertionError), (lambda: Dim.AUTO(min=1)(max=3), TypeError),
    ],
)  # fmt: skip
def test_dims_that_are_none(make, error):
    with pytest.raises(error):
        make()


def test_hints_are_values():
    assert Dim.AUTO == Dim.AUTO and Dim.AUTO(min=2) == Dim.AUTO(min=2) != Dim.AUTO
    assert repr(Dim.DYNAMIC(max=3)) == "DimHint(DYNAMIC, max=3)"


class Two(nn.Module):
    def forward(self, x, ys, k=1):
        return x + ys["a"][0] * k


X, Y = tessera.ones(4, 5), tessera.ones(4, 5)
ARGS = {"x": X, "ys": {"a": [Y]}, "k": 2}


def test_specs_of_all_forms_are_one():
    d = Dim("d")
    forms = [
        {"x": {0: d}, "ys": {"a": [{0: d, 1: None}]}, "k": None},
        ((d, None), {"a": [(d, Dim.STATIC)]}, None),
        [{-2: d}, {"a": [[d, 5]]}, Dim.STATIC],
    ]
    found = [_process_dynamic_shapes(ARGS, form) for form in forms]
    assert [[path for path, _, _ in f] for f in found] == [["['x']", "['ys']['a'][0]", "['k']"]] * 3
    for f in found:
        assert f[0][2] == {0: d} and f[1][2][0] is d and f[2][2] is None


@pytest.mark.parametrize(
    "specs, error, text",
    [
        ({"x": None}, RuntimeError, r"must be the arg names \['x', 'ys', 'k'\]"),
        ((None, None), RuntimeError, "has 3 elements"),
        ((None, None, None), RuntimeError, "is a <class 'dict'>"),
        ((None, {"b": [None]}, None), RuntimeError, "has keys"),
        ((None, {"a": [None, None]}, None), RuntimeError, "has 1 elements"),
        (({2: Dim("d")}, {"a": [None]}, None), RuntimeError, "Unexpected index 2"),
        (({"0": Dim("d")}, {"a": [None]}, None), RuntimeError, "Unexpected index '0'"),
        (((Dim("d"),), {"a": [None]}, None), RuntimeError, "expected 2, but got 1"),
        (({0: "bad"}, {"a": [None]}, None), RuntimeError, "got 'bad'"),
        ((Dim("d"), {"a": [None]}, None), RuntimeError, "Unexpected input tensor shape"),
        ((None, {"a": [None]}, Dim("n")), ValueError, "named Dims"),
        (({0: Dim("d")}, {"a": [{0: Dim("d", min=3)}]}, None), RuntimeError, "different definitions"),
        ("bad", AssertionError, "dict, tuple, or list"),
    ],
)
def test_specs_that_do_not_fit(specs, error, text):
    with pytest.raises(error, match=text):
        _process_dynamic_shapes(ARGS, specs)


def test_collections_build_the_tree():
    d, c = Dim("d", max=9), ShapesCollection()
    c[X] = (d, d + 1)
    c[Y] = {0: 2 * d}
    found = c.dynamic_shapes(Two(), (X, {"a": [Y]}), {"k": 3})
    assert found["x"] == c[X] and found["ys"]["a"][0][0].__name__ == "2*d" and found["k"] is None and len(c) == 2
    c[X] = (d, d + 1)
    with pytest.raises(AssertionError, match="do not match"):
        c[X] = {0: d}
    with pytest.raises(AssertionError, match="non-tensor"):
        c[3] = {0: d}
    with pytest.raises(ValueError, match="not found in args"):
        c.dynamic_shapes(Two(), (tessera.ones(1), {"a": [Y]}))


def test_additional_inputs_find_what_differs():
    more = AdditionalInputs()
    more.add((tessera.ones(6, 5), {"a": [Y]}), {"k": 2})
    more.add((tessera.ones(7, 5), {"a": [Y]}, 7))
    found = more.dynamic_shapes(Two(), (X, {"a": [Y]}, 2))
    assert found == {"x": (Dim.DYNAMIC, None), "ys": {"a": [(None, None)]}, "k": Dim.DYNAMIC}
    with pytest.raises(AssertionError, match="tuple"):
        more.add(X)
    more.add((X, {"a": []}, 2))
    with pytest.raises(ValueError, match="structure"):
        more.dynamic_shapes(Two(), (X, {"a": [Y]}, 2))


def test_suggested_fixes_are_taken_over():
    message = (
        "Constraints violated!\nSuggested fixes:\n  dx = Dim('dx', min=3, max=6)\n  dz = 4\n  dw = dx + 1\n"
        "  _dv = Dim('_dv', min=1, max=oo)\n  dv = 2*_dv\n\nThe error above occurred."
    )
    given = {"a": {0: Dim("dx"), 1: Dim("dz")}, "b": [Dim("dw"), Dim("dv"), None], "c": (Dim("dx") + 2, Dim.AUTO)}
    found = refine_dynamic_shapes_from_suggested_fixes(message, given)
    dx = found["a"][0]
    assert (dx.min, dx.max) == (3, 6) and found["a"][1] == 4
    assert found["b"][0].root is dx and found["b"][0].__name__ == "dx + 1"
    assert found["b"][1].__name__ == "2*_dv" and found["b"][1].min == 2 and found["b"][2] is None
    assert (found["c"][0].min, found["c"][0].max) == (5, 8) and found["c"][1] is Dim.AUTO


class Held(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.held = nn.Linear(2, 2), tessera.ones(2, requires_grad=True)

    def forward(self, a, *, y, x):
        return self.linear(a) + x - y + self.held


def test_notes_of_programs_stay():
    a = tessera.ones(2)
    program = export(Held(), (a,), {"x": a, "y": a})
    program.graph_module.meta["custom"] = {"made": 1}
    (linear,) = program.graph.find_nodes(op="call_function", target=tessera.ops.aten.linear.default)
    assert linear.meta["stack_trace"].index("self.linear(a)") < linear.meta["stack_trace"].index("linear.py")
    linear.meta["custom"] = {"tag": ["a", 2]}
    save(program, file := io.BytesIO())
    file.seek(0)
    loaded = load(file)
    for found in (loaded.graph_module, program.run_decompositions({}).graph_module, loaded.module()):
        (node,) = found.graph.find_nodes(op="call_function", target=tessera.ops.aten.linear.default)
        assert found.meta["custom"] == {"made": 1} and node.meta["custom"] == {"tag": ["a", 2]}
    linear.meta["custom"] = {"tag": object()}
    with pytest.raises(TypeError, match="made of JSON's types"):
        save(program, io.BytesIO())
    assert not program.constants["held"].requires_grad


def test_example_inputs_may_be_others():
    a = tessera.ones(2)
    program = export(Held(), (a,), {"x": a, "y": a})
    b = tessera.zeros(2)
    program.example_inputs = (b,), {"x": b, "y": a}
    assert program.example_inputs[0][0] is b and program.example_inputs[1]["y"] is a
    program.module()(*program.example_inputs[0], **program.example_inputs[1])
    wrong_ones = ((a,), "should be a tuple"), (((a,), {}), "keyword mismatch"), (((), {"x": a, "y": a}), "structure")
    for wrong, text in wrong_ones:
        with pytest.raises(ValueError, match=text):
            program.example_inputs = wrong
