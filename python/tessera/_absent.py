"""Modules of devices that no build knows: their documented names, so that programs that ask first run unchanged.

What can be answered without a device is answered (no memory is in use, a seed is nobody's); everything else raises one
RuntimeError that names the device. A module says in a table what it has.
"""

import ast
import inspect
import sys

import tessera


def _signature(text):
    """("name", its inspect.Signature) of "name(a, b=1, *, c=None)"."""
    definition = ast.parse(f"def {text}: pass").body[0]
    assert isinstance(definition, ast.FunctionDef)
    a = definition.args
    kinds = inspect.Parameter
    found = []
    for names, kind, defaults in (
        (a.posonlyargs + a.args, kinds.POSITIONAL_OR_KEYWORD, a.defaults),
        ([a.vararg] if a.vararg else [], kinds.VAR_POSITIONAL, []),
        (a.kwonlyargs, kinds.KEYWORD_ONLY, a.kw_defaults),
        ([a.kwarg] if a.kwarg else [], kinds.VAR_KEYWORD, []),
    ):
        values = [None] * (len(names) - len(defaults)) + list(defaults)
        for name, value in zip(names, values):
            default = kinds.empty if value is None else ast.literal_eval(value)
            found.append(kinds(name.arg, kind, default=default))
    return definition.name, inspect.Signature(found)


def missing(device):
    """The error of what needs such a device."""
    return RuntimeError(
        f"{tessera._display_name} knows no {device} devices, and this needs one; ask "
        f"{'backends.' if device == 'mps' else ''}{device}.is_available() first"
    )


def _function(module, device, text, answer, doc):
    name, signature = _signature(text)

    def call(*args, **kwargs):
        signature.bind(*args, **kwargs)  # wrong arguments are wrong without a device, too
        if not answer:
            raise missing(device)
        return ast.literal_eval(answer)

    call.__name__ = call.__qualname__ = name
    call.__module__ = module
    call.__signature__ = signature  # type: ignore[attr-defined]
    call.__doc__ = f"{doc} There are no {device} devices: " + (f"{answer}." if answer else "raises RuntimeError.")
    return call


def install(module, device, table):
    """Puts functions into a module.

    Args:
        module: its name.
        device: the type of device.
        table: a line for each: its signature, "-> value" if it has an answer without a device, "|", and what it does.
    """
    names = vars(sys.modules[module])
    for line in filter(None, map(str.strip, table.splitlines())):
        head, _, doc = line.partition(" | ")
        text, _, answer = head.partition(" -> ")
        function = _function(module, device, text, answer, doc)
        names[function.__name__] = function


def make_class(module, device, head, doc, methods="", base=object):
    """A class of which there can be no object: making one raises RuntimeError.

    Args:
        module: the name of its module.
        device: the type of device.
        head: its name and what it is made of: "Event(enable_timing=False)".
        doc: its docstring.
        methods: signatures of its methods, one a line; "@name" is a property.
        base: the class above.
    """
    name, signature = _signature(head)
    members = {"__module__": module, "__doc__": f"{doc} There are no {device} devices: making one raises RuntimeError."}

    def __init__(_self, *args, **kwargs):
        signature.bind(*args, **kwargs)
        raise missing(device)

    kinds = inspect.Parameter
    whole = inspect.Signature([kinds("self", kinds.POSITIONAL_OR_KEYWORD), *signature.parameters.values()])
    __init__.__signature__ = whole  # type: ignore[attr-defined]
    members["__init__"] = __init__
    for line in filter(None, map(str.strip, methods.splitlines())):
        text = f"{line[1:]}(self)" if line[0] == "@" else line.replace("(", "(self, ").replace("(self, )", "(self)")
        method = _function(module, device, text, "", f"Part of {name}.")
        method.__qualname__ = f"{name}.{method.__name__}"
        members[method.__name__] = property(method) if line[0] == "@" else method
    return type(name, (base,), members)


class _Selection:
    """Context manager that would select something of a device; None and negative numbers select nothing."""

    device = ""

    def _select(self, what):
        self.idx = what

    def __enter__(self):
        if self.idx is not None and not (isinstance(self.idx, int) and self.idx < 0):
            raise missing(self.device)

    def __exit__(self, exc_type, exc_value, traceback):
        return False


def contexts(module, device):
    """(device, device_of, StreamContext): the context managers of a device's module."""

    class Device(_Selection):
        """Context manager that selects a device. None and negative numbers select none, others raise RuntimeError when
        the block is entered.
        """

        def __init__(self, device):
            self._select(device)

    class DeviceOf(_Selection):
        """Context manager that selects the device of a tensor; one of another kind of device selects none."""

        def __init__(self, obj):
            self._select(obj.get_device() if obj.device.type == device else -1)

    class Stream(_Selection):
        """Context manager that selects a stream; None selects none."""

        def __init__(self, stream):
            self._select(stream)
            self.stream = stream

    for cls, name in ((Device, "device"), (DeviceOf, "device_of"), (Stream, "StreamContext")):
        cls.__module__, cls.__name__, cls.__qualname__, cls.device = module, name, name, device
    return Device, DeviceOf, Stream
