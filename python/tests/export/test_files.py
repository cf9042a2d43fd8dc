"""save() and load(): what comes back, and files that are refused."""

import copy
import io
import json
import pickle
import random
import zipfile

import pytest

import tessera
from tessera import nn
from tessera.export import export, load, register_dataclass, save
from tessera.export.pt2_archive import PT2ArchiveReader, PT2ArchiveWriter, is_pt2_package

X = tessera.tensor([2.0, 3.0, 4.0])
MODEL = "archive/models/model.json"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3)
        self.bn = nn.BatchNorm2d(2)
        self.low = nn.Parameter(tessera.ones(2).to(tessera.bfloat16), requires_grad=False)
        self.register_buffer("index", tessera.tensor([1, 0]))
        self.extra = tessera.tensor(0.5)

    def forward(self, x, *, scale=1.5):
        y = self.bn(self.conv(x)) * scale + self.extra
        top, at = y.flatten(1).max(1)
        parts = y.split(1, 1)
        return {"y": parts[0], "at": at[self.index]}, top.to(tessera.float64), self.low, (None, 3, float("inf"))


@pytest.fixture(scope="module")
def program():
    tessera.manual_seed(0)
    return export(Net(), (tessera.randn(2, 1, 5, 5),), {"scale": 1.5})


def saved(program, **more):
    f = io.BytesIO()
    save(program, f, **more)
    f.seek(0)
    return f


def flat(result):
    return [r for r in tessera.utils._pytree.tree_leaves(result)]


def test_a_loaded_program_is_the_same(program):
    again = load(saved(program))
    assert str(again.graph_signature) == str(program.graph_signature)
    assert str(again.graph) == str(program.graph)
    assert again.module_call_graph == program.module_call_graph
    assert [type(v) for v in again.state_dict.values()] == [type(v) for v in program.state_dict.values()]
    shown = lambda p: [  # noqa: E731
        (n.name, n.stack_trace, n.meta.get("nn_module_stack")) for n in p.graph.nodes if n.op == "call_function"
    ]
    assert shown(again) == shown(program)


def test_a_loaded_program_gives_the_same_bits(program):
    x = tessera.randn(2, 1, 5, 5)
    first, second = load(saved(program)).module()(x, scale=1.5), load(saved(program)).module()(x, scale=1.5)
    expected = program.module()(x, scale=1.5)
    for a, b, c in zip(flat(first), flat(second), flat(expected)):
        assert type(a) is type(c)
        assert tessera.equal(a, b) and tessera.equal(a, c) if isinstance(a, tessera.Tensor) else a == b == c


def test_example_inputs_come_back(program):
    args, kwargs = load(saved(program)).example_inputs
    assert tessera.equal(args[0], program.example_inputs[0][0]) and kwargs == {"scale": 1.5}


def test_the_same_program_gives_the_same_file(program):
    assert saved(program).getvalue() == saved(program).getvalue()


def test_tied_parameters_are_written_once():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(64, 64), nn.Linear(64, 64)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    f = saved(export(Tied(), (tessera.ones(1, 64),)))
    sizes = [i.file_size for i in zipfile.ZipFile(f).infolist() if "weight_" in i.filename]
    assert sorted(sizes) == [256, 256, 16384]
    again = load(f)
    assert again.state_dict["a.weight"].data_ptr() == again.state_dict["b.weight"].data_ptr()


def test_views_are_written_as_what_they_show():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("b", tessera.arange(100.0).view(10, 10)[2:4, ::3])

        def forward(self, x):
            return x + self.b

    m = M()
    f = saved(export(m, (tessera.zeros(2, 4),)))
    assert [i.file_size for i in zipfile.ZipFile(f).infolist() if "weight_" in i.filename] == [32]
    assert tessera.equal(load(f).module()(tessera.zeros(2, 4)), m.b)


