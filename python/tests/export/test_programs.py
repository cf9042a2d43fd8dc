"""export(): what becomes a node, what an input, and what a program does when it is called."""

import collections
import io
import operator

import pytest

import tessera
from tessera import nn
from tessera._higher_order_ops.while_loop import while_loop
from tessera.export import Dim, export, load, save
from tessera.export.graph_signature import ConstantArgument, InputKind, OutputKind, TensorArgument
from tessera.fx.passes.utils.source_matcher_utils import get_source_partitions

aten = tessera.ops.aten
X = tessera.ones(2)


def targets(program):
    return [n.target for n in program.graph.nodes if n.op == "call_function"]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 3)
        self.register_buffer("scale", tessera.tensor(2.0))
        self.register_buffer("shift", tessera.ones(3), persistent=False)
        self.extra = tessera.ones(3)

    def forward(self, x, d, k=3, *, z=None):
        y = tessera.relu(self.lin(x)) * self.scale + self.shift + self.extra
        if z is not None:
            y = y * z
        return {"y": y, "rest": (d["a"] * k, None, "text", 2.5)}


def block_program():
    tessera.manual_seed(0)
    return export(Block(), (tessera.randn(2, 4), {"a": tessera.ones(2)}, 5), {"z": tessera.ones(1)})


