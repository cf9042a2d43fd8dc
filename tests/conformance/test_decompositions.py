"""Every decomposition gives what its operator gives: the recorded results and gradients, with all of them at work."""

import json
import os
import subprocess
import sys

import pytest
import tessera
from conformance import suites
from tessera._decomp import decomposition_table

DATA = suites.data_folder()
REPLAY = suites.HERE / "decomposed_replay.py"

# What no recorded case gets to, and why; their tests are in python/tests/graphs/test_decompositions.py.
ELSEWHERE = {
    "aten.native_dropout_backward.default": "results are random",
    "aten._gelu_erf.default": "gelu is of the core set, and seen as it is",
    "aten._gelu_tanh.default": "as _gelu_erf",
    "aten.relu6.default": "called as hardtanh",
    "aten._elu_backward_result.default": "of elu_ alone",
    "aten._addmm_activation.default": "not public",
}


def replay(folder, *arguments):
    summary, used = folder / "summary.json", folder / "used"
    used.touch()
    command = [sys.executable, str(REPLAY), str(DATA), str(used), "--grad", "--no-fork", "--summary", str(summary)]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=600, env=dict(os.environ))
    assert summary.exists(), done.stdout[-2000:] + done.stderr[-2000:]
    found = json.loads(summary.read_text())
    return (
        found["passed"],
        {(f["op"], f["check"]): f["message"] for f in found["failures"]},
        set(used.read_text().split()),
    )


@pytest.mark.skipif(DATA is None, reason="the recorded cases (../shared/conformance) are not here")
def test_decomposed_operators_give_the_recorded_results(tmp_path, report_count):
    for name in ("plain", "decomposed"):
        (tmp_path / name).mkdir()
    _, known, _ = replay(tmp_path / "plain", "--plain")
    used = set()
    for whose, arguments in {"the library's": ["--own"], "programs'": []}.items():
        passed, failed, seen = replay(tmp_path / "decomposed", *arguments)
        report_count(f"decompositions in {whose} modes: {passed} checks passed, {len(seen)} operators decomposed")
        assert {check: why for check, why in failed.items() if check not in known} == {}
        used |= seen
    every = {str(op) for op in decomposition_table}
    assert every - used == set(ELSEWHERE)
    assert tessera.ops.aten.silu.default in decomposition_table
