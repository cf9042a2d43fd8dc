"""Runs a suite of workloads under Tessera even where the suite names namespaces that Tessera lacks: `python -m tessera _suite.py SUITE.py ARGUMENTS`.

A suite that looks up torch.fft while it lists its workloads would not start at all; here such a namespace is a placeholder, and only a workload that calls something of it fails.
"""

import importlib
import runpy
import sys

NAMESPACES = ("ao", "distributions", "fft", "jit", "linalg", "nested", "quantization", "signal", "sparse", "special")


class Absent:
    """Stands for a name that does not exist; calling it says so."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, attribute):
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return Absent(f"{self._name}.{attribute}")

    def __call__(self, *args, **kwargs):
        raise AttributeError(f"{self._name} does not exist")


def fill(torch):
    for name in NAMESPACES:
        if not hasattr(torch, name):
            setattr(torch, name, Absent(f"{torch.__name__}.{name}"))


def main():
    fill(importlib.import_module("torch"))
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
