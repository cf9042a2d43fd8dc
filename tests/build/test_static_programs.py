"""The static C++ programs of examples/digits: what is linked into them, how large they are, and that they do what
train.py does. And programs of one call of a library, or of one method: they are small.
"""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits"
LIMIT = 3 * 2**20  # bytes, stripped
PROGRAMS = ("train_static", "infer_static")
# Programs that call one operator: how many bytes they may have, and whether what they print is right. A static program
# with threads and exceptions has 0.53 MB of C and C++ libraries before it calls anything; engines are there once for
# each instruction set and each dtype that the operator takes, as both are chosen at run time.
ONE_CALL = {
    "examples/spectrum/spectrum": (10**6, lambda text: text == "5 cycles: 1.00\n20 cycles: 0.50\n"),
    "tests/build/programs/solve": (1.32 * 2**20, lambda text: abs(float(text)) < 1e-14),
}
# A program that learns with distributions: as large as the programs of examples/digits, and linalg's factorizations.
INFERENCE = {"examples/regression/regression": (3.2 * 2**20, lambda text: divergence(text) < 0.005)}
SMALL = ONE_CALL | INFERENCE
WIDE = ("wide", "wide_whole")  # programs that are one but for the C library


def divergence(text):
    """Of what was learned from what is known, by the last line."""
    lines = text.splitlines()
    assert len(lines) == 4 and all("exactly" in line for line in lines[:3]), text
    return float(lines[-1].removeprefix("divergence "))


# What the programs call, and what those operators call in turn. A new name here is a question: does the program need
# it?
INFER_OPS = set(
    """
    add_Scalar add_Tensor add__Scalar add__Tensor addmm argmax bernoulli__float bmm clone copy_ div__Scalar div__Tensor
    dot dropout empty_like
    expand flatten_using_ints linear matmul mm mul_Tensor mul__Scalar mul__Tensor mv new_empty new_empty_strided
    relu relu_ reshape resolve_conj
    resolve_neg squeeze_dim
    sum_dim_IntList t transpose_int uniform_ unsqueeze view view_as_real zeros
""".split()
)
TRAIN_OPS = INFER_OPS | set(
    """
    _conj _fused_adam_ _log_softmax _log_softmax_backward_data _masked_fill _neg_view _smoothed_nll_loss _to_copy
    _view_as_real_physical any arange argsort as_strided
    as_strided_backward as_strided_gather conj conj_physical contiguous cross_entropy_loss detach div_Scalar div_Tensor
    eq_Scalar eq_Tensor exp
    expand_as gather ger index_add index_add_ index_select isnan log_softmax_int logical_not masked_fill_Scalar
    mul_Scalar neg nll_loss
    nll_loss2d nll_loss2d_backward nll_loss2d_forward nll_loss_backward nll_loss_forward nll_loss_nd normal_ ones_like
    random_
    randperm_generator real scatter_add scatter_src scatter_value select_backward select_int sort sub_Tensor sum
    sum_to_size threshold_backward
    to_device to_dtype view_as_complex zero_ zeros_like
""".split()
)


def run(*command, **kwargs):
    return subprocess.run(
        [str(c) for c in command], check=True, capture_output=True, text=True, cwd=ROOT, **kwargs
    ).stdout


@pytest.fixture(scope="module")
def programs():
    """Paths of the programs and of their twins with symbols. Built by what runs before; else now."""
    option = f"--repo_env=TESSERA_PYTHON={sys.executable}"
    targets = [f"//examples/digits:{name}{suffix}" for name in PROGRAMS for suffix in ("", "_symbols")]
    run("bazel", "build", option, *targets)
    folder = pathlib.Path(run("bazel", "info", option, "bazel-bin").strip()) / "examples" / "digits"
    return {target.rpartition(":")[2]: folder / target.rpartition(":")[2] for target in targets}


def names(program):
    return run("nm", "-C", "--defined-only", program).splitlines()


def operators(program):
    found = (re.search(r" tessera::op::(\w+)$", line) for line in names(program))
    return {match[1] for match in found if match}


