"""Utilities: data loading, hooks, trees of containers, checkpointing, benchmarks, and other tools around a program."""

import os as _os

from tessera._lazy import attach as _attach

# What CMAKE_PREFIX_PATH is set to for find_package(Tessera), or find_package(Torch).
cmake_prefix_path = _os.path.join(_os.path.dirname(_os.path.dirname(__file__)), "share", "cmake")

__getattr__, __dir__ = _attach(
    __name__,
    {
        "ThroughputBenchmark": "throughput_benchmark",
        "generate_methods_for_privateuse1_backend": "backend_registration",
        "rename_privateuse1_backend": "backend_registration",
        "get_cpp_backtrace": "cpp_backtrace",
        "set_module": "_misc",
        "swap_tensors": "_misc",
    },
)
