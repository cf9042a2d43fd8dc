"""The first call of each kind in a process of its own, with tensors large enough that the interpreter's lock is let go of meanwhile."""

import first_calls
import pytest


@pytest.mark.parametrize("name", first_calls.PROGRAMS)
def test_first_call(name):
    process = first_calls.run(name)
    assert process.returncode == 0, process.stderr[-4000:]
    assert "Warning" not in process.stderr or name == "anomaly_mode", process.stderr[-4000:]