def test_programs_are_static_and_small(programs, capsys):
    for name in PROGRAMS:
        size = programs[name].stat().st_size
        with capsys.disabled():
            print(f"\n{name}: {size / 2**20:.2f} MB, {len(operators(programs[name + '_symbols']))} operators")
        assert size < LIMIT, name
        headers = run("readelf", "-l", programs[name])
        assert "INTERP" not in headers and "DYNAMIC" not in headers, name


@pytest.mark.parametrize("name", SMALL)
def test_a_program_is_small_and_right(name, capsys):
    limit, is_right = SMALL[name]
    option = f"--repo_env=TESSERA_PYTHON={sys.executable}"
    folder, _, target = name.rpartition("/")
    run("bazel", "build", option, f"//{folder}:{target}")
    program = pathlib.Path(run("bazel", "info", option, "bazel-bin").strip()) / name
    size = program.stat().st_size
    with capsys.disabled():
        print(f"\n{name}: {size / 2**20:.2f} MB")
    assert size < limit
    assert is_right(run(program))


def test_parts_of_the_c_library_are_whole_where_they_are_used(programs, tmp_path):
    option = f"--repo_env=TESSERA_PYTHON={sys.executable}"
    run("bazel", "build", option, "//tests/build/programs:c_library")
    program = pathlib.Path(run("bazel", "info", option, "bazel-bin").strip()) / "tests/build/programs/c_library"
    assert run(program, tmp_path / "text") == "whole\n"
    inside = [line.rpartition(" ")[2] for line in names(programs["infer_static_symbols"])]
    assert not {"iconv_open", "setlocale", "_dl_open", "__res_vinit", "__vfwprintf_internal"} & set(inside)


def test_wide_characters_are_those_of_the_whole_c_library(tmp_path):
    option, package = f"--repo_env=TESSERA_PYTHON={sys.executable}", "tests/build/programs"
    run("bazel", "build", option, *(f"//{package}:{name}{kind}" for name in WIDE for kind in ("", "_symbols")))
    folder = pathlib.Path(run("bazel", "info", option, "bazel-bin").strip()) / package
    ours, theirs = (run(folder / name, tmp_path / name) for name in WIDE)
    assert ours == theirs and ours.endswith("(C) ... ?!\n")
    assert (tmp_path / WIDE[0]).read_bytes() == (tmp_path / WIDE[1]).read_bytes()
    part = "__gconv_transform_utf8_internal"
    inside = [any(line.endswith(part) for line in names(folder / f"{name}_symbols")) for name in WIDE]
    assert inside == [False, True]


def test_programs_hold_no_operator_that_they_do_not_call(programs):
    assert operators(programs["infer_static_symbols"]) <= INFER_OPS
    assert operators(programs["train_static_symbols"]) <= TRAIN_OPS


def test_inference_has_no_autograd(programs):
    inside = [
        line
        for line in names(programs["infer_static_symbols"])
        if re.search(
            r" [A-Za-z] (vtable for |typeinfo "
            r"for )?tessera::autograd::",
            line,
        )
    ]
    assert not inside
    # the pattern finds it where it is
    assert [line for line in names(programs["train_static_symbols"]) if " tessera::autograd::" in line]


def last_epoch(output):
    return [line for line in output.splitlines() if " epoch " in line][-1]


def test_both_languages_train_the_same_network(programs, tmp_path):
    import tessera

    environment = dict(os.environ, PYTHONSAFEPATH="1")
    python = run(
        sys.executable, DIGITS / "train.py", "--model", "mlp", "--epochs", "3", "--out", tmp_path, env=environment
    )
    cpp = run(programs["train_static"], "--epochs", "3", "--out", tmp_path / "cpp.pt")
    assert last_epoch(cpp) == last_epoch(python)
    ours, theirs = tessera.load(tmp_path / "cpp.pt"), tessera.load(tmp_path / "mlp.pt")
    assert list(ours) == list(theirs)
    for name, value in theirs.items():
        assert tessera.equal(value, ours[name]), name
    for checkpoint in ("cpp.pt", "mlp.pt"):
        accuracy = re.search(r"accuracy (\S+) %", run(programs["infer_static"], tmp_path / checkpoint))[1]
        assert accuracy == re.search(r"test accuracy (\S+) %", last_epoch(cpp))[1]


