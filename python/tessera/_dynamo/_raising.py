"""Exceptions that the program raises while it is captured."""

from ._values import Const, Raised


class Observed(Exception):
    """The program raises an exception. `raised`: Raised."""

    def __init__(self, raised):
        super().__init__(raised.cls.__name__)
        self.raised = raised

    def text(self):
        """The exception as Python shows it."""
        return ", ".join(
            [f"{self.raised.cls.__name__}", *(str(a.value) for a in self.raised.args if isinstance(a, Const))]
        )


def fail(tracer, cls, message):
    """Raises an exception of Python in the program."""
    del tracer
    raise Observed(Raised(cls, [Const(message)]))
