"""Shows what a pickle holds without loading it: `python -m tessera.utils.show_pickle FILE`.

FILE is a pickle, or a member of a zip file such as a checkpoint: `model.pt@*/data.pkl`. Nothing of the pickle is called
or imported; objects of classes are shown by their names and arguments.
"""

import argparse
import fnmatch
import pickle
import pprint
import struct
import sys
import zipfile

__all__ = ["DumpUnpickler", "FakeClass", "FakeObject", "main"]


class FakeObject:
    """Stands for an object: its class by module and name, what it was called with, and its state."""

    def __init__(self, module, name, args):
        self.module, self.name, self.args = module, name, args
        self.state = None

    def __repr__(self):
        parts = [f"{self.module}.{self.name}", repr(self.args)]
        if self.state is not None:
            parts.append(f"(state={self.state!r})")
        return "".join(parts)

    def __setstate__(self, state):
        self.state = state

    def __setitem__(self, key, value):
        """Dictionaries of other classes are filled this way."""
        self.state = {**(self.state or {}), key: value}

    def append(self, value):
        """Lists of other classes are filled this way."""
        self.state = [*(self.state or []), value]

    def extend(self, values):
        """Lists of other classes are filled this way."""
        self.state = [*(self.state or []), *values]

    @staticmethod
    def pp_format(printer, obj, stream, indent, allowance, context, level):
        """Prints one for the module pprint: the state goes to lines of its own if it does not fit into one."""
        if obj.state is None and len(repr(obj)) <= printer._width - indent - allowance:
            stream.write(repr(obj))
            return
        stream.write(f"{obj.module}.{obj.name}")
        printer._format(obj.args, stream, indent + 1, allowance + 1, context, level)
        if obj.state is not None:
            stream.write(f"(state=\n{' ' * indent}")
            printer._format(obj.state, stream, indent, allowance + 1, context, level + 1)
            stream.write(")")


class FakeClass:
    """Stands for a class or function by its module and name; called, it gives a FakeObject."""

    def __init__(self, module, name):
        self.module, self.name = module, name

    def __repr__(self):
        return f"{self.module}.{self.name}"

    def __call__(self, *args):
        return FakeObject(self.module, self.name, args)

    def fake_new(self, *args):
        """An object that is made without calling the class; its first argument, the class, is left out."""
        return FakeObject(self.module, self.name, args[1:])


class DumpUnpickler(pickle._Unpickler):  # type: ignore[name-defined]
    """Reads a pickle into stand-ins, by the unpickler in Python, whose opcodes can be replaced.

    Args:
        file: an open file.
        catch_invalid_utf8: show text that is not UTF-8 as the bytes that it is, instead of raising UnicodeDecodeError.
        kwargs: the other arguments of pickle.Unpickler.
    """

    dispatch = dict(pickle._Unpickler.dispatch)  # type: ignore[attr-defined]

    def __init__(self, file, *, catch_invalid_utf8=False, **kwargs):
        super().__init__(file, **kwargs)
        self.catch_invalid_utf8 = catch_invalid_utf8

    def find_class(self, module, name):
        """A FakeClass: nothing is imported."""
        return FakeClass(module, name)

    def persistent_load(self, pid):
        """What lies outside of the pickle, such as the bytes of a tensor, by what names it there."""
        return FakeObject("pers", "obj", (pid,))

    def load_binunicode(self):
        """Text of a length of four bytes."""
        (size,) = struct.unpack("<I", self.read(4))
        if size > sys.maxsize:
            raise pickle.UnpicklingError(f"text of {size} bytes is too long")
        data = self.read(size)
        try:
            text = str(data, "utf-8", "surrogatepass")
        except UnicodeDecodeError:
            if not self.catch_invalid_utf8:
                raise
            text = FakeObject("builtin", "UnicodeDecodeError", (data,))
        self.append(text)

    dispatch[pickle.BINUNICODE[0]] = load_binunicode

    def _build(self):
        state = self.stack.pop()
        target = self.stack[-1]
        if isinstance(target, FakeObject):
            target.__setstate__(state)
        else:  # the state of something that is shown as it is, such as a dict
            self.stack[-1] = FakeObject("builtin", "build", (target, state))

    dispatch[pickle.BUILD[0]] = _build

    def _new(self):
        args = self.stack.pop()
        cls = self.stack.pop()
        self.append(cls.fake_new(cls, *args))

    dispatch[pickle.NEWOBJ[0]] = _new

    @classmethod
    def dump(cls, in_stream, out_stream):
        """Prints what an open pickle holds. Returns: it, with stand-ins."""
        value = cls(in_stream, catch_invalid_utf8=True).load()
        _printer(out_stream).pprint(value)
        return value


def _printer(stream):
    class Printer(pprint.PrettyPrinter):
        _dispatch = {**pprint.PrettyPrinter._dispatch, FakeObject.__repr__: FakeObject.pp_format}  # type: ignore

    return Printer(width=120, stream=stream)


def main(argv, output_stream=None):
    """The command line: argv[0] is the program's name. The pickle goes to `output_stream`, by default to stdout.

    Returns: the exit status.
    """
    parser = argparse.ArgumentParser(prog=argv[0] if argv else None, description=__doc__)
    parser.add_argument("file", help="a pickle, or ZIP@MEMBER, where MEMBER may be a pattern")
    options = parser.parse_args(argv[1:])
    out = output_stream if output_stream is not None else sys.stdout
    archive, at, member = options.file.partition("@")
    if not at:
        with open(options.file, "rb") as file:
            DumpUnpickler.dump(file, out)
        return 0
    with zipfile.ZipFile(archive) as zipped:
        found = [name for name in zipped.namelist() if fnmatch.fnmatch(name, member)]
        if len(found) != 1:
            print(f"{member} names {len(found)} members of {archive}: {found}; it should name one", file=sys.stderr)
            return 1
        with zipped.open(found[0]) as file:
            DumpUnpickler.dump(file, out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
