"""Programs whose inputs have sizes that differ from call to call: constraints, their errors, and checks of inputs."""

import io
import math

import dataclasses

import pytest

import tessera
from tessera import nn
from tessera.export import AdditionalInputs, Dim, ShapesCollection, draft_export, export, load, save
from tessera.export._symbols import expression_of, text_of
from tessera.export.dynamic_shapes import refine_dynamic_shapes_from_suggested_fixes


class Fn(nn.Module):
    """A function as a module."""

    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x, y):
        return self.f(x, y)


class One(Fn):
    """The same, of one argument."""

    def forward(self, x):
        return self.f(x)


X, Y = tessera.arange(20.0).view(4, 5), tessera.ones(4, 5)


def ranges(program):
    return {str(e): (vr.lower, vr.upper) for e, vr in program.range_constraints.items()}


def shapes(program):
    names = program.graph_signature.user_inputs
    return [str(tuple(n.meta["val"].shape)) for n in program.graph.nodes if n.name in names]


def test_a_size_can_differ():
    program = export(nn.Linear(5, 2), (X,), dynamic_shapes=({0: Dim("n", max=9)},))
    assert ranges(program) == {"s0": (0, 9)} and shapes(program) == ["(s0, 5)"]
    for n in (1, 3, 9):
        assert program.module()(tessera.ones(n, 5)).shape == (n, 2)
    for wrong in (tessera.ones(10, 5), tessera.ones(3, 4), tessera.ones(3)):
        with pytest.raises(AssertionError, match="Guard failed"):
            program.module()(wrong)