def test_dataclasses_with_a_name_can_be_saved():
    import dataclasses

    @dataclasses.dataclass
    class Pair:
        a: tessera.Tensor
        b: tessera.Tensor

    register_dataclass(Pair, serialized_type_name="tests.export.Pair")

    class M(nn.Module):
        def forward(self, p):
            return Pair(p.b, p.a)

    given = Pair(tessera.ones(1), tessera.zeros(1))
    found = load(saved(export(M(), (given,)))).module()(given)
    assert type(found) is Pair and found.b.item() == 1


def test_extra_files_and_opsets(program):
    f = saved(program, extra_files={"a.txt": "text", "b": b"\x01"}, opset_version={"mine": 3})
    wanted = {"a.txt": "", "b": ""}
    load(f, extra_files=wanted, expected_opset_version={"mine": 3})
    assert wanted == {"a.txt": "text", "b": "\x01"}
    f, wanted = saved(program, extra_files={"b": b"\xff\x01"}), {"b": "", "c": "as it was"}
    load(f, extra_files=wanted)
    assert wanted == {"b": b"\xff\x01", "c": "as it was"}
    f = saved(program, opset_version={"mine": 3})
    with pytest.raises(RuntimeError, match="opset 'mine' has version 3, expected at most 2"):
        load(f, expected_opset_version={"mine": 2})


def test_custom_operators_are_found_again(program):
    @tessera.library.custom_op("tests_export::twice", mutates_args=())
    def twice(x: tessera.Tensor) -> tessera.Tensor:
        return x * 2

    twice.register_fake(lambda x: tessera.empty_like(x))

    class M(nn.Module):
        def forward(self, x):
            return twice(x)

    assert load(saved(export(M(), (tessera.ones(2),)))).module()(tessera.ones(2)).tolist() == [2, 2]


def test_the_archive_has_its_marks(program):
    f = saved(program)
    assert is_pt2_package(f) and not is_pt2_package(io.BytesIO(b"PK nothing"))
    with PT2ArchiveReader(f) as archive:
        assert archive.archive_version() == 0 and archive.read_string("archive_format") == "pt2"
        assert "models/model.json" in archive.get_file_names()
        assert json.loads(archive.read_string("models/model.json"))["schema_version"]["major"] == 8


def test_archives_hold_texts_bytes_and_folders(tmp_path):
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "deep" / "f").write_bytes(b"12")
    with PT2ArchiveWriter(tmp_path / "a.pt2") as archive:
        archive.write_folder("extra", tmp_path / "in")
        archive.write_string("x", "y")
        assert archive.has_record("extra/deep/f") and archive.count_prefix("extra/") == 1
        with pytest.raises(RuntimeError, match="already"):
            archive.write_bytes("x", b"")
        with pytest.raises(AssertionError, match="Expected bytes"):
            archive.write_bytes("z", "text")
    with PT2ArchiveReader(tmp_path / "a.pt2") as archive:
        assert archive.read_bytes("extra/deep/f") == b"12"


# --- files that are refused ---


def changed(program, change, name=MODEL):
    """A saved program in whose JSON a function changed something."""
    return with_entry(program, name, lambda data: json.dumps(change(json.loads(data))).encode())


