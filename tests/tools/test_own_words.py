"""No function of the package follows the text of another package: share of common runs of tokens, names aside."""

import json
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT.parent / "shared" / "tools" / "likeness"
PACKAGE = ROOT / "python" / "tessera"
LATER = {"nn", "autograd"}  # their layers and formulas are still being designed anew


@pytest.mark.skipif(not TOOL.exists(), reason="the tool that compares (../shared/tools) is not here")
def test_functions_are_written_here(tmp_path):
    paths = [str(p) for p in sorted(PACKAGE.iterdir()) if p.name not in LATER and (p.is_dir() or p.suffix == ".py")]
    report = tmp_path / "found.json"
    command = [sys.executable, str(TOOL), "--over", "0.6", "--json", str(report), *paths]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    count, share = re.search(r"of (\d+) functions over 0.6: ([\d.]+) % of the tokens", output).groups()
    found = json.loads(report.read_text())
    assert int(count) > 300 and float(share) < 1.0, output
    assert [f["where"] for f in found if f["share"] > 0.8] == [], output
