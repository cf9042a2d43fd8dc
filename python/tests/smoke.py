"""A short look at the package under one interpreter: it imports, the first calls of first_calls.py work, and a small
network learns the handwritten digits.

    python python/tests/smoke.py

Needs nothing but the installed package and the standard library. The status is 0 if all is well, 1 if something failed
(its output says what).
"""

import os
import subprocess
import sys
import tempfile

FOLDER = os.path.dirname(os.path.abspath(__file__))
DIGITS = os.path.join(FOLDER, "..", "..", "examples", "digits", "train.py")
LEAST_ACCURACY = 0.9  # of two epochs; they reach 0.95


def check_import():
    """What fails, as text, or None."""
    code = "import tessera; assert tessera.ones(2).sum().item() == 2; print(tessera.__version__)"
    process = subprocess.run([sys.executable, "-X", "dev", "-W", "error", "-c", code], capture_output=True, text=True)
    return process.stderr if process.returncode else None


def check_first_call(name):
    import first_calls

    process = first_calls.run(name)
    return f"status {process.returncode}\n{process.stderr}" if process.returncode else None


def check_digits():
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.run(
            [sys.executable, DIGITS, "--epochs", "2", "--model", "mlp", "--out", folder], capture_output=True, text=True
        )
    if process.returncode:
        return f"status {process.returncode}\n{process.stderr}"
    accuracy = [
        float(line.split("test accuracy ")[1].split(" %")[0]) / 100
        for line in process.stdout.splitlines()
        if line.startswith("mlp: test accuracy")
    ]
    if len(accuracy) != 1 or accuracy[0] < LEAST_ACCURACY:
        return f"the digits were not learned:\n{process.stdout}"
    return None


def main():
    sys.path.insert(0, FOLDER)
    import first_calls

    checks = {
        "import": check_import,
        **{name: lambda name=name: check_first_call(name) for name in first_calls.PROGRAMS},
        "digits": check_digits,
    }
    failed = 0
    for name, check in checks.items():
        problem = check()
        if problem is not None:
            failed += 1
            print(f"FAILED {name}: {problem}", flush=True)
    print(f"Python {sys.version.split()[0]}: {len(checks) - failed} of {len(checks)} checks passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
