"""Namespaces that load on first use (PEP 562).

A package passes its name and a table {public name: submodule that defines it}; every submodule in the package's folder
is
reachable as an attribute as well. Nothing is imported until somebody asks, which keeps `import tessera` short.
"""

import sys
import types


def require(name, wanted_by, instead=None):
    """The value of `tessera.<name>` (dotted), of which this version may not have every part.

    Names of this package that are still to come are written as calls of this function and nowhere else: what needs them
        fails at the call, before it has changed
    anything, and works from the day the name is there.

    Args:
        name: such as "linalg.qr".
        wanted_by: what the user called, such as "nn.init.orthogonal_()".
        instead: a sentence that says what else would do.

    Raises: NotImplementedError that says what is missing.
    """
    from importlib import import_module

    value, path = sys.modules["tessera"], "tessera"
    for part in name.split("."):
        path += "." + part
        try:
            value = getattr(value, part)
        except AttributeError:
            try:
                value = import_module(path)
            except ModuleNotFoundError as error:
                if not path.startswith(error.name or "?"):
                    raise  # the module is there and lacks something itself
                shown = sys.modules["tessera"]._display_name
                hint = "" if instead is None else f" {instead}"
                raise NotImplementedError(
                    f"{wanted_by} needs {shown}.{name}, which this version does not have.{hint}"
                ) from None
    return value


def _submodules(package):
    """Names of the modules and packages in the folder of `package` (extension modules included)."""
    import os

    names = set()
    for folder in package.__path__:
        try:
            entries = os.listdir(folder)
        except OSError:
            continue
        for entry in entries:
            stem, dot, suffix = entry.partition(".")
            if not dot:
                if stem.isidentifier() and os.path.isfile(os.path.join(folder, stem, "__init__.py")):
                    names.add(stem)
            elif stem != "__init__" and (suffix == "py" or suffix.endswith("so")):
                names.add(stem)
    return names


class _Package(types.ModuleType):
    """A package in which the function of a name stays when the submodule of that name is imported, too."""

    def __setattr__(self, name, value):
        if isinstance(value, types.ModuleType) and name in self.__dict__["__functions__"]:
            value = getattr(value, name)
        super().__setattr__(name, value)


def keep_functions(package_name, *names):
    """Makes names of a package mean functions (or classes) for good, although it has submodules called so."""
    package = sys.modules[package_name]
    package.__dict__["__functions__"] = {*names, *package.__dict__.get("__functions__", ())}
    package.__class__ = _Package


def attach(package_name, attributes=None):
    """Returns the pair (`__getattr__`, `__dir__`) for the package `package_name`.

    `attributes` maps a name to the submodule (relative to the package, or absolute with a leading colon) that holds it.
    A value
    "module.attr" with a space, "module attr", gives another attribute name. What was found is stored in the package, so
    that each
    name is resolved once.
    """
    attributes = attributes or {}
    package = sys.modules[package_name]
    known = None

    def submodules():
        nonlocal known
        if known is None:
            known = _submodules(package)
        return known

    def __getattr__(name):
        from importlib import import_module

        where = attributes.get(name)
        if where is not None:
            module, _, attribute = where.partition(" ")
            module = module[1:] if module[0] == ":" else f"{package_name}.{module}"
            value = getattr(import_module(module), attribute or name)
            setattr(package, name, value)
            return value
        if name in submodules():
            return import_module(f"{package_name}.{name}")
        shown = getattr(sys.modules.get("tessera"), "_display_name", "tessera") + package_name[len("tessera") :]
        raise AttributeError(f"module '{shown}' has no attribute '{name}'")

    def __dir__():
        public = {name for name in submodules() if not name.startswith("_")}
        return sorted(set(package.__dict__) | set(attributes) | public)

    return __getattr__, __dir__


def operator_namespace(module_name, renamed=None, defined=None):
    """Returns the pair (`__getattr__`, `__dir__`) for a module whose functions are the operators `<module>_<name>` of
    the extension ("tessera.fft": `_C._fft.fft_rfft` is `rfft`).

    `renamed` maps names to operators of the top-level namespace, `defined` names to submodules of the package that hold
    them. What was found is stored in the module.
    """
    from tessera import _C

    renamed, defined = renamed or {}, defined or {}
    module = sys.modules[module_name]
    short = module_name.rpartition(".")[2]
    prefix, own = short + "_", getattr(_C, "_" + short, None)

    def find(name):
        if name in defined:
            from importlib import import_module

            return getattr(import_module(f"{module_name}.{defined[name]}"), name)
        found = None if name.startswith("_") else getattr(own, prefix + name, None)
        return getattr(_C, renamed[name], None) if found is None and name in renamed else found

    def __getattr__(name):
        value = __dir__() if name == "__all__" else find(name)
        if value is None:
            shown = sys.modules["tessera"]._display_name + module_name[len("tessera") :]
            raise AttributeError(f"module '{shown}' has no attribute '{name}'")
        setattr(module, name, value)
        return value

    def __dir__():
        operators = {name[len(prefix) :] for name in dir(own) if name.startswith(prefix)}
        return sorted(operators | set(defined) | {name for name in renamed if hasattr(_C, renamed[name])})

    return __getattr__, __dir__
