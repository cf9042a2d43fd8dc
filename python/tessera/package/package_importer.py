"""Reads packages: `PackageImporter`."""

import builtins
import importlib
import importlib.abc
import importlib.machinery
import io
import linecache
import os
import sys
import types
from pathlib import Path

from tessera.package import _mangling
from tessera.package.file_structure_representation import tree_of
from tessera.package.importer import Importer
from tessera.serialization import _make_unpickler, _opened, _ZipLoader

__all__ = ["PackageImporter"]


class PackageImporter(Importer):
    """A package as a world of modules of its own: its modules see each other and what was left extern, and are not in
    `sys.modules`.

    Args:
        file_or_buffer: a path of a package, or of the folder that one was unpacked to, or a file object.
        module_allowed: a function of a module's name; False refuses extern modules.

    Raises: ImportError if an extern module is refused.
    """

    def __init__(self, file_or_buffer, module_allowed=lambda module_name: True):
        if isinstance(file_or_buffer, (str, os.PathLike)) and os.path.isdir(file_or_buffer):
            self._records = _Folder(os.fsdecode(file_or_buffer))
            self.filename = os.fsdecode(file_or_buffer)
        else:
            is_path = isinstance(file_or_buffer, (str, os.PathLike))
            self.filename = os.fsdecode(file_or_buffer) if is_path else "<binary>"
            self._open = _opened(file_or_buffer)
            self._records = _Archive(self._open.file)
        self._prefix = _mangling.new_prefix()
        self.modules = {}
        self._names = set(self._records.names())
        self._folders = {parent for name in self._names for parent in _parents(name)}
        externs = self._records.read(".data/extern_modules").decode().split()
        self._externs = set(externs)
        for name in externs:
            if not module_allowed(name):
                raise ImportError(
                    f"package '{self.filename}' needs the external module '{name}' but that module has been disallowed"
                )
        self._builtins = dict(vars(builtins), __import__=self.__import__)

    def __repr__(self):
        return f"PackageImporter({self.filename!r})"

    # --- Questions

    def id(self):
        """A name that tells this importer from all others of the process: "<torch_package_0>"."""
        return self._prefix

    def python_version(self):
        """The version of Python that the package was made with, such as "3.11.7"; None if it does not say."""
        name = ".data/python_version"
        return self._records.read(name).decode().strip() if name in self._records else None

    def file_structure(self, *, include="**", exclude=()):
        """The `Directory` of the files that the patterns match ("**/*.txt")."""
        names = [name for name in self._records.names() if not name.endswith(".storage")]
        return tree_of(self.filename, names, include, exclude)

    def get_source(self, module_name):
        """The source of a module of the package. Raises: ImportError if it has none."""
        return self._read_source(_mangling.demangle(module_name))

    def get_resource_reader(self, fullname):
        """For `importlib.resources`: a reader of the resources of a package; None for modules that are none."""
        folder = _mangling.demangle(fullname).replace(".", "/")
        return _Resources(self._records, self._names, folder) if folder in self._folders else None

    def is_package(self, fullname):
        """For `importlib`: whether a module of the package is a package itself."""
        return self._find(_mangling.demangle(fullname))[1]

    # --- Loading

    def load_binary(self, package, resource):
        """The bytes of a resource."""
        return self._records.read(self._path(package, resource))

    def load_text(self, package, resource, encoding="utf-8", errors="strict"):
        """The text of a resource; encoding, errors: as of `bytes.decode`."""
        return self.load_binary(package, resource).decode(encoding, errors)

    def load_pickle(self, package, resource, map_location=None):
        """An object that was saved by `save_pickle`, with its tensors where map_location says (as of `load`)."""
        loader = _StorageLoader(self._records, map_location)
        data = self._records.read(self._path(package, resource))
        reduced = {}

        def persistent_load(pid):
            if isinstance(pid, tuple) and pid and pid[0] == "reduce_package":
                _, key, function, arguments = pid
                if key not in reduced:
                    reduced[key] = function(self, *arguments)
                return reduced[key]
            if isinstance(pid, tuple) and len(pid) == 5 and isinstance(pid[2], int):
                pid = (*pid[:2], str(pid[2]), *pid[3:])  # PyTorch numbers the storages of packages
            return loader.persistent_load(pid)

        import pickle

        importer = self

        class FromPackage(pickle.Unpickler):
            def find_class(self, module, name):
                value = importer.import_module(module)
                for part in name.split("."):
                    value = getattr(value, part)
                return value

        return _make_unpickler(FromPackage, persistent_load)(io.BytesIO(data)).load()

    def import_module(self, name, package=None):
        """The module of that name in the package. package: what a relative name (".a") is relative to."""
        if name.startswith("."):
            name = importlib.util.resolve_name(name, package)
        return self._load(_mangling.demangle(name))

    def __import__(self, name, globals=None, locals=None, fromlist=(), level=0):
        """What `import` statements of the package's modules call."""
        if level:
            package = _mangling.demangle((globals or {}).get("__package__") or "")
            base = package.rsplit(".", level - 1)[0] if level > 1 else package
            name = f"{base}.{name}" if name and base else name or base
        module = self._load(name)
        if not fromlist:
            return module if level else self._load(name.partition(".")[0])
        if hasattr(module, "__path__"):
            for wanted in getattr(module, "__all__", ()) if "*" in fromlist else fromlist:
                inner = f"{name}.{wanted}"
                if not hasattr(module, wanted) and (self._find(inner)[0] or self._is_extern(inner)):
                    self._load(inner)
        return module

    # --- The rest

    def _path(self, package, resource):
        return f"{package.replace('.', '/')}/{resource}" if package else resource

    def _read_source(self, name):
        record, _ = self._find(name)
        if record is None or record not in self._names:
            raise ImportError(f"the package {self.filename} has no source of {name!r}")
        return self._records.read(record).decode("utf-8")

    def _find(self, name):
        """(record or folder of a module of the package, whether it is a package); (None, False) if there is none."""
        path = name.replace(".", "/")
        if f"{path}/__init__.py" in self._names:
            return f"{path}/__init__.py", True
        if f"{path}.py" in self._names:
            return f"{path}.py", path in self._folders
        return (path, True) if path in self._folders else (None, False)

    def _is_extern(self, name):
        return name in self._externs or any(e.startswith(name + ".") for e in self._externs)

    def _load(self, name):
        if name in self.modules:
            return self.modules[name]
        record, is_package = self._find(name)
        if record is None or (name in self._externs and record not in self._names):
            return self._load_extern(name)
        parent, _, last = name.rpartition(".")
        if parent:
            outer = self._load(parent)
            if name in self.modules:  # its package imports it
                return self.modules[name]
        module = self._make(name, record, is_package)
        if parent:
            setattr(outer, last, module)
        return module

    def _load_extern(self, name):
        if not self._is_extern(name) and not any(name.startswith(e + ".") for e in self._externs):
            if name.partition(".")[0] not in (*sys.stdlib_module_names, "torch", "tessera"):
                raise ModuleNotFoundError(
                    f"No module named '{name}' in the package {self.filename}, nor among its external modules",
                    name=name,
                )
        # A package is of this library, whatever else the interpreter has under that name.
        inside = "tessera" + name[5:] if name == "torch" or name.startswith("torch.") else name
        module = self.modules[name] = importlib.import_module(inside)
        return module

    def _make(self, name, record, is_package):
        mangled = f"{self._prefix}.{name}"
        module = types.ModuleType(mangled)
        filename = f"{self._prefix}.{record}"
        spec = importlib.machinery.ModuleSpec(mangled, self, origin=filename, is_package=is_package)
        module.__dict__.update(
            __file__=filename,
            __loader__=self,
            __spec__=spec,
            __package__=mangled if is_package else mangled.rpartition(".")[0],
            __builtins__=self._builtins,
            __torch_package__=True,
        )
        if is_package:
            module.__path__ = spec.submodule_search_locations = [filename.rpartition("/")[0] or filename]
        self.modules[name] = module
        if record in self._names:
            try:
                code = compile(self._read_source(name), filename, "exec", dont_inherit=True)
                linecache.lazycache(filename, module.__dict__)  # sources in tracebacks
                exec(code, module.__dict__)
            except BaseException:
                del self.modules[name]
                raise
        return self.modules[name]


