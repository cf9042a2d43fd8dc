"""Writes packages: `PackageExporter`."""

import importlib.machinery
import linecache
import os
import sys
from collections import OrderedDict
from enum import Enum

from tessera._C import _ZipWriter
from tessera.package._graph import Graph
from tessera.package._pickles import dump
from tessera.package.find_file_dependencies import find_files_source_depends_on
from tessera.package.glob_group import GlobGroup
from tessera.package.importer import Importer, OrderedImporter, sys_importer
from tessera.serialization import _Options, _SavedStorages, _storage_bytes, _written
from tessera.utils.hooks import RemovableHandle

__all__ = ["EmptyMatchError", "PackageExporter", "PackagingError", "PackagingErrorReason"]

_FORMAT_VERSION = b"6\n"

# What the place of a mocked module has: any name, none of which can be used.
_MOCK_MODULE = '''"""Stands for a module that this package was made without."""


class MockedObject:
    def __new__(cls, *args, **kwargs):
        if not kwargs.get("_mocking"):
            raise NotImplementedError(f"{cls.__name__} cannot be derived from or called: it was mocked out")
        return super().__new__(cls)

    def __init__(self, name, _mocking=True):
        self.__dict__["_name"] = name

    def _refuse(self):
        raise NotImplementedError(
            f"{self._name} was mocked out when this package was made: nothing of it can be used"
        )

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return MockedObject(f"{self._name}.{name}", _mocking=True)

    def __call__(self, *args, **kwargs):
        self._refuse()

    def __setattr__(self, name, value):
        self._refuse()

    def __getitem__(self, key):
        self._refuse()

    def __iter__(self):
        self._refuse()

    def __len__(self):
        self._refuse()

    def __bool__(self):
        self._refuse()
'''
_MOCKED_SOURCE = """from _mock import MockedObject


def __getattr__(name):
    if name == "__path__":
        raise AttributeError(name)
    return MockedObject(__name__.partition(".")[2] + "." + name, _mocking=True)
"""


class _Action(Enum):
    INTERN = "its source goes into the package"
    EXTERN = "it is imported from where the package is loaded"
    MOCK = "a stand-in goes into the package"
    DENY = "it must not be needed"


class PackagingErrorReason(Enum):
    """Why a module can't be packaged."""

    IS_EXTENSION_MODULE = "Module is a C extension module. Only the sources of Python modules can be packaged."
    NO_DUNDER_FILE = "Module had no __file__ defined."
    SOURCE_FILE_NOT_FOUND = "Module had a __file__, but its source could not be found."
    DEPENDENCY_RESOLUTION_FAILED = "Dependency resolution failed."
    NO_ACTION = "Module did not match against any action pattern. Extern, mock, or intern it."
    DENIED = "Module was denied by a pattern."
    MOCKED_BUT_STILL_USED = "Module was mocked out, but is still being used in the package: a pickled object needs it."

    def __str__(self):
        return self.value


class EmptyMatchError(Exception):
    """A pattern with allow_empty=False matched no module."""


class PackagingError(Exception):
    """Modules that something in a package needs can't be packaged; the message lists them by reason.

    Attributes: dependency_graph, the graph of what needs what.
    """

    def __init__(self, dependency_graph, debug=False):
        self.dependency_graph = dependency_graph
        by_reason = {}
        for name, node in dependency_graph.nodes.items():
            if "error" in node:
                by_reason.setdefault(node["error"], []).append((name, node.get("context")))
        lines = []
        for reason, modules in by_reason.items():
            lines.append(f"* {reason.value}")
            for name, context in modules:
                lines.append(f"    {name}")
                if context is not None:
                    lines.append(f"      Context: {context}")
                if debug:
                    lines.append(f"      First needed by: {' -> '.join(dependency_graph.first_path_to(name))}")
        if not debug:
            lines.append("")
            lines.append("debug=True, given to PackageExporter, adds for each module what leads to it")
        super().__init__("\n" + "\n".join(lines))


