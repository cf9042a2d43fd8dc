"""Utilities: data loading, hooks, trees of containers, checkpointing, benchmarks, and other tools around a program."""

from tessera._lazy import attach as _attach

__getattr__, __dir__ = _attach(
    __name__,
    {
        "ThroughputBenchmark": "throughput_benchmark",
        "get_cpp_backtrace": "cpp_backtrace",
        "set_module": "_misc",
        "swap_tensors": "_misc",
    },
)