def test_sizes_are_computed_by_nodes():
    class M(nn.Module):
        def forward(self, x):
            n = x.shape[0]
            return x.reshape(n * 5), n + 1, tessera.zeros(2 * n, n // 2)

    program = export(M(), (X,), dynamic_shapes=({0: Dim("n", min=2)},))
    flat, more, zeros = program.module()(tessera.ones(7, 5))
    assert flat.shape == (35,) and more == 8 and zeros.shape == (14, 3)
    assert program.graph_signature.output_specs[1].arg.name == "add"


@pytest.mark.parametrize(
    "f, message, fixes",
    [
        (lambda x, y: x + y, "must always be equal", ["b = a"]),
        (lambda x, y: x + y[:, :4].t()[:, :4].mean() if x.shape[0] == 4 else x, "constant (4)", ["a = 4"]),
        (lambda x, y: x * 2 if x.shape[0] > 3 else x, "4 <= L['x'].size()[0]", ["a = Dim('a', min=4)"]),
        (lambda x, y: x * 2 if x.shape[0] < 9 else x, "L['x'].size()[0] <= 8", ["a = Dim('a', max=8)"]),
        (
            lambda x, y: x * 2 if x.shape[0] % 2 == 0 else x,
            "(L['x'].size()[0] % 2) == 0",
            ["_a = Dim('_a', min=1, max=oo)", "a = 2*_a"],
        ),
    ],
)
def test_named_sizes_that_the_program_does_not_allow(f, message, fixes):
    specs = {"x": {0: Dim("a")}, "y": {0: Dim("b")}}
    args = (X, Y)
    with pytest.raises(tessera._dynamo.exc.UserError) as caught:
        export(Fn(f), args, dynamic_shapes=specs)
    assert caught.value.error_type.name == "CONSTRAINT_VIOLATION"
    assert message in caught.value.msg and "Suggested fixes:" in caught.value.msg
    for fix in fixes:
        assert f"\n  {fix}" in caught.value.msg
    refined = refine_dynamic_shapes_from_suggested_fixes(caught.value.msg, specs)
    assert export(Fn(f), args, dynamic_shapes=refined).module()(*args).shape == (4, 5)


def test_what_hints_find():
    add = Fn(lambda x, y: x + y)
    both = ({0: Dim.AUTO}, {0: Dim.AUTO})
    assert shapes(export(add, (X, Y), dynamic_shapes=both)) == ["(s0, 5)", "(s0, 5)"]
    assert shapes(export(add, (X, Y), dynamic_shapes=({0: Dim.AUTO}, None))) == ["(4, 5)", "(4, 5)"]
    with pytest.raises(RuntimeError, match="specialized it to be a constant"):
        export(add, (X, Y), dynamic_shapes=({0: Dim.DYNAMIC}, None))
    bounded = export(Fn(lambda x, y: x), (X, Y), dynamic_shapes=({0: Dim.AUTO(min=3, max=8)}, {0: Dim("n")}))
    assert sorted(ranges(bounded).values()) == [(0, tessera.inf), (3, 8)]


def test_sizes_of_zero_and_one():
    one = tessera.ones(1, 5)
    f = Fn(lambda x, y: x * 2)
    assert shapes(export(f, (one, Y), dynamic_shapes=({0: Dim.AUTO}, None)))[0] == "(1, 5)"
    for spec, text in ((Dim.DYNAMIC, "0/1 specialized"), (Dim("a"), "constant \\(1\\)")):
        with pytest.raises((RuntimeError, ValueError), match=text):
            export(f, (one, Y), dynamic_shapes=({0: spec}, None))


@pytest.mark.parametrize(
    "specs, text",
    [
        (({0: Dim("a", min=5)}, None), "4 not in range \\[5, int_oo\\]"),
        (({0: Dim("a", max=3)}, None), "4 not in range \\[2, 3\\]"),
        (({0: 3}, None), "Static shape constraint of 3 does not match input size of 4"),
        (({0: Dim.AUTO(min=5)}, None), "4 not in range"),
    ],
)
def test_examples_outside_of_their_range(specs, text):
    from tessera.fx.experimental.symbolic_shapes import ConstraintViolationError

    with pytest.raises(ConstraintViolationError, match=text):
        export(Fn(lambda x, y: x), (X, Y), dynamic_shapes=specs)


def test_unequal_sizes_of_one_dim():
    d = Dim("d")
    with pytest.raises(RuntimeError, match=r"L\['y'\].size\(\)\[1\] = 5 is not equal to L\['x'\].size\(\)\[0\] = 4"):
        export(Fn(lambda x, y: x), (X, Y), dynamic_shapes=({0: d}, {1: d}))


def test_derived_dims_are_checked_in_both_ways():
    d = Dim("d", min=2, max=6)
    f = Fn(lambda x, y: x + y[1:])
    program = export(f, (tessera.ones(5), tessera.ones(6)), dynamic_shapes=({0: d}, {0: d + 1}))
    assert ranges(program) == {"s0": (2, 6), "s0 + 1": (3, 7)}
    assert program.module()(tessera.ones(6), tessera.ones(7)).shape == (6,)
    with pytest.raises(AssertionError, match="Guard failed"):
        program.module()(tessera.ones(5), tessera.ones(5))
    only = export(Fn(lambda x, y: x), (tessera.ones(8), Y), dynamic_shapes=({0: 2 * Dim("k") + 2}, None))
    assert only.module()(tessera.ones(12), Y).shape == (12,)
    with pytest.raises(AssertionError, match="% 2"):
        only.module()(tessera.ones(11), Y)
    with pytest.raises(RuntimeError, match="of the form 2\\*k, where k is an integer"):
        export(Fn(lambda x, y: x), (tessera.ones(7), Y), dynamic_shapes=({0: 2 * Dim("k")}, None))


def test_guards_over_several_sizes_are_checked_at_calls():
    f = Fn(lambda x, y: x * 2 if x.shape[0] > y.shape[0] else x)
    args = (tessera.ones(6), tessera.ones(3))
    program = export(f, args, dynamic_shapes=({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC}))
    assert program.module()(tessera.ones(5), tessera.ones(4)).tolist() == [2] * 5
    with pytest.raises(AssertionError, match="Guard failed"):
        program.module()(tessera.ones(4), tessera.ones(5))


def test_numbers_can_be_dynamic():
    class M(nn.Module):
        def forward(self, x, n):
            return x.repeat(n, 1), n * 2

    program = export(M(), (X, 3), dynamic_shapes=(None, Dim.DYNAMIC))
    found, twice = program.module()(X, 7)
    assert tessera.equal(found, X.repeat(7, 1)) and twice == 14
    assert program.graph_signature.input_specs[1].arg.name == "n"


def test_what_programs_find_themselves():
    class M(nn.Module):
        def forward(self, x):
            n = x.sum().to(tessera.int64).item()
            tessera._check(n >= 0)
            tessera._check(n <= 10)
            return tessera.zeros(n)

    program = export(M(), (tessera.ones(3),))
    module = program.module()
    assert module(tessera.full((3,), 2.0)).shape == (6,)
    with pytest.raises(RuntimeError):
        module(tessera.full((3,), 20.0))


def test_branches_on_numbers_name_the_line():
    class M(nn.Module):
        def forward(self, x):
            if x.sum() > 0:
                return x + 1
            return x

    with pytest.raises(RuntimeError, match="test_dynamic_sizes.py"):
        export(M(), (tessera.ones(3),))


def test_drafts_say_what_is_wrong():
    class M(nn.Module):
        def forward(self, x):
            if x.sum() > 0:
                return x + 1
            return x

    program = draft_export(M(), (tessera.ones(3),))
    assert program.module()(tessera.ones(3)).tolist() == [2, 2, 2]
    (failure,) = program._report.failures
    assert failure.failure_type.name == "DATA_DEPENDENT_ERROR" and "test_dynamic_sizes.py" in str(program._report)
    assert "Eq(u0, 1)" in failure.print() and failure.data["result"] is True
    with pytest.raises(RuntimeError, match="Runtime assertion failed"):
        program.module()(-tessera.ones(3))
    assert draft_export(nn.ReLU(), (X,))._report.successful()
    relaxed = draft_export(Fn(lambda x, y: x + y), (X, Y), dynamic_shapes=({0: Dim("a")}, {0: Dim("b")}))
    assert relaxed._report.failures[0].failure_type.name == "GUARD_ADDED"
    assert relaxed.module()(tessera.ones(6, 5), tessera.ones(6, 5)).shape == (6, 5)
    assert relaxed._report.failures[0].data["symbol_to_sources"] == {
        "s0": "L['x'].size()[0]", "s1": "L['y'].size()[0]",
    }  # fmt: skip


def test_drafts_go_on_where_a_kernel_is_missing_or_wrong():
    library = tessera.library.Library("drafts", "DEF")
    library.define("unruly(Tensor x) -> Tensor")
    library.impl("unruly", lambda x: x[x > 0], "CPU")
    f = One(lambda x: tessera.ops.drafts.unruly(x) * 2)
    program = draft_export(f, (tessera.ones(3),), dynamic_shapes=({0: Dim.DYNAMIC},))
    (failure,) = program._report.failures
    assert failure.failure_type.name == "MISSING_FAKE_KERNEL" and failure.data["op"] == "drafts.unruly.default"
    assert program.module()(tessera.tensor([1.0, -1.0, 2.0, 3.0])).tolist() == [2, 4, 6]
    tessera.library.register_fake("drafts::unruly", lambda x: tessera.empty_like(x).int(), lib=library)
    (failure,) = draft_export(f, (tessera.ones(3),))._report.failures
    assert failure.failure_type.name == "MISMATCHED_FAKE_KERNEL" and "Dtypes" in failure.data["reason"]


def test_drafts_know_the_numbers_of_the_example():
    def f(x, n):
        found = x.nonzero()
        if found.shape[0] > n.item():
            return found[: n.item()]
        return found

    program = draft_export(Fn(f), (tessera.ones(4), tessera.tensor(2)))
    assert {failure.failure_type.name for failure in program._report.failures} == {"DATA_DEPENDENT_ERROR"}
    assert program.module()(tessera.ones(4), tessera.tensor(3)).shape == (3, 1)
    with pytest.raises(RuntimeError, match="Runtime assertion failed"):
        program.module()(tessera.zeros(4), tessera.tensor(3))


def test_what_is_assumed_of_two_numbers_is_checked():
    def f(x, y):
        a, b = x.tolist()
        tessera._check(a >= 0)
        tessera._check(a + b == y.shape[0])
        return tessera.split(y, [a, b])

    program = export(Fn(f), (tessera.tensor([2, 3]), tessera.ones(5)))
    assert [t.shape[0] for t in program.module()(tessera.tensor([1, 4]), tessera.ones(5))] == [1, 4]
    with pytest.raises(RuntimeError, match="Eq\\(u0 \\+ u1, 5\\)"):
        program.module()(tessera.tensor([1, 3]), tessera.ones(5))


def test_sizes_that_are_rounded():
    def f(x):
        n = x.shape[0]
        return tessera.zeros(math.floor(n * 0.7)), tessera.ones(math.ceil(n * 1.5)), tessera.sym_sqrt(n) * x

    program = export(One(f), (tessera.ones(10),), dynamic_shapes=({0: Dim.DYNAMIC},))
    data = io.BytesIO()
    save(program, data)
    for p in (program, load(data)):
        for given, known in zip(p.module()(tessera.ones(13)), f(tessera.ones(13))):
            assert tessera.equal(given, known)


def test_collections_and_additional_inputs_are_specs():
    c = ShapesCollection()
    c[X] = {0: Dim("n")}
    f = Fn(lambda x, y: x * y[0])
    assert export(f, (X, Y), dynamic_shapes=c).module()(tessera.ones(9, 5), Y).shape == (9, 5)
    more = AdditionalInputs()
    more.add((tessera.ones(6, 5), Y))
    program = export(f, (X, Y), dynamic_shapes=more)
    assert shapes(program) == ["(s0, 5)", "(4, 5)"]
    more.add((tessera.ones(6, 3), Y))
    with pytest.raises(RuntimeError, match=r"Expected input at \*args\[\d\]"):
        more.verify(program)


def test_programs_in_files_keep_their_symbols():
    d = Dim("d", min=2, max=60)
    f = Fn(lambda x, y: (x.reshape(-1, 2).sum(1), y.shape[0] * 2))
    program = export(f, (tessera.ones(4), tessera.ones(5)), dynamic_shapes=({0: 2 * d}, {0: 2 * d + 1}))
    data = io.BytesIO()
    save(program, data)
    again = load(data)
    assert ranges(again) == ranges(program) and str(again.graph) == str(program.graph)
    assert shapes(again) == shapes(program) and again._guards_code == program._guards_code
    x, y = tessera.ones(10), tessera.ones(11)
    assert again.module()(x, y)[0].shape == (5,) and again.module()(x, y)[1] == 22
    for args in ((tessera.ones(9), y), (x, tessera.ones(10)), (tessera.ones(200), tessera.ones(201))):
        with pytest.raises(AssertionError, match="Guard failed"):
            again.module()(*args)


@pytest.mark.parametrize(
    "text", ["__import__('os')", "s0.x", "lambda: 1", "[1]", "s0 if s1 else 2", "x", "s0 <", "f(s0)"]
)
def test_texts_that_are_no_expressions(text):
    def symbol(name):
        if name not in ("s0", "s1"):
            raise ValueError(name)
        return tessera.fx.experimental.symbolic_shapes.Symbol(name)

    with pytest.raises(ValueError):
        expression_of(text, symbol)


@pytest.mark.parametrize(
    "text", ["s0", "(2*s0 + 1)", "(s0 // 3)", "(s0*s1 + (s0 % 4))", "max(s0, s1)", "s0 >= 2*s1", "(s0 % 4) == 0"]
)
def test_expressions_come_back_from_their_texts(text):
    symbol = tessera.fx.experimental.symbolic_shapes.Symbol
    expr = expression_of(text, symbol)
    assert expression_of(text_of(expr), symbol) == expr


def test_files_of_others_say_symbols_in_their_way():
    symbol = tessera.fx.experimental.symbolic_shapes.Symbol
    expr = expression_of("Add(Mul(Integer(2), Symbol('s7', positive=True, integer=True)), Integer(1))", symbol)
    assert expr == symbol("s7") * 2 + 1


def test_numbers_that_are_found_are_indices_and_sizes():
    def pick(x, n):
        at = n.item()
        tessera._check(at >= 0)
        tessera._check(at < x.shape[0])
        return x[at] * 2

    def rows(x, n):
        return x.view(n.item(), -1)

    x = tessera.arange(12.0)
    for f in (pick, rows):
        program = export(Fn(f), (x, tessera.tensor(3)))
        for n in (2, 3, 4):
            assert tessera.equal(program.module()(x, tessera.tensor(n)), f(x, tessera.tensor(n)))
        with pytest.raises(RuntimeError):
            program.module()(x, tessera.tensor(13))


def test_images_of_any_size_are_resized():
    for settings in (dict(scale_factor=2), dict(scale_factor=(2.5, 0.5), mode="bilinear")):
        f = One(lambda x: nn.functional.interpolate(x, **settings))  # noqa: B023
        program = export(
            f, (tessera.rand(2, 3, 4, 6),), dynamic_shapes=({0: Dim.DYNAMIC, 2: Dim.DYNAMIC, 3: Dim.DYNAMIC},)
        )
        x = tessera.rand(3, 3, 5, 8)
        assert tessera.equal(program.module()(x), f(x))


def test_guards_may_round():
    f = Fn(lambda x, y: x * 2 if math.floor(x.shape[0] * 0.7) > y.shape[0] else x)
    program = export(f, (tessera.ones(10), tessera.ones(3)), dynamic_shapes=({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC}))
    assert program.module()(tessera.ones(10), tessera.ones(4))[0] == 2
    with pytest.raises(AssertionError, match="Guard failed: math.floor"):
        program.module()(tessera.ones(10), tessera.ones(9))


def test_decompositions_keep_batch_and_sequence_dynamic():
    module = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    sizes = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},)
    program = export(module, (tessera.rand(2, 5, 8),), dynamic_shapes=sizes).run_decompositions()
    assert ranges(program).keys() == {"s0", "s1"}
    x = tessera.rand(3, 7, 8)
    tessera.testing.assert_close(program.module()(x), module(x))


