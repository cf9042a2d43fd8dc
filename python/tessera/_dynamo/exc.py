"""Errors of the capture, of backends and of users' programs."""

import enum

__all__ = [
    "BackendCompilerFailed", "FailOnRecompileLimitHit", "InternalTorchDynamoError", "InvalidBackend",
    "RecompileError", "RecompileLimitExceeded", "ResetRequired", "TensorifyScalarRestartAnalysis",
    "TorchDynamoException", "TorchRuntimeError", "Unsupported", "UserError", "UserErrorType",
]  # fmt: skip


class TorchDynamoException(RuntimeError):
    """What the capture raises."""


class InternalTorchDynamoError(TorchDynamoException):
    """The capture itself failed."""


class RestartAnalysis(TorchDynamoException):
    """The capture has learned something and starts again."""


class TensorifyScalarRestartAnalysis(RestartAnalysis):
    """A number has to become a tensor: the capture starts again."""


class ResetRequired(TorchDynamoException):
    """The program has to call `torch._dynamo.reset()` first."""

    def __init__(self):
        super().__init__("The compiler's state does not fit to what was asked: call torch._dynamo.reset() first")


class InvalidBackend(TorchDynamoException):
    """There is no backend of this name.

    Args:
        name: what was asked for.
    """

    def __init__(self, name):
        super().__init__(f"Invalid backend: {name!r}, see `torch._dynamo.list_backends()` for available backends.")


class BackendCompilerFailed(TorchDynamoException):
    """A backend raised an error when it was given a graph.

    Args:
        backend_fn: the backend. inner_exception: what it raised.
    """

    def __init__(self, backend_fn, inner_exception):
        self.backend_name = getattr(backend_fn, "__name__", "?")
        self.inner_exception = inner_exception
        super().__init__(f"backend={self.backend_name!r} raised:\n{type(inner_exception).__name__}: {inner_exception}")


class Unsupported(TorchDynamoException):
    """A graph cannot hold this. Without `fullgraph` the graph ends here and Python goes on; with it this is the error.

    Args:
        msg: what, and what to do. case_name: a word for the kind.
        explanation, hints, context: more about it: a sentence, what one can do, and what the capture saw; they stand
            below msg.
    """

    def __init__(self, msg, *, case_name=None, explanation=None, hints=(), context=""):
        if explanation is not None:
            hints = "".join(f"  Hint: {hint}\n" for hint in hints)
            msg = f"{msg}\n  Explanation: {explanation}\n{hints}\n  Developer debug context: {context}\n"
        super().__init__(msg)
        self.msg, self.case_name = msg, case_name
        self.real_stack = []  # traceback.FrameSummary of the program, outermost first

    def add_place(self):
        """Puts the program's lines into the text."""
        if self.real_stack and "\n\nfrom user code:\n" not in self.msg:
            lines = []
            for frame in self.real_stack:
                lines.append(f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}')
                if frame.line:
                    lines.append(f"    {frame.line}")
            self.msg += "\n\nfrom user code:\n " + "\n".join(lines)
            self.args = (self.msg,)
        return self


class RecompileLimitExceeded(Unsupported):
    """A function was compiled as often as `config.recompile_limit` allows."""


class RecompileError(TorchDynamoException):
    """A function would be compiled again, which config.error_on_recompile forbids."""


class FailOnRecompileLimitHit(TorchDynamoException):
    """The same, where that is an error: with `fullgraph` or `config.fail_on_recompile_limit_hit`."""


class UserErrorType(enum.Enum):
    """Kinds of errors of programs that are exported or compiled."""

    DYNAMIC_CONTROL_FLOW = enum.auto()
    ANTI_PATTERN = enum.auto()
    STANDARD_LIBRARY = enum.auto()
    CONSTRAINT_VIOLATION = enum.auto()
    DYNAMIC_DIM = enum.auto()
    INVALID_INPUT = enum.auto()
    INVALID_OUTPUT = enum.auto()
    UNSUPPORTED_ALIASED_MUTATED_DYNAMIC_INPUTS = enum.auto()


class UserError(Unsupported):
    """The program cannot be captured as it is written.

    Args:
        error_type: UserErrorType. msg: text. case_name: a word for the kind.
    """

    def __init__(self, error_type, msg, case_name=None):
        if not isinstance(error_type, UserErrorType):
            raise TypeError(f"UserError: expected a UserErrorType, but got {error_type!r}")
        super().__init__(msg, case_name=case_name)
        self.error_type, self.message = error_type, msg


class TorchRuntimeError(TorchDynamoException):
    """An operator refused its arguments while it was captured."""


class OperatorRefused(Unsupported, TorchRuntimeError):
    """The same, where a graph ends for it: without fullgraph Python calls the operator, which then raises its own."""


# What one can do about it, where several kinds of breaks have the same answer.
FUNDAMENTAL = (
    "This graph break is fundamental - it is unlikely that Dynamo will ever be able to trace through your code. "
    "Consider finding a workaround."
)
USER_ERROR = (
    "Your code may result in an error when running in eager. Please double check that your code doesn't contain a "
    "similar error when actually running eager/uncompiled. You can do this by removing the `torch.compile` call, or by "
    'using `torch.compiler.set_stance("force_eager")`.'
)


def skipped(module, name):
    """The Unsupported of a function that is not looked into."""
    return Unsupported(
        "Attempted to call function marked as skipped", case_name="call",
        explanation=f"Dynamo does not know how to trace the function `{module + '.' if module else ''}{name}`: it is "
        "not written in Python, or belongs to a library that is left to Python.",
        hints=[
            "Call it outside of the compiled function, or wrap it into a custom operator (torch.library.custom_op); if "
            "it can be traced, use `torch.compiler.allow_in_graph`.",
        ],
        context=f"module: {module}, qualname: {name}",
    )  # fmt: skip
