"""`classes`: classes that C++ registered (torch::class_), `classes.<namespace>.<Name>(...)`."""

import types

from tessera import _C

__all__ = ["classes"]

_ROOT = _C.TensorBase.__module__.split(".")[0]


class _ClassNamespace(types.ModuleType):
    def __init__(self, name):
        super().__init__(f"{_ROOT}.classes.{name}")
        self.name = name

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        from tessera.jit._objects import registered_class

        found = registered_class(self.name, name)
        if found is None:
            raise RuntimeError(
                f"Tried to instantiate class '{self.name}.{name}', but it does not exist! Ensure that it is registered "
                "via torch::class_, and that its library is loaded"
            )
        setattr(self, name, found)
        return found

    def __dir__(self):
        prefix = f"__torch__.torch.classes.{self.name}."
        return sorted(n[len(prefix) :] for n in _C._jit.registered_classes() if n.startswith(prefix))

    def __repr__(self):
        return f"<namespace classes.{self.name}>"


class _Classes(types.ModuleType):
    """See the module."""

    def __init__(self):
        super().__init__(f"{_ROOT}.classes")

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        namespace = _ClassNamespace(name)
        setattr(self, name, namespace)
        return namespace

    @property
    def loaded_libraries(self):
        """The paths of the libraries that were loaded."""
        from tessera._ops import ops

        return ops.loaded_libraries

    def load_library(self, path):
        """Loads a shared library that registers classes or operators. Raises: OSError if it can't be loaded."""
        from tessera._ops import ops

        ops.load_library(path)

    def __dir__(self):
        namespaces = {n.split(".")[3] for n in _C._jit.registered_classes()}
        return sorted(namespaces | {"load_library", "loaded_libraries"})


classes = _Classes()