def test_a_size_may_be_computed_of_several_others():
    class Joined(nn.Module):
        def forward(self, x, y, z):
            return tessera.cat([x, y]) + z

    args = tuple(tessera.ones(n) for n in (3, 4, 7))
    for dims in ([Dim(n) for n in "abc"], [Dim.AUTO] * 3):
        program = export(Joined(), args, dynamic_shapes=tuple({0: d} for d in dims))
        assert program.module()(*(tessera.ones(n) for n in (2, 5, 7))).shape == (7,)
        sums = [key for key in program.range_constraints if len(getattr(key, "free_symbols", ())) == 2]
        assert len(sums) == 1
        with pytest.raises((AssertionError, RuntimeError)):
            program.module()(*(tessera.ones(n) for n in (2, 5, 8)))


def test_violations_name_the_range_that_was_said():
    class Rows(nn.Module):
        def forward(self, x):
            return x.view(3, -1)

    with pytest.raises(RuntimeError, match=r"in the specified range d <= 100 satisfy the generated guard .* == 0\."):
        export(Rows(), (tessera.ones(6),), dynamic_shapes=({0: Dim("d", max=100)},))
    assert [repr(Dim("d")), repr(Dim("d", min=2, max=9))] == ["Dim('d', min=0)", "Dim('d', max=9)"]


