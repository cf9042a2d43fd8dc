"""What compiling and running raise."""


class Error(Exception):
    """What a scripted program raises."""


class FrontendError(Exception):
    """The source of a program cannot be read."""

    def __init__(self, source_range, msg):
        super().__init__(msg)
        self.source_range = source_range
        self.msg = msg

    def __str__(self):
        place = self.source_range.highlight() if hasattr(self.source_range, "highlight") else ""
        return f"{self.msg}\n{place}" if place else str(self.msg)


class FrontendTypeError(FrontendError):
    """A program says something of types that cannot be."""


class NotSupportedError(RuntimeError):
    """A program uses what the language does not have."""


class UnsupportedNodeError(NotSupportedError):
    """A program has a statement or an expression that the language does not have."""
