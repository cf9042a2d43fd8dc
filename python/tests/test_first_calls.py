"""The first call of each kind in a process of its own, with tensors large enough that the interpreter's lock is let go
of meanwhile.
"""

import os
import subprocess
import sys

import first_calls
import pytest


@pytest.mark.parametrize("name", first_calls.PROGRAMS)
def test_first_call(name):
    process = first_calls.run(name)
    assert process.returncode == 0, process.stderr[-4000:]
    assert "Warning" not in process.stderr or name == "anomaly_mode", process.stderr[-4000:]


@pytest.mark.skipif(
    "TESSERA_CHECK_LOCK" not in os.environ, reason="for tools/check_lock, which builds an extension that looks"
)
@pytest.mark.parametrize("use, named", [("None", "PyErr_Clear"), ("'text'", "Py_INCREF")])
def test_the_check_of_the_lock_ends_the_process(use, named):
    process = subprocess.run(
        [sys.executable, "-c", f"import tessera; tessera._C._count_without_lock({use})"], capture_output=True, text=True
    )
    assert process.returncode < 0 and process.stderr.startswith(
        f"check_lock: {named} without the interpreter's lock"
    ), process
