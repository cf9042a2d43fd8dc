"""Where pickled globals come from: the running interpreter, or packages that were imported."""

import importlib
import pickle
from abc import ABC, abstractmethod

from tessera.package._mangling import demangle, get_mangle_prefix, is_mangled

__all__ = ["Importer", "ObjMismatchError", "ObjNotFoundError", "OrderedImporter", "sys_importer"]


class ObjNotFoundError(Exception):
    """An importer has no object of that name."""


class ObjMismatchError(Exception):
    """An importer has another object of that name."""


class Importer(ABC):
    """A world of modules. `import_module` is for subclasses to write."""

    modules = {}

    @abstractmethod
    def import_module(self, module_name):
        """The module of that name in this world. Raises: ModuleNotFoundError."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it imports {module_name}")

    def get_name(self, obj, name=None):
        """(module name, qualified name) of a class or function, by which this world has it.

        Raises: ObjNotFoundError if it has none of that name, ObjMismatchError if it has another.
        """
        name = name or getattr(obj, "__qualname__", None) or obj.__name__
        orig_module_name = self.whichmodule(obj, name)
        module_name = demangle(orig_module_name)
        try:
            found = self.import_module(module_name)
            for part in name.split("."):
                if part == "<locals>":
                    raise AttributeError(f"{name} is local to a function")
                found = getattr(found, part)
        except (ImportError, KeyError, AttributeError) as error:
            raise ObjNotFoundError(
                f"{obj!r} was not found as {module_name}.{name} ({error})" + self._origin_of(orig_module_name)
            ) from None
        if found is obj:
            return module_name, name
        raise ObjMismatchError(
            f"{obj!r} is not the object that {self!r} has as {module_name}.{name}: {found!r}. Two worlds of modules "
            f"have one of that name" + self._origin_of(orig_module_name)
        )

    def whichmodule(self, obj, name):
        """The name of the module that defines an object; of one that does not say it, the first one that has it."""
        module_name = getattr(obj, "__module__", None)
        if module_name is not None:
            return module_name
        for candidate, module in dict(self.modules).items():
            if candidate == "__main__" or module is None:
                continue
            found = module
            for part in name.split("."):
                found = getattr(found, part, None)
            if found is obj:
                return candidate
        return "__main__"

    def _origin_of(self, module_name):
        if not is_mangled(module_name):
            return ""
        return f". It was loaded from the package {get_mangle_prefix(module_name)}: give its importer to the exporter"


class _SysImporter(Importer):
    """The running interpreter's modules."""

    def import_module(self, module_name):
        return importlib.import_module(module_name)

    def whichmodule(self, obj, name):
        return pickle.__dict__["whichmodule"](obj, name)  # which the stubs of the standard library do not have

    def __repr__(self):
        return "sys_importer"


sys_importer = _SysImporter()


class OrderedImporter(Importer):
    """Several importers, asked one after the other."""

    def __init__(self, *args):
        self._importers = list(args)

    def __repr__(self):
        return f"OrderedImporter({', '.join(map(repr, self._importers))})"

    def import_module(self, module_name):
        errors = []
        for importer in self._importers:
            if not isinstance(importer, Importer):
                raise TypeError(f"expected an Importer, but got {type(importer).__name__}")
            try:
                return importer.import_module(module_name)
            except ModuleNotFoundError as error:
                errors.append(str(error))
        raise ModuleNotFoundError("; ".join(errors) or f"no importer has {module_name}")

    def whichmodule(self, obj, name):
        for importer in self._importers:
            module_name = importer.whichmodule(obj, name)
            if module_name != "__main__":
                return module_name
        return "__main__"
