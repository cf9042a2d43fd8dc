"""What other workspaces see of Tessera: which targets are public, what each brings along, and tests/bazel_consumer, a
workspace that depends on them. It compiles there against nothing but public headers; its programs are linked in this
workspace, where the libraries are built already (its BUILD file serves both).
"""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONSUMER = ROOT / "tests" / "bazel_consumer"

# Public target -> the namespaces that it depends on. A new name here is a question: does it need it?
NEEDS = {
    "//tensor": set(),
    "//autograd": {"tensor"},
    "//nn": {"tensor"},
    "//optim": {"tensor"},
    "//data": {"tensor"},
    "//serialization": {"tensor"},
    "//linalg": {"tensor"},
    "//fft": {"tensor"},
    "//signal": {"fft", "tensor"},
    "//special": {"tensor"},
    "//distributions": {"linalg", "special", "tensor"},
    "//func": {"autograd", "tensor"},
    "//jit": {"compile", "serialization", "tensor"},
    "//export": {"serialization", "tensor"},
}
# Beside a folder's own target: derivatives, and operators by their names.
PARTS = {"autograd", "registry"}
ELSEWHERE = ("//third_party", "//tools/bazel", "//frontend")  # the front end is a set of its own


def bazel(*arguments, cwd=ROOT, startup=()):
    result = subprocess.run(["bazel", *startup, *arguments], cwd=cwd, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-4000:]
    return result.stdout


def query(text, output="label"):
    return set(bazel("query", "--noshow_progress", f"--output={output}", text).split())


def folder(label):
    return label.lstrip("/").split(":")[0]


def test_what_is_public():
    found = query('attr(visibility, "//visibility:public", //...)')
    named = {x for x in found if not x.startswith(ELSEWHERE)}
    own = {x for x in named if x.split(":")[1] == folder(x)}
    assert own == {f"{name}:{name[2:]}" for name in NEEDS}
    others = named - own
    assert others and {x.split(":")[1] for x in others} == PARTS
    assert {"//" + folder(x) for x in others} <= set(NEEDS)


@pytest.mark.parametrize("target", NEEDS)
def test_a_target_needs_what_it_says(target):
    packages = query(f'kind("cc_library rule", deps({target}))', "package")
    namespaces = {p.split("/")[0] for p in packages if not p.startswith("@")}
    assert target[2:] in namespaces
    assert namespaces - {target[2:], "include", "tools", "third_party"} == NEEDS[target]


def test_each_has_a_header_and_a_line():
    headers = {p.stem for p in (ROOT / "include" / "tessera").glob("*.h")}
    assert headers == {name[2:] for name in NEEDS}
    readme = (ROOT / "include" / "README.md").read_text()
    assert [name for name in NEEDS if f"`@tessera{name}`" not in readme] == []


@pytest.fixture(scope="module")
def consumer(tmp_path_factory):
    """Runs Bazel in the workspace that depends on this one, without any Python prepared."""
    startup = [f"--output_base={tmp_path_factory.mktemp('consumer') / 'base'}", "--max_idle_secs=60"]
    flags = ["--repo_env=CUDA_HOME=none", "--repo_env=TESSERA_PYTHON=/nowhere/python", "--color=no", "--curses=no"]
    yield lambda command, *arguments: bazel(command, *flags, *arguments, cwd=CONSUMER, startup=startup)
    bazel("shutdown", cwd=CONSUMER, startup=startup)


def test_the_consumer_compiles(consumer):
    consumer("build", "//:mlp_code", "//:equations_code", "//:line_code")


def test_the_consumer_may_link_all_that_it_names(consumer):
    consumer("build", "--nobuild", "//...")


def test_what_is_not_public_is_refused(consumer, tmp_path):
    shown = consumer("query", "visible(//:mlp, @tessera//nn:all + @tessera//tensor/ops:all)", "--output=label")
    names = {x.removeprefix("@tessera") for x in shown.split()}
    assert {"//nn:nn", "//nn:autograd"} <= names and not {x for x in names if x.startswith("//tensor/ops")}


@pytest.mark.parametrize(
    "program, says", [("mlp", "8 of 8 right\n"), ("equations", "solved\n"), ("line", "3.0 x + -1.0\n")]
)
def test_its_programs(program, says):
    target = f"//tests/bazel_consumer:{program}"
    bazel("build", target)
    binary = os.path.join(bazel("info", "--color=no", "bazel-bin").strip(), "tests", "bazel_consumer", program)
    assert subprocess.run([binary], capture_output=True, text=True, check=True).stdout == says