def with_entry(program, name, change, compression=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(saved(program)) as old, zipfile.ZipFile(out, "w", compression) as new:
        for info in old.infolist():
            data = old.read(info)
            new.writestr(info.filename, change(data) if info.filename == name else data)
    out.seek(0)
    return out


def set_in(path, value):
    """A change of the value at a path."""

    def change(data):
        at = data
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value(at[path[-1]]) if callable(value) else value
        return data

    return change


GRAPH = ("graph_module", "graph")
NODE = (*GRAPH, "nodes", 0)
SIGNATURE = ("graph_module", "signature", "input_specs")
ENTRY = ("graph_module", "module_call_graph", 0, "signature")


@pytest.mark.parametrize(
    "path, value",
    [
        ((*NODE, "target"), "torch.ops.load_library"),
        ((*NODE, "target"), "os.system"),
        ((*NODE, "target"), "torch.ops.aten.__class__.mro"),
        ((*NODE, "target"), "torch.ops.aten.nothing.default"),
        ((*NODE, "name"), "x = 1\n    import os\n"),
        ((*NODE, "name"), "class"),
        ((*NODE, "name"), "x"),
        ((*NODE, "inputs", 0, "arg"), {"as_tensor": {"name": "nobody"}}),
        ((*NODE, "inputs", 0, "arg"), {"as_code": "1"}),
        ((*NODE, "inputs", 0), {"name": "self, **x", "arg": {"as_int": 1}, "kind": 2}),
        ((*NODE, "inputs", 0), {"name": "nobody", "arg": {"as_int": 1}, "kind": 2}),
        ((*GRAPH, "inputs"), []),
        ((*GRAPH, "outputs"), [{"as_tensor": {"name": "x"}}]),
        ((*GRAPH, "tensor_values", "x", "dtype"), 99),
        ((*GRAPH, "tensor_values", "x", "sizes", 0), {"as_int": -1}),
        ((*GRAPH, "tensor_values", "x", "sizes", 0), {"as_int": 1 << 70}),
        ((*GRAPH, "tensor_values", "x", "sizes", 0), {"as_expr": {"expr_str": "__import__('os')", "hint": None}}),
        ((*SIGNATURE, 0, "parameter", "arg", "name"), "a); import os; ("),
        ((*SIGNATURE, 0, "parameter", "parameter_name"), 'x"); __import__("os").system("true'),
        ((*SIGNATURE, 0, "parameter", "parameter_name"), "nothing"),
        ((*ENTRY, "forward_arg_names"), ["x, y=__import__('os')"]),
        ((*ENTRY, "in_spec"), json.dumps([1, {"type": "os.system", "context": None, "children_spec": []}])),
        ((*ENTRY, "in_spec"), json.dumps([1, {"type": None, "context": None, "children_spec": []}])),
        (("schema_version", "major"), 99),
        (("verifiers",), ["NOBODY"]),
        (("range_constraints",), {"__import__('os')": {"min_val": 0, "max_val": 1}}),
        (("guards_code",), ["__import__('os').system('true')"]),
    ],
)
def test_changed_programs_are_refused(program, path, value):
    with pytest.raises(RuntimeError):
        load(changed(program, set_in(path, value)))


WEIGHTS = "archive/data/weights/model_weights_config.json"


@pytest.mark.parametrize(
    "path, value",
    [
        (("config", "conv.weight", "tensor_meta", "sizes", 0, "as_int"), 1000),
        (("config", "conv.weight", "tensor_meta", "strides", 0, "as_int"), 1 << 40),
        (("config", "conv.weight", "tensor_meta", "storage_offset", "as_int"), 17),
        (("config", "conv.weight", "tensor_meta", "storage_offset", "as_int"), -1),
        (("config", "conv.weight", "tensor_meta", "sizes", 0, "as_int"), True),
        (("config", "conv.weight", "use_pickle"), True),
        (("config", "conv.weight", "path_name"), "../../models/model.json/"),
        (("config", "conv.weight", "tensor_meta", "layout"), 2),
    ],
)
def test_tensors_outside_of_their_bytes_are_refused(program, path, value):
    with pytest.raises(RuntimeError):
        load(changed(program, set_in(path, value), WEIGHTS))


def test_nothing_is_unpickled(program):
    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("unpickled",))

    data = pickle.dumps(Bomb())
    for name in (WEIGHTS, "archive/data/sample_inputs/model.json", MODEL):
        with pytest.raises(RuntimeError):
            load(with_entry(program, name, lambda _: data))


def test_compressed_archives_are_refused(program):
    with pytest.raises(RuntimeError, match="compressed"):
        load(with_entry(program, None, None, zipfile.ZIP_DEFLATED))


def test_deep_json_is_refused(program):
    with pytest.raises(RuntimeError):
        load(with_entry(program, MODEL, lambda _: b"[" * 100000))


