"""What is under way in this thread when programs are traced: the fake mode in use, the context of the trace."""

import contextlib
import dataclasses
import threading

from tessera import _C

__all__ = ["CompileContext", "Source", "TracingContext", "active_fake_mode", "detect_fake_mode", "tracing"]

_state = threading.local()


@dataclasses.dataclass(frozen=True)
class Source:
    """Where a value came from, in the words of the program that is traced."""

    def name(self):
        """An expression that gives the value."""
        raise NotImplementedError(f"{type(self).__name__} has no name")


class TracingContext:
    """What a trace knows: the fake mode of its values, and modules.

    Args:
        fake_mode: FakeTensorMode or None.
    """

    def __init__(self, fake_mode):
        self.fake_mode = fake_mode
        self.module_context = {}
        self.params_flat = None
        self.frame_summary_stack = []

    @staticmethod
    def try_get():
        """The TracingContext of this thread, or None."""
        return getattr(_state, "tracing", None)

    @staticmethod
    def get():
        """The TracingContext of this thread. Raises: RuntimeError without one."""
        context = TracingContext.try_get()
        if context is None:
            raise RuntimeError("TracingContext.get() must be called within an ongoing trace.")
        return context


class CompileContext:
    """Which compilation is under way."""

    def __init__(self, compile_id=None):
        self.compile_id = compile_id

    @staticmethod
    def try_get():
        """None: no compilation keeps a context."""
        return None

    @staticmethod
    def current_compile_id():
        """None: no compilation keeps a context."""
        return None


@contextlib.contextmanager
def tracing(context):
    """Context manager: `context` (TracingContext or None) is that of the thread."""
    old = TracingContext.try_get()
    _state.tracing = context
    try:
        yield context
    finally:
        _state.tracing = old


def active_fake_mode():
    """The innermost FakeTensorMode that is on, or None."""
    for i in reversed(range(_C._len_torch_dispatch_stack())):
        mode = _C._get_dispatch_stack_at(i)
        if isinstance(mode, _C._FakeModeBase):
            return mode
    return None


def detect_fake_mode(inputs=None):
    """The FakeTensorMode of the trace under way, of the thread, or of fake tensors in a tree; None without one.

    Raises: AssertionError where these are different ones.
    """
    found = []
    context = TracingContext.try_get()
    if context is not None and context.fake_mode is not None:
        found.append((context.fake_mode, "the tracing context"))
    for i in reversed(range(_C._len_torch_dispatch_stack())):
        mode = _C._get_dispatch_stack_at(i)
        if isinstance(mode, _C._FakeModeBase):
            found.append((mode, "the active mode"))
    if inputs is not None:
        from tessera._subclasses.fake_tensor import maybe_get_fake_mode
        from tessera.utils._pytree import tree_leaves

        for i, leaf in enumerate(tree_leaves(inputs)):
            mode = maybe_get_fake_mode(leaf)
            if mode is not None:
                found.append((mode, f"input {i}"))
    for mode, where in found:
        if mode is not found[0][0]:
            raise AssertionError(
                f"fake mode ({found[0][0]}) from {found[0][1]} doesn't match mode ({mode}) from {where}"
            )
    return found[0][0] if found else None
