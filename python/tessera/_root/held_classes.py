"""What the compiler of programs asks of parts of the package that it does not know: classes of Python whose objects
programs hold as those of a registered class, and methods that have a text for it.
"""

import threading


class _Trace(threading.local):
    def __init__(self):
        self.instances = {}  # id of an object -> it and the compiler's, of those that the trace knows by their names


TRACE = _Trace()  # that of this thread: traces are not nested
CLASSES: dict = {}  # class -> function that gives the compiler's class
METHODS: dict = {}  # (class, name of a method) -> its text, or function of the class that gives it


def class_of(value):
    """The compiler's class of an object; None for one of a class that is not registered."""
    for cls in type(value).__mro__[:-1]:
        if cls in CLASSES:
            return CLASSES[cls]()
    return None


def instance_of(value):
    """The compiler's object that holds an object of such a class; None for others."""
    known = TRACE.instances.get(id(value))
    if known is not None:
        return known[1]
    registered = class_of(value)
    if registered is None:
        return None
    made = registered.new()
    made.hold(value)
    return made


def method_text(cls, name):
    """The text of a method that a class has of its own, or inherits."""
    for base in cls.__mro__:
        if (base, name) in METHODS:
            text = METHODS[base, name]
            return text(cls) if callable(text) else text
        if name in vars(base):
            break
    return None
