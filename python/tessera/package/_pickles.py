"""Pickles of packages: globals by the importers' names, storages beside them in the archive."""

import io
import pickle

from tessera.serialization import _dispatch_table, _outside_name


def dump(obj, importer, protocol, persistent_id):
    """The pickle of `obj`, and the names (module, name) of its globals in the order in which they came."""
    buffer = io.BytesIO()
    pickler = _Pickler(buffer, importer, protocol, persistent_id)
    pickler.dump(obj)
    return buffer.getvalue(), list(pickler.globals)


class _Pickler(pickle._Pickler):
    # The pickler that is written in Python: the other one asks sys.modules for globals.
    def __init__(self, buffer, importer, protocol, persistent_id):
        super().__init__(buffer, protocol=protocol)
        self.importer = importer
        self.globals = {}
        self.persistent_id = persistent_id
        self.dispatch_table = _dispatch_table()

    def save_global(self, obj, name=None):
        try:
            module, name = self.importer.get_name(obj, name)
        except Exception as error:
            raise pickle.PicklingError(f"Can't pickle {obj!r}: {error}") from None
        if module == "tessera" or module.startswith("tessera."):
            module, name = _outside_name(module, name)
        self.globals[module, name] = True
        if self.proto >= 4:
            self.save(module)
            self.save(name)
            self.write(pickle.STACK_GLOBAL)
        elif "." in name:
            # Protocols below 4 have no names with dots: an attribute of the outer class.
            import functools

            outer, _, inner = name.rpartition(".")
            parent = self.importer.import_module(module)
            self.save_reduce(getattr, (functools.reduce(getattr, outer.split("."), parent), inner))
        else:
            self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
        self.memoize(obj)

    def save_type(self, obj):
        if obj in (type(None), type(NotImplemented), type(...)):
            return super().save_type(obj)
        return self.save_global(obj)

    dispatch = dict(pickle._Pickler.dispatch)
    dispatch[type] = save_type
    dispatch[type(len)] = dispatch[type(dump)] = save_global
