"""tessera.package: archives of code and data, each in a world of modules of its own."""

import importlib.resources
import io
import sys
import textwrap
import traceback
import zipfile

import pytest
import tessera as torch
from tessera.package import (
    EmptyMatchError,
    GlobGroup,
    ObjMismatchError,
    ObjNotFoundError,
    OrderedImporter,
    PackageExporter,
    PackageImporter,
    PackagingError,
    is_from_package,
    sys_importer,
)
from tessera.package.analyze import find_first_use_of_broken_modules, trace_dependencies

LIBRARY = """
    import math
    import torch
    from torch import nn

    class Net(nn.Module):
        class Options:
            width = 3

        def __init__(self):
            super().__init__()
            self.linear, self.options = nn.Linear(2, 3), self.Options()

        def forward(self, x):
            return torch.relu(self.linear(x)) * math.pi

    def fail():
        raise ValueError("here")
"""


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A module that imports torch, as other people's do; within a package that is this library."""
    (tmp_path / "other_library.py").write_text(textwrap.dedent(LIBRARY))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.nn", torch.nn)
    import other_library

    yield other_library
    del sys.modules["other_library"]


def exported(fill, **options):
    buffer = io.BytesIO()
    with PackageExporter(buffer, **options) as exporter:
        fill(exporter)
    buffer.seek(0)
    return buffer


def save_net(library, importer=sys_importer):
    def fill(exporter):
        torch.manual_seed(0)
        exporter.intern("other_library")
        exporter.save_pickle("model", "net.pkl", library.Net())

    return exported(fill, importer=importer)


@pytest.mark.parametrize(
    "pattern, matching, others",
    [
        ("a.**", ["a", "a.b", "a.b.c"], ["ab", "b.a"]),
        ("**", ["a", "a.b"], []),
        ("a.*", ["a.b"], ["a", "a.b.c"]),
        ("**.b", ["b", "a.b", "c.a.b"], ["ab", "a.b.c"]),
        ("a*c.x", ["ac.x", "abbc.x"], ["a.c.x"]),
        ("a.**.z", ["a.z", "a.b.c.z"], ["a"]),
    ],
)
def test_patterns(pattern, matching, others):
    group = GlobGroup(pattern)
    assert [n for n in matching + others if group.matches(n)] == matching


def test_a_double_star_is_a_segment():
    with pytest.raises(ValueError, match=r"\*\*"):
        GlobGroup("a.b**")


def test_modules_and_nested_classes_come_back_from_their_source(library):
    importer = PackageImporter(save_net(library))
    net = importer.load_pickle("model", "net.pkl")
    assert is_from_package(net) and type(net) is not library.Net and type(net.options).__qualname__ == "Net.Options"
    torch.manual_seed(0)
    assert torch.equal(net(torch.ones(1, 2)), library.Net()(torch.ones(1, 2)))
    module = importer.import_module("other_library")
    assert isinstance(net, module.Net) and module is not library and module not in sys.modules.values()


def test_sources_stand_in_tracebacks(library):
    module = PackageImporter(save_net(library)).import_module("other_library")
    with pytest.raises(ValueError, match="here") as error:
        module.fail()
    assert 'raise ValueError("here")' in "".join(traceback.format_tb(error.value.__traceback__))


def test_objects_of_a_package_go_into_another(library):
    first = PackageImporter(save_net(library))
    net = first.load_pickle("model", "net.pkl")
    with pytest.raises(Exception, match="importer"):
        exported(lambda e: (e.intern("**"), e.save_pickle("m", "n.pkl", net)))
    second = exported(lambda e: (e.intern("**"), e.save_pickle("m", "n.pkl", net)), importer=[first, sys_importer])
    again = PackageImporter(second).load_pickle("m", "n.pkl")
    assert is_from_package(again) and type(again) is not type(net)


def test_names_are_looked_up_in_order(library):
    first = PackageImporter(save_net(library))
    theirs, ours = first.import_module("other_library").Net, library.Net
    assert OrderedImporter(first, sys_importer).get_name(theirs) == ("other_library", "Net")
    with pytest.raises(ObjMismatchError, match="Net"):
        OrderedImporter(sys_importer, first).get_name(theirs)
    with pytest.raises(ObjMismatchError, match="Net"):
        OrderedImporter(first, sys_importer).get_name(ours)
    with pytest.raises(ObjNotFoundError, match="local"):
        sys_importer.get_name(lambda: None)


def test_relative_imports_and_resources():
    def fill(exporter):
        exporter.save_source_string(
            "p.a", "from . import b\nfrom .b import value\nimport os.path\nimport p.b as again\n"
        )
        exporter.save_source_string("p.b", "value = 3\n")
        exporter.save_source_string("p", "", is_package=True)
        exporter.save_text("p", "notes.txt", "text")

    importer = PackageImporter(exported(fill))
    a = importer.import_module("p.a")
    assert a.value == 3 and a.b is a.again is importer.import_module(".b", "p") and a.os is __import__("os")
    reader = importer.get_resource_reader("p")
    assert reader.open_resource("notes.txt").read() == b"text" and reader.is_resource("notes.txt")
    if sys.version_info >= (3, 11):  # before, files() knows those of the file system and of zip files alone
        assert importlib.resources.files(importer.import_module("p")).joinpath("notes.txt").read_text() == "text"
    assert importer.load_text("p", "notes.txt") == "text" and importer.get_source("p.b") == "value = 3\n"