def test_composite_operators_are_one_node():
    m = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(), nn.GELU())
    found = targets(export(m, (tessera.ones(1, 3, 8, 8),)))
    assert found == [
        aten.conv2d.default, aten.add_.Tensor, aten.batch_norm.default, aten.max_pool2d.default,
        aten.flatten.using_ints,
        aten.dropout.default, aten.gelu.default,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "function, target, args",
    [
        (lambda x: x + 1, aten.add.Tensor, (1,)),
        (lambda x: 1 - x, aten.rsub.Scalar, (1,)),
        (lambda x: x // 2, aten.floor_divide.default, (2,)),
        (lambda x: x > 0, aten.gt.Scalar, (0,)),
        (lambda x: x[:, 1:], aten.slice.Tensor, (1, 1, 9223372036854775807)),
    ],
)
def test_forms_of_operators_are_the_documented_ones(function, target, args):
    class M(nn.Module):
        def forward(self, x):
            return function(x)

    (node,) = [n for n in export(M(), (tessera.ones(2, 2),)).graph.nodes if n.op == "call_function"]
    assert node.target is target and node.args[1:] == args


def test_a_power_of_a_number_has_it_first():
    class M(nn.Module):
        def forward(self, x):
            return 2**x

    program = export(M(), (tessera.ones(2),))
    assert targets(program) == [aten.pow.Scalar]
    assert program.module()(tessera.tensor([3.0, 1.0])).tolist() == [8, 2]


def test_inputs_are_parameters_buffers_constants_and_what_is_passed():
    program = block_program()
    shown = [(s.arg.name, s.kind.name, s.target, s.persistent) for s in program.graph_signature.input_specs]
    assert shown == [
        ("p_lin_weight", "PARAMETER", "lin.weight", None), ("p_lin_bias", "PARAMETER", "lin.bias", None),
        ("b_scale", "BUFFER", "scale", True), ("b_shift", "BUFFER", "shift", False),
        ("c_extra", "CONSTANT_TENSOR", "extra", None), ("x", "USER_INPUT", None, None), ("d_a", "USER_INPUT", None,
        None),
        ("k", "USER_INPUT", None, None), ("z", "USER_INPUT", None, None),
    ]  # fmt: skip
    assert program.graph_signature.input_specs[-2].arg == ConstantArgument("k", 5)
    assert set(program.state_dict) == {"lin.weight", "lin.bias", "scale"}
    assert set(program.constants) == {"extra", "shift"}


def test_outputs_are_nodes_and_constants():
    outputs = block_program().graph_signature.output_specs
    assert all(s.kind is OutputKind.USER_OUTPUT for s in outputs)
    assert [type(s.arg) for s in outputs] == [TensorArgument] * 2 + [ConstantArgument] * 3


def test_a_program_computes_what_the_module_does():
    m, args = Block(), (tessera.randn(2, 4), {"a": tessera.ones(2)}, 5)
    program = export(m, args, {"z": tessera.full((1,), 3.0)})
    given = (tessera.randn(2, 4), {"a": tessera.randn(2)}, 5)
    expected, found = m(*given, z=tessera.ones(1)), program.module()(*given, z=tessera.ones(1))
    assert tessera.equal(found["y"], expected["y"]) and tessera.equal(found["rest"][0], expected["rest"][0])
    assert found["rest"][1:] == (None, "text", 2.5)


def test_the_module_is_as_before():
    m = Block()
    held = {name: id(t) for name, t in m.state_dict(keep_vars=True).items()}
    export(m, (tessera.ones(2, 4), {"a": tessera.ones(2)}))
    assert {name: id(t) for name, t in m.state_dict(keep_vars=True).items()} == held
    assert type(m.lin.weight) is nn.Parameter


@pytest.mark.parametrize(
    "args, kwargs, error, text",
    [
        (
            (tessera.ones(3, 4), {"a": tessera.ones(2)}, 5),
            {"z": tessera.ones(1)},
            AssertionError,
            r"x.size\(\)\[0\] == 2",
        ),
        ((tessera.ones(2, 4), {"a": tessera.ones(3)}, 5), {"z": tessera.ones(1)}, AssertionError, r"d\['a'\]"),
        ((tessera.ones(2, 4), {"a": tessera.ones(2)}, 4), {"z": tessera.ones(1)}, AssertionError, "k == 5"),
        ((tessera.ones(2, 4), {"a": tessera.ones(2)}, 5.0), {"z": tessera.ones(1)}, AssertionError, "k == 5"),
        ((tessera.ones(2, 4), {"a": 1}, 5), {"z": tessera.ones(1)}, AssertionError, "isinstance"),
        ((tessera.ones(2, 4), {"b": tessera.ones(2)}, 5), {"z": tessera.ones(1)}, ValueError, "tree spec"),
        ((tessera.ones(2, 4), {"a": tessera.ones(2)}, 5), {}, ValueError, "keyword"),
        ((tessera.ones(2, 4),), {"z": tessera.ones(1)}, ValueError, "tree spec"),
    ],
)
def test_calls_that_do_not_fit(args, kwargs, error, text):
    with pytest.raises(error, match=text):
        block_program().module()(*args, **kwargs)


def test_without_guards_sizes_and_numbers_are_checked_before_the_call():
    class M(nn.Module):
        def forward(self, x, d, n=3, *, z=None):
            return x.sum() + d["a"].sum() + z.sum() * n

    size = tessera.export.Dim("size", min=2, max=8)
    shapes = {"x": {0: size}, "d": {"a": {0: 2 * size}}, "n": None, "z": {0: size}}
    ones = tessera.ones
    program = export(M(), (ones(4, 4), {"a": ones(8)}, 3), {"z": ones(4)}, dynamic_shapes=shapes)
    module = program.module(check_guards=False)
    assert not any(n.op == "call_module" for n in module.graph.nodes)
    assert module(ones(3, 4), {"a": ones(6)}, 3, z=ones(3)).item() == 27
    for args, z, message in (
        ((ones(9, 4), {"a": ones(18)}, 3), ones(9), r"\*args\[0\].shape\[0\] to be <= 8, but got 9"),
        ((ones(3, 4), {"a": ones(7)}, 3), ones(3), r"\*args\[1\]\['a'\].shape\[0\] to be equal to 6, but got 7"),
        ((ones(3, 5), {"a": ones(6)}, 3), ones(3), r"\*args\[0\].shape\[1\] to be equal to 4, but got 5. If this"),
        ((ones(3, 4), {"a": ones(6)}, 4), ones(3), r"\*args\[2\] to be equal to 3, but got 4"),
        ((ones(3, 4), {"a": ones(6)}, 3), ones(4), r"'z'.shape\[0\] to be equal to 3, but got 4"),
        ((ones(3), {"a": ones(6)}, 3), ones(3), r"number of dimensions in input at \*args\[0\]"),
        ((3, {"a": ones(6)}, 3), ones(3), r"\*args\[0\] to be a tensor"),
    ):
        with pytest.raises(RuntimeError, match=message):
            module(*args, z=z)
    with pytest.raises(ValueError, match="keyword mismatch"):
        module(ones(4, 4), {"a": ones(8)}, 3)


def test_tied_parameters_have_both_names():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(2, 2, bias=False)
            self.b = nn.Linear(2, 2, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    m = Tied()
    program = export(m, (tessera.ones(1, 2),))
    assert program.graph_signature.parameters == ("a.weight", "b.weight")
    assert program.state_dict["a.weight"] is program.state_dict["b.weight"]
    x = tessera.randn(1, 2)
    assert tessera.equal(program.module()(x), m(x))


def test_tensors_made_of_numbers_are_constants():
    class M(nn.Module):
        def forward(self, x):
            mask = tessera.tensor([1.0, 0.0]) + 1
            return x * mask

    program = export(M(), (tessera.ones(2),))
    assert program.graph_signature.lifted_tensor_constants == ("lifted_tensor_0",)
    assert program.module()(tessera.ones(2)).tolist() == [2, 1]
    assert targets(program) == [aten.mul.Tensor]


def test_a_constant_that_is_written_to_is_copied_in_each_call():
    class M(nn.Module):
        def forward(self, x):
            made = tessera.tensor([1.0, 0.0])
            made[0] = 5
            made.add_(x)
            return made

    module = export(M(), (tessera.ones(2),)).module()
    assert module(tessera.ones(2)).tolist() == [6, 1] and module(tessera.ones(2)).tolist() == [6, 1]


def test_assigned_buffers_are_written_at_the_end():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("b", tessera.zeros(2))

        def forward(self, x):
            self.b = self.b + 1
            return x + self.b

    m = M()
    program = export(m, (tessera.ones(2),))
    assert m.b.tolist() == [0, 0]
    module = program.module()
    assert module(tessera.zeros(2)).tolist() == [1, 1] and module(tessera.zeros(2)).tolist() == [2, 2]
    assert program.state_dict["b"].tolist() == [2, 2]


def test_an_assigned_tensor_that_is_no_buffer_warns_and_is_taken_back():
    class M(nn.Module):
        def forward(self, x):
            self.seen = x + 1
            return x * 2

    m = M()
    with pytest.warns(UserWarning, match="self.seen was assigned during export"):
        export(m, (tessera.ones(2),))
    assert not hasattr(m, "seen")


def test_strict_exports_refuse_changes_of_python_objects():
    class Counts(nn.Module):
        count = 0

        def forward(self, x):
            self.count += 1
            return x

    class Appends(nn.Module):
        def forward(self, xs):
            xs.append(xs[0])
            return xs[0] + 1

    for m, args, text in ((Counts(), (X,), "Counts.count"), (Appends(), ([X],), "container among its inputs")):
        export(m, args)
        with pytest.raises(tessera._dynamo.exc.Unsupported, match=text):
            export(m, args, strict=True)
    assert len(args[0]) == 1


def test_strict_exports_name_the_line_of_what_a_graph_cannot_hold():
    class Branches(nn.Module):
        def forward(self, x):
            if x.sum() > 0:
                return x
            return -x

    class Opens(nn.Module):
        def forward(self, x):
            open(__file__).close()
            return x + 1

    exc = tessera._dynamo.exc
    with pytest.raises(exc.UserError, match="torch.cond(.|\n)*in forward\n *if x.sum\\(\\) > 0:") as found:
        export(Branches(), (X,), strict=True)
    assert found.value.error_type is exc.UserErrorType.DYNAMIC_CONTROL_FLOW
    with pytest.raises(exc.Unsupported, match="builtin(.|\n)*open\\(__file__\\)"):
        export(Opens(), (X,), strict=True)


def test_strict_exports_give_the_same_graph():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(3)
            self.layer = nn.TransformerEncoderLayer(4, 2, batch_first=True)

        def forward(self, x, n):
            k = n.item()
            tessera._check(k > 0)
            return self.layer(self.norm(x)).sum() * k, x.nonzero()

    args = (tessera.randn(2, 3, 4), tessera.tensor(2))
    m = M().eval()
    strict, plain = export(m, args, strict=True), export(m, args)
    assert [(n.op, n.target) for n in strict.graph.nodes] == [(n.op, n.target) for n in plain.graph.nodes]


def test_sizes_that_data_decide_are_computed_with():
    class M(nn.Module):
        def forward(self, x):
            found = tessera.nonzero(x > 0)
            return found, found.shape[0] + x.shape[1]

    m = export(M(), (tessera.tensor([[1.0, -1.0]]),)).module()
    assert m(tessera.tensor([[1.0, 3.0]]))[1] == 4


def test_a_tensor_outside_of_the_trace_names_the_line():
    class M(nn.Module):
        def forward(self, x):
            stranger = tessera._C._make_fake(x.fake_mode, tessera.ones(2), None, None)
            return stranger + 1

    with pytest.raises(RuntimeError, match="no traced operator made(.|\n)*return stranger \\+ 1"):
        export(M(), (tessera.ones(2),))


def test_gradients_inside_of_a_program():
    class M(nn.Module):
        def forward(self, x):
            x = x.detach().requires_grad_()
            return tessera.autograd.grad((x * x * x).sum(), x)[0]

    program = export(M(), (tessera.ones(2),))
    assert program.module()(tessera.tensor([1.0, 2.0])).tolist() == [3, 12]


def test_data_and_vmap_are_traced():
    class M(nn.Module):
        def forward(self, x):
            i = tessera.arange(3)
            mask = tessera.vmap(tessera.vmap(lambda a, b: a >= b, in_dims=(None, 0)), in_dims=(0, None))(i, i)
            return x.data * mask

    m, x = M(), tessera.randn(3, 3)
    program = export(m, (tessera.ones(3, 3),))
    assert not program.constants and tessera.equal(program.module()(x), m(x))


def test_variadic_arguments_have_names():
    class M(nn.Module):
        def forward(self, x, *args, **kwargs):
            return x + args[0] + args[1] + kwargs["q"]

    one = tessera.ones(2)
    program = export(M(), (one, one, one), {"q": one})
    assert program.graph_signature.user_inputs == ("x", "args_0", "args_1", "q")
    assert program.module()(one, one, one, q=one).tolist() == [4, 4]


def test_keyword_arguments_come_in_the_order_in_which_they_are_given():
    class M(nn.Module):
        def forward(self, x, *, a, b):
            return x + a - b

    program = export(M(), (tessera.ones(2),), {"b": tessera.full((2,), 5.0), "a": tessera.ones(2)})
    assert program.graph_signature.user_inputs == ("x", "b", "a")
    assert program.module()(tessera.ones(2), b=tessera.ones(2), a=tessera.zeros(2)).tolist() == [0, 0]


def test_results_keep_their_structure():
    Pair = collections.namedtuple("Pair", "first second")

    class M(nn.Module):
        def forward(self, p):
            return Pair(p.second, [p.first, (p.first,)])

    found = export(M(), (Pair(tessera.ones(1), tessera.zeros(1)),)).module()(Pair(tessera.ones(1), tessera.zeros(1)))
    assert type(found) is Pair and type(found.second) is list and found.second[1][0].item() == 1


def test_notes_of_nodes():
    program = export(nn.Sequential(nn.Linear(2, 2)), (tessera.ones(1, 2),))
    (node,) = [n for n in program.graph.nodes if n.op == "call_function"]
    assert node.meta["val"].shape == (1, 2) and node.meta["tensor_meta"].dtype == tessera.float32
    assert list(node.meta["nn_module_stack"].values()) == [
        ("", "torch.nn.modules.container.Sequential"), ("0", "torch.nn.modules.linear.Linear"),
    ]  # fmt: skip


def test_printed_programs_show_types():
    text = str(block_program())
    assert text.startswith("ExportedProgram:\n    class GraphModule(torch.nn.Module):")
    assert 'x: "f32[2, 4]"' in text and 'linear: "f32[2, 3]" = torch.ops.aten.linear.default(' in text
    assert "b_scale: BUFFER target='scale' persistent=True" in text and "Range constraints: {}" in text


def test_attributes_of_programs_are_fixed():
    program = block_program()
    for name in ("graph", "state_dict", "graph_signature", "constants"):
        with pytest.raises(RuntimeError, match=name):
            setattr(program, name, None)
    with pytest.raises(RuntimeError, match="module()"):
        program(tessera.ones(2))


def test_modules_of_programs_are_as_exported():
    module = block_program().module()
    for change in (module.train, module.eval):
        with pytest.raises(NotImplementedError, match="not supported yet"):
            change()


def test_gradients_flow_through_programs():
    tessera.manual_seed(0)
    m = nn.Linear(3, 2)
    program = export(m, (tessera.ones(1, 3),))
    x = tessera.randn(1, 3)
    program.module()(x).sum().backward()
    assert m.weight.grad is not None and tessera.equal(m.weight.grad, x.expand(2, 3))


def test_is_exporting_while_a_program_is_traced():
    seen = []

    class M(nn.Module):
        def forward(self, x):
            seen.append((tessera.compiler.is_exporting(), tessera.compiler.is_compiling()))
            return x + 1

    export(M(), (tessera.ones(1),))
    assert seen == [(True, True)] and not tessera.compiler.is_exporting()


def test_an_error_of_the_module_leaves_nothing_behind():
    class M(nn.Module):
        def forward(self, x):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        export(M(), (tessera.ones(1),))
    assert not tessera.compiler.is_exporting() and tessera._C._len_torch_dispatch_stack() == 0
    assert (tessera.ones(2) + 1).tolist() == [2, 2]


def test_programs_can_be_exported_again():
    program = block_program()
    again = export(program.module(), *program.example_inputs)
    assert [t for t in targets(again)] == targets(program)


@pytest.mark.parametrize("kind", list(InputKind))
def test_kinds_of_inputs_have_the_documented_numbers(kind):
    names = "USER_INPUT PARAMETER BUFFER CONSTANT_TENSOR CUSTOM_OBJ TOKEN".split()
    assert names[kind.value - 1] == kind.name


def test_casts_of_autocast_are_in_the_program():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def forward(self, x, w):
            with tessera.autocast("cpu", dtype=tessera.bfloat16):
                y = x @ w
                z = self.inner(self.inner(y)) + x
                return z, nn.functional.cosine_similarity(z, y), y.softmax(-1), y.sum()

    module, args = M(), (tessera.randn(3, 3), tessera.randn(3, 3))
    program = export(module, args).module()
    for found, known in zip(program(*args), module(*args)):
        assert found.dtype is known.dtype and tessera.equal(found, known)


def test_gradients_end_where_the_program_ends_them():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 3)
            self.register_buffer("scale", tessera.ones(3))

        def forward(self, x):
            with tessera.no_grad():
                fixed = self.inner(x) * (self.scale * 2)
            return fixed * self.inner(x)

    module = M()
    program = export(module, (tessera.ones(2, 3),))
    assert [n.target for n in program.graph.nodes].count(tessera.ops.aten.detach.default) == 1
    again = program.module()
    again(tessera.ones(2, 3)).sum().backward()
    found = [p.grad.clone() for p in again.parameters()]
    module.zero_grad()
    module(tessera.ones(2, 3)).sum().backward()
    assert all(tessera.equal(a, p.grad) for a, p in zip(found, module.parameters()))


def test_strict_export_has_its_own_error_of_values():
    class M(nn.Module):
        def forward(self, n):
            return n + 1 if n.item() > 2 else n

    with pytest.raises(tessera._dynamo.exc.UserError, match="test_programs.py"):
        export(M(), (tessera.tensor(3),), strict=True)


def test_branches_inside_of_branches():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x):
            def inner(x):
                return tessera.cond(x.sum() > -9, lambda y: y.sin(), lambda y: y.cos(), (self.b(x),))

            return tessera.cond(x.sum() > 0, lambda x: self.a(x), inner, (x,))

    module = M()
    program = export(module, (tessera.ones(3, 2),))
    for p in (program, saved(program), program.run_decompositions()):
        for x in (tessera.ones(3, 2), -tessera.ones(3, 2), -9 * tessera.ones(3, 2)):
            tessera.testing.assert_close(p.module()(x), module(x))
    text = str(program)
    assert "class false_graph_0(" in text and 'def forward(self, x: "f32[3, 2]", p_a_weight' in text


