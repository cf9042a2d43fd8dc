"""tools/bazel/call_frames.cc: exceptions find every frame that they found before, by tables of half the size."""

import bisect
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SUFFIX = subprocess.run(
    [sys.executable, "-c", "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))"],
    capture_output=True,
    text=True,
).stdout.strip()
FILES = {
    "//tests/build/programs:frames": ("tests/build/programs/frames_linked", "tests/build/programs/frames"),
    "//python:_distributed": ("python/_distributed_linked.so", "python/_distributed" + SUFFIX),
}


def run(*command):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True, cwd=ROOT).stdout


@pytest.fixture(scope="module")
def folder():
    option = f"--repo_env=TESSERA_PYTHON={sys.executable}"
    run("bazel", "build", option, *FILES, "//tools/bazel:call_frames")
    return pathlib.Path(run("bazel", "info", option, "bazel-bin").strip())


def frames(path):
    """Where functions begin, and for each its end and its rows: from where on, and how its caller is found there."""
    entries = {}
    for part in re.split(r"\n(?=[0-9a-f]+ [0-9a-f]+ [0-9a-f]+ (?:FDE|CIE))", run("readelf", "-WwF", path)):
        head = re.search(r" FDE .*pc=(\w+)\.\.(\w+)\n(?: +LOC +(.*)\n)?", part)
        if not head:
            continue
        columns = (head[3] or "").split()
        text = re.sub(r" \(\w+\)", "", part[head.end() :])  # names behind numbers of registers
        rows = re.findall(r"^([0-9a-f]{16}) (.*)$", text, re.MULTILINE)
        rules = [dict(zip(columns, said.split(), strict=True)) for _, said in rows]
        rules = [{name: rule for name, rule in row.items() if rule != "u"} for row in rules]
        entries[int(head[1], 16)] = int(head[2], 16), [int(at, 16) for at, _ in rows], rules
    return sorted(entries), entries


def frame_at(tables, address):
    begins, entries = tables
    i = bisect.bisect(begins, address) - 1
    if i < 0 or entries[begins[i]][0] <= address:
        return None
    _, at, rules = entries[begins[i]]
    return rules[bisect.bisect(at, address) - 1] if rules else {}


def calls(path):
    """The last byte of each call (of addresses that are there: weak functions may be missing)."""
    lines = run("objdump", "-d", "--no-show-raw-insn", path).splitlines()
    found = [re.match(r" *([0-9a-f]+):\t(.*)", line) for line in lines]
    for this, behind in zip(found, found[1:], strict=False):
        if this and behind and re.match(r"(notrack |bnd |addr32 |data16 )*call (?! *0x0$)|syscall", this[2]):
            yield int(behind[1], 16) - 1


@pytest.mark.parametrize("target", FILES)
def test_every_call_has_the_frame_that_it_had(folder, target):
    before, after = (folder / name for name in FILES[target])
    old, new = frames(before), frames(after)
    places = [at for at in calls(before) if frame_at(old, at) is not None]
    assert len(places) > 1000
    assert [hex(at) for at in places if frame_at(old, at) != frame_at(new, at)] == []
    assert len(new[0]) < len(old[0])
    assert after.stat().st_size < before.stat().st_size


def test_exceptions_pass_frames_of_all_kinds(folder):
    before, after = (folder / name for name in FILES["//tests/build/programs:frames"])
    assert run(after) == run(before) == "100 100\n"


def test_what_is_no_program_is_refused(folder, tmp_path):
    tool = folder / "tools" / "bazel" / "call_frames"
    for content in (b"", b"\x7fELF" + bytes(100), pathlib.Path(__file__).read_bytes()):
        (tmp_path / "in").write_bytes(content)
        result = subprocess.run([tool, tmp_path / "in", tmp_path / "out"], capture_output=True, text=True)
        assert result.returncode == 1 and "not a file for this machine" in result.stderr
        assert not (tmp_path / "out").exists()