class _Archive:
    """Records of a zip archive."""

    def __init__(self, file):
        from tessera.serialization import _reader

        self._reader = _reader(file)
        for name in ("names", "read", "read_into", "record_size", "record_offset"):
            setattr(self, name, getattr(self._reader, name))

    def __contains__(self, name):
        return name in self._reader


class _Folder:
    """Records of an archive that was unpacked, with the folder that is in it or without."""

    def __init__(self, folder):
        entries = os.listdir(folder)
        inner = os.path.join(folder, entries[0]) if len(entries) == 1 else folder
        self._folder = Path(inner if os.path.isdir(os.path.join(inner, ".data")) else folder)

    def __contains__(self, name):
        return (self._folder / name).is_file()

    def names(self):
        return [p.relative_to(self._folder).as_posix() for p in self._folder.rglob("*") if p.is_file()]

    def read(self, name):
        return (self._folder / name).read_bytes()

    def read_into(self, name, view):
        view[:] = self.read(name)

    def record_size(self, name):
        return (self._folder / name).stat().st_size


class _StorageLoader(_ZipLoader):
    """The storages of a package, each loaded once for a pickle."""

    def __init__(self, records, map_location):
        self._begin(records, map_location, None)

    def record_of(self, key):
        return f".data/{key}.storage"


class _Resources(importlib.abc.ResourceReader):
    def __init__(self, records, names, folder):
        self._records, self._names, self._folder = records, names, folder

    def open_resource(self, resource):
        path = f"{self._folder}/{resource}"
        if path not in self._names:
            raise FileNotFoundError(path)
        return io.BytesIO(self._records.read(path))

    def resource_path(self, resource):
        raise FileNotFoundError(resource)  # of no file outside of the archive

    def is_resource(self, path):
        return f"{self._folder}/{path}" in self._names

    def contents(self):
        start = self._folder + "/"
        return iter(dict.fromkeys(n[len(start) :].partition("/")[0] for n in self._names if n.startswith(start)))


def _parents(name):
    parts = name.split("/")[:-1]
    return ["/".join(parts[: i + 1]) for i in range(len(parts))]