def saved(program):
    """The program that a file of it gives."""
    data = io.BytesIO()
    save(program, data)
    return load(data)


def test_loops_and_found_numbers_inside_of_branches():
    class Loop(nn.Module):
        def forward(self, x):
            def body(x):
                step = lambda i, x: (i + 1, x + 1)  # noqa: E731
                return while_loop(lambda i, x: i < 3, step, (tessera.tensor(0), x))[1]

            return tessera.cond(x.sum() > 0, body, lambda x: x * 1, (x,))

    class Found(nn.Module):
        def forward(self, x):
            n = x.nonzero().shape[0]
            return tessera.cond(x.sum() > 0, lambda x: x.sum() * n, lambda x: x.mean() * 1.0, (x,))

    for module in (Loop(), Found()):
        program = export(module, (tessera.ones(4, 3),), dynamic_shapes=({0: Dim.DYNAMIC},))
        for p in (program, saved(program), program.run_decompositions()):
            for x in (tessera.ones(4, 3), -tessera.ones(6, 3)):
                tessera.testing.assert_close(p.module()(x), module(x))


def test_gradients_of_functions_are_traced():
    class Slope(nn.Module):
        def forward(self, x):
            return tessera.func.grad(lambda a: a.sin().sum())(x) + tessera.vmap(lambda a: a * x)(x).sum(0)

    program, y = export(Slope(), (tessera.randn(3),)), tessera.randn(3)
    tessera.testing.assert_close(program.module()(y), y.cos() + y.sum() * y)