def test_files_that_are_none(tmp_path, program):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing.pt2")
    with pytest.raises(RuntimeError, match="zip"):
        load(io.BytesIO(b"garbage"))
    with pytest.raises(RuntimeError, match="Parent directory"):
        save(program, tmp_path / "missing" / "m.pt2")
    with pytest.raises(TypeError, match="ExportedProgram"):
        save(nn.Linear(1, 1), tmp_path / "m.pt2")


def damaged(data, rng):
    """Data with some bytes changed, cut or repeated."""
    data = bytearray(data)
    kind = rng.randrange(3)
    at = rng.randrange(len(data))
    if kind == 0:
        for _ in range(rng.randrange(1, 8)):
            data[rng.randrange(len(data))] = rng.randrange(256)
    elif kind == 1:
        del data[at : at + rng.randrange(1, 64)]
    else:
        data[at:at] = data[at : at + 16]
    return bytes(data)


def test_damaged_files_raise_or_load(program):
    rng, outcomes = random.Random(0), set()
    whole = saved(program).getvalue()
    for i in range(150):
        changed_file = (
            io.BytesIO(damaged(whole, rng)) if i % 3 else with_entry(program, MODEL, lambda d: damaged(d, rng))
        )
        try:
            load(changed_file).module()
            outcomes.add("loads")
        except (RuntimeError, UnicodeDecodeError):
            outcomes.add("refused")
    assert "refused" in outcomes


def set_at_random(data, rng):
    """JSON data with one value replaced by another of the same file, or by something else."""
    places = []

    def walk(at):
        for key in at if isinstance(at, dict) else range(len(at)):
            places.append((at, key))
            if isinstance(at[key], (dict, list)):
                walk(at[key])

    walk(data)
    at, key = rng.choice(places)
    other, other_key = rng.choice(places)
    at[key] = rng.choice([None, -1, "", "x", [], {}, 1 << 65, True, 1.5, json.loads(json.dumps(other[other_key]))])
    return data


def test_programs_with_other_values_raise_or_load(program):
    rng, outcomes = random.Random(1), set()
    for _ in range(300):
        try:
            load(changed(program, lambda data: set_at_random(data, rng))).module()
            outcomes.add("loads")
        except RuntimeError:
            outcomes.add("refused")
    assert outcomes == {"refused", "loads"}


class Named(nn.Module):
    """A member under a name that graph modules have, too."""

    def __init__(self, name, member):
        super().__init__()
        self.name = name
        if isinstance(member, nn.Module):
            self.add_module(name, member)
        elif isinstance(member, nn.Parameter):
            self.register_parameter(name, member)
        else:
            self.register_buffer(name, member)

    def forward(self, x):
        member = getattr(self, self.name)
        return member(x) if isinstance(member, nn.Module) else x * member


@pytest.mark.parametrize("name", ["graph", "code", "meta", "_graph", "_code", "recompile", "add_submodule"])
@pytest.mark.parametrize("make", [lambda: nn.Linear(3, 3), lambda: X.clone(), lambda: nn.Parameter(X.clone())])
def test_members_may_have_any_name(name, make):
    model, x = Named(name, make()), tessera.randn(2, 3)
    program = export(model, (x,))
    file = io.BytesIO()
    save(program, file)
    file.seek(0)
    for module in (program.module(), load(file).module(), program.run_decompositions().module()):
        assert tessera.equal(module(x), model(x)) and module.state_dict().keys() == model.state_dict().keys()
    traced = tessera.fx.symbolic_trace(model)
    copies = (traced, copy.deepcopy(traced), pickle.loads(pickle.dumps(traced)))
    for module in copies:
        assert tessera.equal(module(x), model(x)) and module.state_dict().keys() == model.state_dict().keys()
        assert isinstance(module.graph, tessera.fx.Graph) and "return" in module.code
        module.graph.lint()
    assert tessera.equal(tessera.fx.Interpreter(traced).run(x), model(x))
