"""The package's functions are its own: few are written like the functions of the library whose documents it follows.

../shared/tools/likeness compares them, local names aside. Where that folder is, the comparison has to run.
"""

import json
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "tessera"
SHARED = ROOT.parent / "shared"

# The limits.
LIKE = 0.6  # the share of a function from which on it counts as like another
TOKENS = 1.0  # percent of all tokens that such functions may have
ALIKE = 0.8  # no function may be that like another
# But these: "path function" -> why its text is forced.
FORCED: dict[str, str] = {}


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """(the functions over LIKE, the percentage of tokens that they have)"""
    if not SHARED.exists():
        pytest.skip("the comparison (../shared/tools/likeness) is not here")
    found = tmp_path_factory.mktemp("likeness") / "found.json"
    parts = [str(path) for path in sorted(PACKAGE.iterdir()) if path.suffix == ".py" or path.is_dir()]
    paths = [path for path in parts if pathlib.Path(path).name != "__pycache__"]
    command = [sys.executable, str(SHARED / "tools" / "likeness"), "--over", str(LIKE), "--json", str(found), *paths]
    process = subprocess.run(command, capture_output=True, text=True)
    summary = re.search(r"of (\d+) functions over [\d.]+: ([\d.]+) % of the tokens", process.stdout)
    assert summary and found.exists(), f"the comparison did not run:\n{process.stdout[-500:]}\n{process.stderr[-2000:]}"
    assert int(summary[1]) > 500, "fewer functions than the package has"
    return json.loads(found.read_text()), float(summary[2])


def key(function):
    """ "nn/init.py kaiming_normal_" of one that was found."""
    path, _, name = function["where"].rpartition(" ")
    return f"{pathlib.Path(path.rpartition(':')[0]).relative_to(PACKAGE)} {name}"


def test_functions_are_our_own(compared):
    functions, percent = compared
    assert percent < TOKENS, [f"{f['share']} {key(f)} like {f['like']}" for f in functions]


def test_none_is_another_text(compared):
    alike = {key(f): f["like"] for f in compared[0] if f["share"] > ALIKE}
    assert {name: like for name, like in alike.items() if name not in FORCED} == {}
    assert set(FORCED) <= set(alike), "not like another any more, or gone"