def test_strict_programs_may_print(capsys):
    class Talks(nn.Module):
        def forward(self, x):
            print("traced")
            return x + 1

    program = export(Talks(), (tessera.ones(2),), strict=True)
    assert capsys.readouterr().out == "traced\n" and program.module()(tessera.ones(2)).tolist() == [2, 2]
    assert capsys.readouterr().out == ""


def test_numbers_in_calls_of_operators_stay_numbers():
    class Scaled(nn.Module):
        def forward(self, x):
            aten = tessera.ops.aten
            return aten.mul.Tensor(x, 3) + aten.add.Tensor(2.5, x) + tessera.tensor(1.5, dtype=tessera.float64)

    x = tessera.ones(2)
    program = export(Scaled(), (x,))
    again = export(program.module(), (x,))
    for p in (program, again):
        assert [len(p.constants), p.module()(x).tolist()] == [1, [8.0, 8.0]]
        assert [n.args[1] for n in p.graph.nodes if n.target is tessera.ops.aten.mul.Tensor] == [3]


def test_checks_of_tensors_stay_in_programs():
    class Checked(nn.Module):
        def forward(self, x, n):
            tessera._assert_async(x.sum() > 0, "positive")
            k = n.item()
            tessera._check(k < 5)
            return tessera.zeros(k) + x.sum()

    ones, number = tessera.ones(3), tessera.tensor
    program = export(Checked(), (ones, number(2)))
    for made in (program, program.run_decompositions()):
        module = made.module()
        module.graph.eliminate_dead_code()
        module.recompile()
        assert module(ones, number(4)).tolist() == [3, 3, 3, 3]
        for args, message in (((-ones, number(2)), "positive"), ((ones, number(7)), "Runtime assertion failed")):
            with pytest.raises(RuntimeError, match=message):
                module(*args)


