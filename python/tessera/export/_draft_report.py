"""What draft_export() found out about a program: failures, each with its place in the program and what to do."""

import dataclasses
import enum
import linecache
import os
import typing

import tessera
from tessera.export._symbols import is_symbolic
from tessera.export._tracer import user_frame

__all__ = ["DraftExportReport", "FailureReport", "FailureType", "Place"]

_PACKAGE = os.path.dirname(os.path.abspath(tessera.__file__)) + os.sep


class FailureType(enum.Enum):
    """Kinds of failures."""

    MISSING_FAKE_KERNEL = 1
    DATA_DEPENDENT_ERROR = 2
    GUARD_ADDED = 3
    MISMATCHED_FAKE_KERNEL = 4

    def __str__(self):
        return self.name


class Place:
    """Where a traced program is: its lines, the outermost first, and what its innermost names are.

    Args:
        depth: how many frames the caller is away from the code that found something.
    """

    def __init__(self, depth=2):
        frame = user_frame(depth)
        self.locals = {} if frame is None else _described_locals(frame.f_locals)
        self.frames = []
        while frame is not None:
            name = frame.f_code.co_filename
            if not name.startswith((_PACKAGE, "<frozen")):
                self.frames.insert(0, (name, frame.f_lineno, frame.f_code.co_name))
            frame = frame.f_back
        # What called export() is no part of the program.
        self.frames = self.frames[-1:] if not self.frames else self._inside()

    def _inside(self):
        first = next((i for i, (_, _, name) in enumerate(self.frames) if name == "forward"), len(self.frames) - 1)
        return self.frames[first:]

    @property
    def key(self):
        """What tells this place from others."""
        return self.frames[-1][:2] if self.frames else None


def _described_locals(names):
    found = {}
    for name, value in names.items():
        if isinstance(value, tessera.Tensor):
            found[name] = (
                f"Tensor(shape: {value.shape}, stride: {value.stride()}, storage_offset: {value.storage_offset()})"
            ).replace("tessera.", "torch.")
        elif is_symbolic(value):
            found[name] = str(value)
    return found


def _block(title, lines):
    return [f"    {title}", *(f"        {line}" for line in lines)] if lines else []


@dataclasses.dataclass
class FailureReport:
    """One failure: its kind, what is known of it, and whether export() succeeds with it (`xfail`).

    `data` has, as the kind needs them: "op", "reason", "expr", "result", "occurrences", "symbol_to_sources",
    "frame_locals", "new_dynamic_shapes", "stack" and "user_stack" (lists of (file, line, function)).
    """

    failure_type: FailureType
    data: typing.Dict[str, typing.Any]
    xfail: bool = False

    def print(self):
        """The failure as text."""
        lines = _PRINTED[self.failure_type](self.data)
        if "user_stack" in self.data:
            at = lines.index(None)
            lines[at : at + 1] = self._where()
        return "\n".join(lines) + "\n"

    def _where(self):
        shown = []
        for name, line, function in self.data["user_stack"]:
            text = linecache.getline(name, line).strip()
            shown += [f"File {name}, lineno {line}, in {function}", *([f"    {text}"] if text else [])]
        locals_ = [f"    {name}: {text}" for name, text in self.data["frame_locals"].items()]
        symbols = [f"   {symbol}: {source}" for symbol, source in self.data["symbol_to_sources"].items()]
        lines = _block("This occurred at the following user stacktrace:", shown)
        lines += ["", "        Locals:", *(f"        {line}" for line in locals_)] if locals_ else []
        return lines + (["", "        Symbols:", *(f"        {line}" for line in symbols)] if symbols else [])


def _missing(data):
    return [
        "Missing fake kernel.",
        f"    torch.ops.{data['op']} is missing a fake kernel implementation.",
        "",
        "    Its results are taken to have sizes that nothing is known of. Register one with "
        "torch.library.register_fake.",
    ]  # fmt: skip


def _mismatched(data):
    return [
        "Mismatched fake kernel.",
        f"    torch.ops.{data['op']} has a fake kernel implementation, but it has incorrect behavior, based on the "
        "real kernel.",
        f"    The reason for the mismatch is: {data['reason']}.",
    ]  # fmt: skip


def _depends(data):
    return [
        "Data dependent error.",
        f"    When exporting, we were unable to evaluate the value of `{data['expr']}`.",
        f"    This was encountered {data['occurrences']} times.",
        None,
        "",
        f"    As a result, it was specialized to a constant (e.g. `{data['result']}` in the 1st occurrence), and "
        "asserts were inserted into the graph.",
        "",
        "    Please add `torch._check(...)` to the original code to assert this data-dependent assumption.",
    ]  # fmt: skip


def _guarded(data):
    where = ", where {}".format(data["symbol_to_sources"]) if data["symbol_to_sources"] else ""
    return [
        "Guard Added.",
        "    A guard was added during tracing, which might've resulted in some incorrect",
        "    tracing or constraint violation error.",
        f"    Specifically, this guard was added: {data['expr']}{where}.",
        None,
        "",
        "    Because of this, we have modified the dynamic shapes structure to be the",
        "    following. You can also use torch.export.Dim.AUTO instead to specify your",
        "    dynamic shapes, and we will automatically infer the dynamism for you.",
        "    ```",
        f"    dynamic_shapes = {data['new_dynamic_shapes']}",
        "    ```",
    ]  # fmt: skip


_PRINTED = {
    FailureType.MISSING_FAKE_KERNEL: _missing, FailureType.MISMATCHED_FAKE_KERNEL: _mismatched,
    FailureType.DATA_DEPENDENT_ERROR: _depends, FailureType.GUARD_ADDED: _guarded,
}  # fmt: skip


class DraftExportReport:
    """What draft_export() found: `failures`, a list of FailureReport. Prints as text."""

    def __init__(self, failures):
        self.failures = failures

    def successful(self):
        """Whether export() would have made the same program."""
        return all(failure.xfail for failure in self.failures)

    def __str__(self):
        bar = "#" * 94
        if self.successful():
            return (
                f"{bar}\nCongratulations: No issues are found during export, and it was able to soundly produce a "
                f"graph.\nYou can now change back to torch.export.export()\n{bar}\n"
            )
        text = (
            f"{bar}\nWARNING: {len(self.failures)} issue(s) found during export, and it was not able to soundly "
            f"produce a graph.\nPlease follow the instructions to fix the errors.\n{bar}\n\n"
        )
        return text + "\n".join(f"{i + 1}. {failure.print()}" for i, failure in enumerate(self.failures))

    __repr__ = __str__