def test_a_folder_becomes_a_package(tmp_path):
    (tmp_path / "q" / "inner").mkdir(parents=True)
    (tmp_path / "q" / "__init__.py").write_text("from .inner.deep import x\n")
    (tmp_path / "q" / "inner" / "__init__.py").write_text("")
    (tmp_path / "q" / "inner" / "deep.py").write_text("x = 5\n")
    importer = PackageImporter(exported(lambda e: e.save_source_file("q", str(tmp_path / "q"))))
    assert importer.import_module("q").x == 5
    assert importer.file_structure(include="q/**").has_file("q/inner/deep.py")


def test_an_unpacked_package_loads_from_its_folder(tmp_path, library):
    with zipfile.ZipFile(save_net(library)) as archive:
        archive.extractall(tmp_path / "unpacked")
    net = PackageImporter(tmp_path / "unpacked").load_pickle("model", "net.pkl")
    assert net.linear.weight.shape == (3, 2)


def test_mocked_modules_import_and_refuse_to_work():
    source = "import absent.part\nfrom absent.part import f\n"
    importer = PackageImporter(exported(lambda e: (e.mock("absent.**"), e.save_source_string("m", source))))
    module = importer.import_module("m")
    for use in (lambda: module.f(), lambda: module.absent.part.g[0], lambda: bool(module.f.h)):
        with pytest.raises(NotImplementedError, match=r"absent\.part.* was mocked out"):
            use()


def test_pickles_of_what_is_mocked_are_refused(library):
    with pytest.raises(PackagingError, match="mocked out, but is still being used"):
        exported(lambda e: (e.mock("other_library"), e.save_pickle("m", "n.pkl", library.Net())))


def test_errors_say_what_is_missing_and_where_from():
    with pytest.raises(PackagingError, match="absent_library") as error:
        exported(lambda e: e.save_source_string("a.b", "import absent_library.x\n"), debug=True)
    assert "a.b -> absent_library.x" in str(error.value)
    assert find_first_use_of_broken_modules(error.value) == {"absent_library.x": ["a.b", "absent_library.x"]}
    with pytest.raises(PackagingError, match="denied"):
        exported(lambda e: (e.deny("yaml"), e.save_source_string("a", "import yaml\n")))
    with pytest.raises(PackagingError, match="resolution failed"):
        exported(lambda e: (e.intern("**"), e.save_source_string("a", "import absent_library\n")))
    with pytest.raises(PackagingError, match="C extension"):
        exported(lambda e: (e.intern("numpy.**"), e.save_module("numpy._core._multiarray_umath")))
    with pytest.raises(EmptyMatchError, match="allow_empty=False"):
        exported(lambda e: e.mock("never", allow_empty=False))


def test_a_failed_export_leaves_no_file(tmp_path):
    with pytest.raises(PackagingError), PackageExporter(tmp_path / "p.pt") as exporter:
        exporter.save_source_string("a", "import absent_library\n")
    assert not (tmp_path / "p.pt").exists()


def test_graph_questions_and_hooks():
    seen = []

    def fill(exporter):
        exporter.register_extern_hook(lambda e, name: seen.append(("extern", name)))
        exporter.register_mock_hook(lambda e, name: seen.append(("mock", name))).remove()
        exporter.extern("yaml")
        exporter.mock("absent")
        exporter.save_source_string("a", "import yaml, absent\n")
        assert exporter.externed_modules() == ["yaml"] and exporter.mocked_modules() == ["absent"]
        assert exporter.get_rdeps("yaml") == ["a"] and "a" in exporter.interned_modules()
        assert '"a" -> "yaml";' in exporter.dependency_graph_string() and '"a" -> "yaml";' in exporter.all_paths(
            "a", "yaml"
        )
        assert exporter.get_unique_id() != exporter.get_unique_id()

    exported(fill)
    assert seen == [("extern", "yaml")]


def test_external_modules_can_be_refused():
    package = exported(lambda e: e.save_source_string("a", "import json\n"))
    with pytest.raises(ImportError, match="json"):
        PackageImporter(package, module_allowed=lambda name: name != "json")


def test_the_order_of_saving_does_not_matter():
    package = exported(lambda e: (e.save_source_string("x", "import y\n"), e.save_source_string("y", "z = 1\n")))
    assert PackageImporter(package).import_module("x").y.z == 1


class Reduced:
    """Says itself how it is packaged."""

    def __reduce_package__(self, exporter):
        return rebuild, ("made",)


def rebuild(importer, text):
    return importer.id(), text


def test_objects_that_say_how_they_are_packaged():
    thing = Reduced()
    importer = PackageImporter(exported(lambda e: (e.extern(__name__), e.save_pickle("m", "r.pkl", [thing, thing]))))
    first, second = importer.load_pickle("m", "r.pkl")
    assert first is second or first == second == (importer.id(), "made")


def test_devices_of_loaded_tensors():
    importer = PackageImporter(exported(lambda e: e.save_pickle("m", "t.pkl", torch.arange(3.0))))
    assert importer.load_pickle("m", "t.pkl", map_location="meta").device.type == "meta"
    assert importer.load_pickle("m", "t.pkl").tolist() == [0.0, 1.0, 2.0]


def test_traced_dependencies():
    assert "json" in " ".join(trace_dependencies(lambda text: __import__("json").loads(text), [("[1]",)]))