class Sources(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))

    def forward(self, x):
        y = self.layers(x) + x
        values, _ = nn.functional.softmax(y.view(-1), 0).topk(2)
        return values, tessera.relu(y)


def test_nodes_know_the_function_that_they_come_from():
    program = export(Sources(), (tessera.ones(2, 3),))
    notes = [n.meta.get("torch_fn") for n in program.graph.nodes if n.op == "call_function"]
    built_in = "builtin_function_or_method."
    assert notes == [
        ("linear_1", built_in + "linear"), ("relu_1", "function.relu"), ("linear_2", built_in + "linear"),
        ("add_1", "method_descriptor.add"), ("view_1", "method_descriptor.view"), ("softmax_1", "function.softmax"),
        *[("topk_1", "method_descriptor.topk")] * 3, ("relu_1", built_in + "relu"),
    ]  # fmt: skip
    decomposed = program.run_decompositions()
    first = next(n for n in decomposed.graph.nodes if n.target is tessera.ops.aten.addmm.default)
    assert first.meta["torch_fn"] == ("linear_1", built_in + "linear")


def test_nodes_of_strict_programs_know_their_layers():
    program = export(Sources(), (tessera.ones(2, 3),), strict=True)
    found = [n.meta["source_fn_stack"][0] for n in program.graph.nodes if n.op == "call_function"]
    assert [name for name, _ in found[:4]] == ["linear", "relu", "linear_1", "add"]
    assert [source for _, source in found[:5]] == [nn.Linear, nn.ReLU, nn.Linear, operator.add, "view"]
    assert found[5][1] is nn.functional.softmax and found[-1][1] is tessera.relu
    parts = get_source_partitions(program.graph, [nn.Linear])[nn.Linear]
    assert [[n.name for n in p.output_nodes] for p in parts] == [["linear"], ["linear_1"]]


