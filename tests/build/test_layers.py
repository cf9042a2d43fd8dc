"""Which library may depend on which: the rules of ARCHITECTURE.md, over the edges that the BUILD files declare."""

import collections
import pathlib
import re
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CORE = ["tensor/core", "tensor/dispatch", "tensor/ops"]  # each may use those before it
ENTRIES = 14  # of a folder that holds rooms
SOURCES = 40  # files of a folder


def package(label):
    return label.split(":")[0].lstrip("/")


def namespace(folder):
    return folder.split("/")[0]


def rules(*kinds):
    """All rules of some kinds: (label, serves tests alone, labels of this tree that it names)."""
    query = " + ".join(f'kind("{kind} rule", //...)' for kind in kinds)
    text = subprocess.run(
        ["bazel", "query", "--output=xml", "--keep_going", query], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for rule in ElementTree.fromstring(text.replace('version="1.1"', 'version="1.0"', 1)).iter("rule"):
        inputs = [e.get("name") for e in rule.iter("rule-input")]
        yield (
            rule.get("name"),
            rule.get("class") == "cc_test" or rule.find("boolean[@name='testonly'][@value='true']") is not None,
            [x for x in inputs if x.startswith("//") and not x.startswith(("//third_party", "//tools"))],
        )


@pytest.fixture(scope="module")
def all_rules():
    return list(rules("cc_library", "cuda_objects", "cc_test"))


@pytest.fixture(scope="module")
def edges(all_rules):
    """Library -> the libraries of this tree that it names, without tests and what serves them."""
    return {label: inputs for label, test, inputs in all_rules if not test}


@pytest.fixture(scope="module")
def edges_of_tests(all_rules):
    return {label: inputs for label, test, inputs in all_rules if test}


def wrong(edges, forbidden):
    assert len(edges) > 100 and sum(map(len, edges.values())) > 300, "the query found hardly anything"
    return [
        f"{a} -> {b}"
        for a, targets in edges.items()
        for b in targets
        if package(a) != package(b) and forbidden(package(a), package(b))
    ]


def test_the_core_names_nothing_above_it(edges):
    # NAME_autograd and NAME_forward are what autograd adds to a library: they lie beside the op tables that they are
    # made from, and above autograd.
    assert not wrong(
        {a: b for a, b in edges.items() if not a.endswith(("_autograd", "_forward"))},
        lambda a, b: namespace(a) == "tensor" and namespace(b) != "tensor",
    )


def test_the_core_has_one_direction(edges, edges_of_tests):
    layer = lambda folder: next(
        (i for i, top in enumerate(CORE) if folder == top or folder.startswith(top + "/")), None
    )
    # Operators that are methods are declared in class Tensor, by a list that opgen writes from the tables.
    declared = "//tensor/ops:tensor_methods_inc"
    assert not wrong(
        {a: [b for b in targets if b != declared] for a, targets in (edges | edges_of_tests).items()},
        lambda a, b: layer(a) is not None and layer(b) is not None and layer(a) < layer(b),
    )


def test_kernels_are_below_the_tensor(edges):
    """What is in a cpu/ folder sees dtypes, errors and generators, no tensor, no dispatch, no table of engines."""
    above = {
        "//tensor/core:tensor",
        "//tensor/dispatch:dispatch",
        "//tensor/ops:ops",
        "//tensor/ops:pointwise",
    }
    kernels = {label: targets for label, targets in edges.items() if "cpu" in package(label).split("/")}
    assert len(kernels) > 20
    assert not [
        f"{a} -> {b}"
        for a, targets in kernels.items()
        for b in targets
        if b in above
        or "engine" in package(b).split("/")
        or namespace(package(b)) not in ("tensor", namespace(package(a)))
    ]


def test_a_namespace_owns_its_kernels(edges):
    """Its cpu/ and cuda/ folders are for itself; the core's are for all. The extension modules, which join all devices'
    tables, may name cuda/ folders and lists of constants.
    """

    def forbidden(a, b):
        parts = b.split("/")
        if parts[0] == "tensor" or namespace(a) == parts[0] or not {"cpu", "cuda"} & set(parts):
            return False
        return not (a == "python/bindings/cuda" and "cuda" in parts)

    lists = lambda label: label.endswith(":ops_headers")
    assert not wrong(
        {a: [b for b in targets if not (a.startswith("//python/") and lists(b))] for a, targets in edges.items()},
        forbidden,
    )


def test_tests_name_nothing_above_what_they_test(edges_of_tests):
    """Those of the core stay in it, those of a namespace in it and the core; derivatives are for all above the core."""
    below = lambda a: {namespace(a), "tensor"} | (set() if namespace(a) == "tensor" else {"autograd"})
    assert not wrong(edges_of_tests, lambda a, b: namespace(b) not in below(a) and namespace(a) != "tests")


def test_nothing_depends_on_python(edges):
    assert not wrong(edges, lambda a, b: namespace(b) == "python" and namespace(a) != "python")


def files():
    return subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()


def test_folders_are_small():
    """Rooms of engines have few entries, and no folder of sources many files."""
    sources, entries = collections.Counter(), collections.defaultdict(set)
    for file in files():
        path = pathlib.PurePosixPath(file)
        if path.suffix in (".cc", ".h", ".py", ".textproto", ".inc"):
            sources[str(path.parent)] += 1
        for top in ("tensor/cpu", "tensor/cuda"):
            if file.startswith(top + "/"):
                entries[top].add(file[len(top) + 1 :].split("/")[0])
    assert sources and set(entries) == {"tensor/cpu", "tensor/cuda"}
    assert not {folder: n for folder, n in sources.items() if n > SOURCES}
    assert not {top: sorted(names) for top, names in entries.items() if len(names) > ENTRIES}


def readmes_with_targets():
    """The READMEs that have a table headed `library`: (folder, names of its first column)."""
    for file in files():
        if not file.endswith("README.md"):
            continue
        table = re.search(r"^\| library \|.*\n\|[-| ]+\n((?:\|.*\n)+)", (ROOT / file).read_text(), re.M)
        if table:
            yield (
                str(pathlib.PurePosixPath(file).parent),
                re.findall(r"`([^`]+)`", " ".join(row.split("|")[1] for row in table[1].splitlines())),
            )


def test_readmes_name_libraries_that_exist(edges):
    """A row of such a table is a target of the folder or a folder with a target of its name (pointwise, conv:conv);
    every library below the folder has its row or its folder's.
    """
    tables = dict(readmes_with_targets())
    assert {"tensor/cpu", "tensor/cuda", "nn/cpu", "nn/cuda"} <= set(tables)
    everything = {package(label) + ":" + label.split(":")[1] for label in edges}
    for folder, names in tables.items():
        for name in names:
            assert (ROOT / folder / name).is_dir() or f"{folder}:{name}" in everything, (
                f"{folder}/README.md names {name}"
            )
        rooms = {
            label.split(":")[0][len(folder) + 1 :]
            for label in everything
            if label.split(":")[0].startswith(folder + "/")
        }
        assert {room.split("/")[0] for room in rooms} <= set(names), folder