def test_a_dataclass_can_be_registered_again():
    @dataclasses.dataclass
    class Pair:
        a: tessera.Tensor
        b: tessera.Tensor

    tessera.export.register_dataclass(Pair)
    tessera.export.register_dataclass(Pair)


def test_sizes_of_several_dimensions_are_joined_one_by_one():
    auto = {0: Dim.AUTO, 1: Dim.AUTO}

    class Add(tessera.nn.Module):
        def forward(self, x, y):
            return x + y

    program = export(Add(), (tessera.ones(3, 4), tessera.ones(3, 4)), dynamic_shapes=(auto, auto))
    shapes = [tuple(map(str, n.meta["val"].shape)) for n in program.graph.nodes if n.op == "placeholder"]
    assert shapes[0] == shapes[1] and len(set(shapes[0])) == 2
    assert program.module()(tessera.ones(2, 6), tessera.ones(2, 6)).shape == (2, 6)


@pytest.mark.parametrize("indices", [[1, 5], [0, 6], [4, 2], [-1, 20]])
def test_slices_between_numbers_of_tensors(indices):
    class Cut(tessera.nn.Module):
        def forward(self, x, at):
            a, b = at.tolist()
            return (x[:a], x[a:b].sum(0), x[b:], x[:, a:] + 1, *tessera.tensor_split(x, at))

    x, at = tessera.randn(6, 7), tessera.tensor(indices)
    program = export(Cut(), (x, tessera.tensor([2, 4])))
    for got, want in zip(program.module()(x, at), Cut()(x, at), strict=True):
        assert tessera.equal(got, want)


def test_tensors_of_numbers_that_programs_write_to_are_made_at_each_call():
    def f(x):
        y, z = tessera.tensor(3), tessera.tensor([1.0, 2.0, 3.0])
        y.add_(1)
        z[0].add_(1)
        return x + y, z

    x = tessera.randn(3)
    made = [export(One(f), (x,), strict=strict).module() for strict in (True, False)]
    made += [tessera.fx.experimental.proxy_tensor.make_fx(f, tracing_mode=mode)(x) for mode in ("fake", "symbolic")]
    for function in made:
        for _ in range(3):
            got, want = function(x), f(x)
            assert tessera.equal(got[0], want[0]) and tessera.equal(got[1], want[1])


def test_a_batch_that_divides_another_tensors_elements_is_its_batch():
    class M(tessera.nn.Module):
        def forward(self, x, mask):
            return x + mask.view(x.shape[0], -1)

    sizes = {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
    program = export(M(), (tessera.ones(2, 8), tessera.ones(2, 8)), dynamic_shapes=(sizes, sizes))
    assert len(program.range_constraints) == 2
    for shape in ((3, 11), (6, 6), (5, 9)):
        x = tessera.ones(shape)
        assert tessera.equal(program.module()(x, x), x + x)