class PackageExporter:
    """Writes a package: `save_*` adds things; what these need is found out by reading their imports and pickles, and
    treated as the first of the patterns given by `intern`, `extern`, `mock` and `deny` says that fits its name. (The
    standard library, and this one, are always extern.)

    A context manager; at its end, or by `close`, the archive is completed.

    Args:
        f: a path, or a file object to write to.
        importer: the world in which modules and pickled objects are looked for, or a list of several: such as
            [importer_of_another_package, sys_importer].
        debug: error messages say what leads to each module.

    Raises: PackagingError at the end if a module fits no pattern, is denied or has no source; EmptyMatchError if a
        pattern with allow_empty=False fitted none. Then there is no file.
    """

    def __init__(self, f, importer=sys_importer, debug=False):
        if not isinstance(importer, Importer):
            if not isinstance(importer, (list, tuple)):
                raise TypeError(f"importer: expected an Importer or a list of them, but got {type(importer).__name__}")
            importer = OrderedImporter(*importer)
        self.importer = importer
        self.debug = debug
        self.dependency_graph = Graph()
        self._f = f
        self._records = OrderedDict()
        self._storages = _SavedStorages()
        self._patterns = []  # [action, GlobGroup, allow_empty, whether it has matched]
        self._hooks = {action: OrderedDict() for action in _Action}
        self._reduced = 0
        self._unique = 0
        self._closed = False

    def __enter__(self):
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        if exc_type is None:
            self.close()

    # --- What goes in

    def save_text(self, package, resource, text):
        """Adds a text as a resource of a package: `importlib.resources` and `load_text` find it there."""
        return self.save_binary(package, resource, text.encode("utf-8"))

    def save_binary(self, package, resource, binary):
        """Adds bytes as a resource of a package."""
        self._write(f"{package.replace('.', '/')}/{resource}", bytes(binary))

    def save_pickle(self, package, resource, obj, dependencies=True, pickle_protocol=3):
        """Adds an object as a pickle, with the tensors in it and, unless dependencies is False, what its classes need.

        Raises: PicklingError for an object that the importers don't have by its name.
        """
        if pickle_protocol not in (3, 4):
            raise ValueError(f"save_pickle: expected a pickle_protocol of 3 or 4, but got {pickle_protocol}")
        data, names = dump(obj, self.importer, pickle_protocol, self._persistent_id)
        self._write(f"{package.replace('.', '/')}/{resource}", data)
        if not dependencies:
            return
        node = f"<{package}.{resource}>"
        self.dependency_graph.add_node(node, action=_Action.INTERN, is_pickle=True)
        for module in OrderedDict.fromkeys(module for module, _ in names):
            self.add_dependency_edge(node, module, needed_by_pickle=True)

    def save_source_string(self, module_name, src, is_package=False, dependencies=True):
        """Adds a module by its source. is_package: it is the __init__ of a package."""
        self._provide(module_name)
        self._write_source(module_name, src, is_package)
        if dependencies:
            self._follow_source(module_name, src, is_package)

    def save_source_file(self, module_name, file_or_directory, dependencies=True):
        """Adds a module by its file; a folder becomes a package, with all Python files in it."""
        if not os.path.isdir(file_or_directory):
            is_package = os.path.basename(file_or_directory) == "__init__.py"
            self.save_source_string(module_name, _read(file_or_directory), is_package, dependencies)
            return
        sources = []
        for folder, folders, files in os.walk(file_or_directory):
            folders.sort()
            below = os.path.relpath(folder, file_or_directory)
            parts = [module_name] + ([] if below == "." else below.split(os.sep))
            for name in sorted(files):
                if name.endswith(".py"):
                    is_package = name == "__init__.py"
                    full = ".".join(parts if is_package else [*parts, name[:-3]])
                    sources.append((full, _read(os.path.join(folder, name)), is_package))
        # All of them are there before the first asks for another.
        for full, source, is_package in sources:
            self._provide(full)
        for full, source, is_package in sources:
            self.save_source_string(full, source, is_package, dependencies)

    def save_module(self, module_name, dependencies=True):
        """Adds the source of an importable module, whatever the patterns say."""
        if not isinstance(module_name, str):
            raise TypeError(f"save_module() expects the name of a module, but got {type(module_name).__name__}")
        self._intern(module_name, dependencies)

    def add_dependency(self, module_name, dependencies=True):
        """Treats a module as the patterns say, as if something in the package imported it."""
        node = self.dependency_graph.nodes.get(module_name, {})
        if "action" in node or "error" in node:
            return
        action = self._choose(module_name)
        if action is None:
            self.dependency_graph.add_node(module_name, error=PackagingErrorReason.NO_ACTION)
        elif action is _Action.DENY:
            self.dependency_graph.add_node(module_name, action=action, error=PackagingErrorReason.DENIED)
        elif action is _Action.INTERN:
            self._run_hooks(action, module_name)
            self._intern(module_name, dependencies)
        else:
            self.dependency_graph.add_node(module_name, action=action)
            self._run_hooks(action, module_name)
            if action is _Action.MOCK:
                if "_mock" not in self.dependency_graph.nodes:
                    self.save_source_string("_mock", _MOCK_MODULE)
                self._write_source(module_name, _MOCKED_SOURCE, is_package=True)

    def add_dependency_edge(self, source, module_name, needed_by_pickle=False):
        """`add_dependency`, with a note of who asks."""
        self.add_dependency(module_name)
        self.dependency_graph.add_edge(source, module_name)
        if needed_by_pickle and self.dependency_graph.nodes[module_name].get("action") is _Action.MOCK:
            self.dependency_graph.add_node(module_name, error=PackagingErrorReason.MOCKED_BUT_STILL_USED)

    # --- Patterns

    def intern(self, include, *, exclude=(), allow_empty=True):
        """Modules whose sources go into the package. Patterns: as of `GlobGroup`; allow_empty=False: that none fits is
        an EmptyMatchError at the end."""
        self._patterns.append([_Action.INTERN, GlobGroup(include, exclude=exclude), allow_empty, False])

    def extern(self, include, *, exclude=(), allow_empty=True):
        """Modules that are imported from where the package is loaded."""
        self._patterns.append([_Action.EXTERN, GlobGroup(include, exclude=exclude), allow_empty, False])

    def mock(self, include, *, exclude=(), allow_empty=True):
        """Modules for which a stand-in goes into the package: imports of them work, uses raise NotImplementedError."""
        self._patterns.append([_Action.MOCK, GlobGroup(include, exclude=exclude), allow_empty, False])

    def deny(self, include, *, exclude=()):
        """Modules that nothing in the package may need: a PackagingError."""
        self._patterns.append([_Action.DENY, GlobGroup(include, exclude=exclude), True, False])

    def register_intern_hook(self, hook):
        """`hook(exporter, module_name)` is called when a module is interned. Returns a handle with `remove()`."""
        return self._register(_Action.INTERN, hook)

    def register_extern_hook(self, hook):
        """The same for modules that are extern."""
        return self._register(_Action.EXTERN, hook)

    def register_mock_hook(self, hook):
        """The same for modules that are mocked."""
        return self._register(_Action.MOCK, hook)

    # --- Questions

    def dependency_graph_string(self):
        """What needs what, in the language of Graphviz."""
        return self.dependency_graph.to_dot()

    def interned_modules(self):
        """Names of the modules whose sources are in the package."""
        return self._modules_with(_Action.INTERN)

    def externed_modules(self):
        """Names of the modules that are imported from outside."""
        return self._modules_with(_Action.EXTERN)

    def mocked_modules(self):
        """Names of the modules that have stand-ins."""
        return self._modules_with(_Action.MOCK)

    def denied_modules(self):
        """Names of the modules that something needs although they are denied."""
        return self._modules_with(_Action.DENY)

    def get_rdeps(self, module_name):
        """Names of the modules that need this one directly. Raises: ValueError for a module that nobody needs."""
        if module_name not in self.dependency_graph.nodes:
            raise ValueError(f"{module_name} is not among the modules of this package")
        return self.dependency_graph.sources_of(module_name)

    def all_paths(self, src, dst):
        """All ways from one module to another, in the language of Graphviz."""
        return self.dependency_graph.between(src, dst).to_dot()

    def get_unique_id(self):
        """A number that no other call for this package returns, as a str: for names of records."""
        self._unique += 1
        return str(self._unique - 1)

    def close(self):
        """Checks that everything is provided for, and writes the archive."""
        if self._closed:
            return
        self._closed = True
        for action, group, allow_empty, matched in self._patterns:
            if not allow_empty and not matched:
                raise EmptyMatchError(
                    f"Exporter did not match any modules to {group}, which was marked as allow_empty=False "
                    f"({action.name.lower()})"
                )
        if any("error" in node for node in self.dependency_graph.nodes.values()):
            raise PackagingError(self.dependency_graph, debug=self.debug)
        name = "archive"
        if isinstance(self._f, (str, os.PathLike)):
            name = os.path.splitext(os.path.basename(os.fsdecode(self._f)))[0] or name
        with _written(self._f) as file:
            writer = _ZipWriter(file, name, _Options.crc32)
            for record, data in self._records.items():
                writer.write_record(record, data)
            for key, storage in enumerate(self._storages.storages):
                writer.write_record(f".data/{key}.storage", _storage_bytes(storage))
            externs = "".join(f"{module}\n" for module in self.externed_modules())
            writer.write_record(".data/extern_modules", externs.encode())
            writer.write_record(".data/python_version", ".".join(map(str, sys.version_info[:3])).encode())
            writer.write_record(".data/version", _FORMAT_VERSION)
            writer.write_record("byteorder", sys.byteorder.encode())
            writer.close()

    # --- The rest

    def _write(self, record, data):
        if self._closed:
            raise RuntimeError("the PackageExporter is closed: nothing can be added")
        if record in self._records:
            raise RuntimeError(f"the package has a file {record!r} already")
        self._records[record] = data

    def _write_source(self, module_name, src, is_package):
        self._write(module_name.replace(".", "/") + ("/__init__.py" if is_package else ".py"), src.encode("utf-8"))

    def _provide(self, module_name):
        # Something may have asked for it before it was there.
        self.dependency_graph.add_node(module_name, action=_Action.INTERN)
        self.dependency_graph.nodes[module_name].pop("error", None)

    def _persistent_id(self, obj):
        known = self._storages.persistent_id(obj)
        if known is not None:
            return known
        reduce = getattr(type(obj), "__reduce_package__", None)
        if reduce is None:
            return None
        function, arguments = reduce(obj, self)[:2]
        self._reduced += 1
        return "reduce_package", str(self._reduced - 1), function, arguments

    def _choose(self, module_name):
        """What the patterns say; None if none fits."""
        top = module_name.partition(".")[0]
        always = top in ("torch", "tessera") or top in sys.stdlib_module_names
        for pattern in self._patterns:
            if pattern[1].matches(module_name):
                pattern[3] = True
                return _Action.EXTERN if always else pattern[0]
        return _Action.EXTERN if always else None

    def _intern(self, module_name, dependencies):
        found = self._source_of(module_name)
        if isinstance(found, PackagingErrorReason):
            filename = getattr(sys.modules.get(module_name), "__file__", None)
            self.dependency_graph.add_node(module_name, action=_Action.INTERN, error=found, context=filename)
            return
        source, is_package = found
        self.save_source_string(module_name, source, is_package, dependencies)

    def _source_of(self, module_name):
        """(source, whether it is a package), or why there is none."""
        try:
            module = self.importer.import_module(module_name)
        except ImportError:
            return PackagingErrorReason.DEPENDENCY_RESOLUTION_FAILED
        is_package = hasattr(module, "__path__")
        loader = getattr(module, "__loader__", None)
        source = None
        if hasattr(loader, "get_source"):
            try:
                source = loader.get_source(module.__name__)
            except ImportError:
                source = None
        if source is not None:
            return source, is_package
        filename = getattr(module, "__file__", None)
        if filename is None:
            return PackagingErrorReason.NO_DUNDER_FILE
        if filename.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES)):
            return PackagingErrorReason.IS_EXTENSION_MODULE
        lines = linecache.getlines(filename, module.__dict__)
        return ("".join(lines), is_package) if lines else PackagingErrorReason.SOURCE_FILE_NOT_FOUND

    def _follow_source(self, module_name, src, is_package):
        package = module_name if is_package else module_name.rpartition(".")[0]
        try:
            needed = find_files_source_depends_on(src, package)
        except (SyntaxError, ValueError) as error:
            self.dependency_graph.add_node(
                module_name, error=PackagingErrorReason.DEPENDENCY_RESOLUTION_FAILED, context=str(error)
            )
            return
        for module, name in needed:
            # `from a import b`: b may be a module of a.
            inner = f"{module}.{name}"
            if name is not None and self._is_module(inner):
                self.add_dependency_edge(module_name, inner)
            if module:
                self.add_dependency_edge(module_name, module)

    def _is_module(self, name):
        if name in self.dependency_graph.nodes:
            return True
        if self._choose(name.rpartition(".")[0]) not in (None, _Action.INTERN):
            return False  # its package is not read: nothing is imported for a question
        try:
            self.importer.import_module(name)
        except Exception:  # importing a name that is no module fails in as many ways as there are packages
            return False
        return True

    def _register(self, action, hook):
        handle = RemovableHandle(self._hooks[action])
        self._hooks[action][handle.id] = hook
        return handle

    def _run_hooks(self, action, module_name):
        for hook in list(self._hooks[action].values()):
            hook(self, module_name)

    def _modules_with(self, action):
        return [
            name
            for name, node in self.dependency_graph.nodes.items()
            if node.get("action") is action and not node.get("is_pickle")
        ]


def _read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()