@pytest.mark.parametrize("strict", [False, True])
def test_recurrent_layers_are_the_documented_operators(strict):
    class Tower(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.LSTM(3, 4, 2, batch_first=True, dropout=0.5)
            self.second, self.third = nn.GRU(4, 4, bidirectional=True), nn.RNN(8, 4)

        def forward(self, x):
            return self.third(self.second(self.first(x)[0])[0])

    model, x = Tower().eval(), tessera.randn(2, 5, 3)
    program = export(model, (x,), strict=strict)
    aten = tessera.ops.aten
    called = [n.target for n in program.graph.nodes if n.op == "call_function"]
    recurrent = [aten.lstm.input, aten.gru.input, aten.rnn_tanh.input]
    assert [t for t in called if t in recurrent] == recurrent and aten.transpose.int not in called
    lstm = next(n for n in program.graph.nodes if n.target is aten.lstm.input)
    assert lstm.args[3:] == (True, 2, 0.5, False, False, True)
    file = io.BytesIO()
    save(program, file)
    file.seek(0)
    for module in (program.module(), load(file).module()):
        assert all(map(tessera.equal, module(x), model(x)))
    decomposed = program.run_decompositions()
    assert not any(n.target in recurrent for n in decomposed.graph.nodes)
    assert all(map(tessera.allclose, decomposed.module()(x), model(x)))