def test_network_reads_the_digits(programs, tmp_path):
    output = run(programs["train_static"], "--out", tmp_path / "mlp.pt")
    assert float(re.search(r"test accuracy (\S+) %", last_epoch(output))[1]) >= 97


def test_bad_input_ends_with_a_message(programs, tmp_path):
    broken = tmp_path / "broken.pt"
    broken.write_bytes(b"PK\x03\x04" + bytes(100))
    other = tmp_path / "other.bin"
    other.write_bytes(b"DIGITS1\n" + bytes(11))
    for command, message in (
        (["infer_static", broken], "corrupted"),
        (["infer_static", tmp_path / "missing.pt"], "can't open"),
        (["infer_static", broken, "--data", other], "not a digits file"),
        (["train_static", "--data", tmp_path / "none"], "can't open"),
        (["train_static", "--epochs", "x"], "whole number"),
    ):
        result = subprocess.run(
            [str(programs[command[0]]), *map(str, command[1:])], capture_output=True, text=True, cwd=ROOT
        )
        assert result.returncode == 1 and message in result.stderr, (command, result)


RESNET = """
import sys
import tessera as torch

class Block(torch.nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(outside)
        self.relu = torch.nn.ReLU(inplace=True)
        self.conv2 = torch.nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(outside)
        self.short = torch.nn.Sequential()
        if stride != 1 or inside != outside:
            conv = torch.nn.Conv2d(inside, outside, 1, stride, bias=False)
            self.short = torch.nn.Sequential(conv, torch.nn.BatchNorm2d(outside))

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        y += self.short(x)
        return self.relu(y)

def resnet18():
    stem = [torch.nn.Conv2d(3, 64, 7, 2, 3, bias=False), torch.nn.BatchNorm2d(64), torch.nn.ReLU(inplace=True),
            torch.nn.MaxPool2d(3, 2, 1)]
    widths = [(64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)]
    blocks = [b for i, o, s in widths for b in (Block(i, o, s), Block(o, o, 1))]
    end = [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(1), torch.nn.Linear(512, 1000)]
    return torch.nn.Sequential(*stem, *blocks, *end)

torch.manual_seed(0)
model = resnet18().eval()
batch = torch.export.Dim("batch", min=1)
x = torch.randn(2, 3, 224, 224)
program = torch.export.export(model, (x,), dynamic_shapes=({0: batch},))
torch.export.save(program, sys.argv[1])
with torch.no_grad():
    torch.save({"0": program.module()(x)}, sys.argv[2])
"""


def test_an_exported_network_runs_without_python(tmp_path, capsys):
    import tessera

    option = f"--repo_env=TESSERA_PYTHON={sys.executable}"
    run("bazel", "build", option, "//examples/exported:run_exported")
    folder = pathlib.Path(run("bazel", "info", option, "bazel-bin").strip())
    program = folder / "examples" / "exported" / "run_exported"
    size = program.stat().st_size
    file, theirs, ours = (tmp_path / name for name in ("resnet18.pt2", "python.pt", "cpp.pt"))
    run(sys.executable, "-c", RESNET, file, theirs, env=dict(os.environ, PYTHONSAFEPATH="1"))
    said = run(program, file, ours)
    with capsys.disabled():
        print(f"\nrun_exported: {size / 2**20:.2f} MB; {said.strip()}")
    assert size < 2.6 * 2**20
    assert tessera.equal(tessera.load(ours)["0"], tessera.load(theirs)["0"])
    broken = tmp_path / "broken.pt2"
    broken.write_bytes(file.read_bytes()[:1000000])
    assert subprocess.run([program, broken, ours], capture_output=True).returncode == 1
