"""Timing of small programs: how long a statement takes (`Timer`), and tables that compare several (`Compare`).

>>> timer = tessera.utils.benchmark.Timer("x + 1", globals={"x": tessera.ones(8)}, label="add")
>>> timer.timeit(100).number_per_run
100
"""

from tessera._lazy import attach as _attach

_names = {
    "CallgrindStats": "utils.valgrind_wrapper.timer_interface",
    "Colorize": "utils.compare",
    "Compare": "utils.compare",
    "CopyIfCallgrind": "utils.valgrind_wrapper.timer_interface",
    "FunctionCount": "utils.valgrind_wrapper.timer_interface",
    "FunctionCounts": "utils.valgrind_wrapper.timer_interface",
    "FuzzedParameter": "utils.fuzzer",
    "FuzzedSparseTensor": "utils.sparse_fuzzer",
    "FuzzedTensor": "utils.fuzzer",
    "Fuzzer": "utils.fuzzer",
    "Language": "utils.timer",
    "Measurement": "utils.common",
    "ParameterAlias": "utils.fuzzer",
    "TaskSpec": "utils.common",
    "Timer": "utils.timer",
    "ordered_unique": "utils.common",
    "select_unit": "utils.common",
    "set_torch_threads": "utils.common",
    "timer": "utils.timer",
    "trim_sigfig": "utils.common",
    "unit_to_english": "utils.common",
}
__all__ = list(_names)  # noqa: PLE0605
__getattr__, __dir__ = _attach(__name__, _names)
