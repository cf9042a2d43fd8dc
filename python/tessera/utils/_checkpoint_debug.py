"""What `checkpoint(..., debug=True)` shows when the two runs of a part differ: the operators of both."""

import contextlib
import traceback

import tessera
from tessera.utils._python_dispatch import TorchDispatchMode
from tessera.utils._pytree import tree_leaves


def _describe(value):
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, tessera.Tensor) else repr(value)


class _Recorder(TorchDispatchMode):
    """A line and the Python stack of each operator."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given = ", ".join(_describe(value) for value in tree_leaves((args, kwargs or {})))
        made = ", ".join(_describe(value) for value in tree_leaves(result))
        self.calls.append((f"{func}({given}) -> {made}", "".join(traceback.format_stack()[:-1])))
        return result


@contextlib.contextmanager
def _recording(recorder, context):
    recorder.calls.clear()
    with context, recorder:
        yield


def _report(first, second):
    parts = [
        "An error happened while unpacking tensors; dumping logs of latest computation because you passed "
        "`debug=True` to `torch.utils.checkpoint.checkpoint()`.\n"
    ]
    for title, calls in (("original forward", first), ("recomputation", second)):
        parts.append(f"\nStack traces of the operators that ran in the {title}:\n")
        for i, (line, stack) in enumerate(calls):
            parts.append(f"\n{line}   ({i + 1} of {len(calls)} in {title})\n{stack}")
    for title, calls in (("original forward", first), ("recomputation", second)):
        parts.append(f"\nLog of operators in the {title}:\n")
        parts.extend(f"{line}   ({i + 1} of {len(calls)} in {title})\n" for i, (line, _) in enumerate(calls))
    different = next((i for i, (a, b) in enumerate(zip(first, second)) if a[0] != b[0]), min(len(first), len(second)))
    parts.append(f"\nThe logs are alike up to operator {different}: look at what comes next in each of them.")
    return "".join(parts)


def record_runs(first, second, unpack, error_type):
    """The contexts of both runs with recorders in them, and an `unpack` whose errors show what they recorded."""
    one, two = _Recorder(), _Recorder()

    def reporting(slot):
        try:
            return unpack(slot)
        except error_type as error:
            raise error_type(_report(one.calls, two.calls)) from error

    return _recording(one, first), _Again(two, second), reporting


class _Again:
    """The second run's context, which may be entered for each pass."""

    def __init__(self, recorder, context):
        self._recorder, self._context = recorder, context

    def __enter__(self):
        self._entered = _recording(self._recorder, self._context)
        self._entered.__enter__()

    def __exit__(self, *error):
        return self._entered.__exit__(*error)
