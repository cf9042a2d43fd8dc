"""Makes `torch` and all its submodules resolve to this package, in this process and in the processes that it starts.

`install()` puts a finder on `sys.meta_path` and the module object itself into `sys.modules["torch"]`;
`torch.nn.functional` then *is* `tessera.nn.functional`. Children get there through the environment: PYTHONPATH gains
the folder `start`, whose `sitecustomize` runs when an interpreter starts. If that is the interpreter for which the
alias was installed (same version, same environment: TESSERA_ALIAS says which), it puts the folder `site` on
`sys.path`, whose tiny package `torch` calls `install()` when a program imports it, and whose `torch-*.dist-info`
answers `importlib.metadata.version("torch")`. In any other interpreter it takes itself off `sys.path`. A Python
program that does not import torch notices nothing; one that ignores PYTHONPATH or `site` (-E, -I, -S) has no alias.
"""

import importlib
import importlib.machinery
import importlib.util
import os
import sys

_OUTSIDE, _INSIDE = "torch", "tessera"
# Modules that look into sys.modules for the NumPy that `import torch` has brought (pytest's approx, of tensors). It is
# imported before them, and not for programs that have no use for it.
_WANT_NUMPY = {"pytest", "_pytest.python_api"}
SITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "site")


def _inside(name):
    return _INSIDE + name[len(_OUTSIDE) :]


class _AliasLoader:
    """Gives out the module of this package under its other name."""

    def __init__(self, real_name):
        self.real_name = real_name

    def create_module(self, spec):
        module = importlib.import_module(self.real_name)
        self.real_spec = module.__spec__
        return module

    def exec_module(self, module):
        module.__spec__ = self.real_spec  # the import system has just replaced it; the module is already initialised
        module.__name__ = _OUTSIDE + self.real_name[len(_INSIDE) :]  # what it was imported as
        if not hasattr(module, "__path__") or self.real_name == _INSIDE + "._C":
            # Modules that an extension module makes have no finder: who imports the outer one (pickle, for functions of
            # theirs) gets them, too.
            inside = self.real_name + "."
            sys.modules.update(
                (_OUTSIDE + name[len(_INSIDE) :], found)
                for name, found in list(sys.modules.items())
                if name.startswith(inside)
            )

    def _real(self):
        spec = importlib.util.find_spec(self.real_name)
        if spec is None:
            raise ImportError(f"no module named {self.real_name!r}")
        return spec

    # What runpy, inspect and linecache ask for.
    def get_code(self, fullname):
        return self._real().loader.get_code(self.real_name)

    def get_source(self, fullname):
        return self._real().loader.get_source(self.real_name)

    def get_filename(self, fullname):
        return self._real().origin

    def is_package(self, fullname):
        return self._real().submodule_search_locations is not None


class _AliasFinder:
    @staticmethod
    def find_spec(fullname, path=None, target=None):
        if fullname != _OUTSIDE and not fullname.startswith(_OUTSIDE + "."):
            if fullname in _WANT_NUMPY:
                _bring_numpy()
            return None
        real_name = _inside(fullname)
        try:
            real = importlib.util.find_spec(real_name)
        except ModuleNotFoundError:
            return None
        except ValueError:  # a module without a spec
            real = None
        if real is None:
            return None
        spec = importlib.machinery.ModuleSpec(
            fullname,
            _AliasLoader(real_name),
            origin=real.origin,
            is_package=real.submodule_search_locations is not None,
        )
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.extend(real.submodule_search_locations)
        spec.has_location = real.has_location
        return spec


def _bring_numpy():
    if importlib.util.find_spec("numpy") is not None:
        importlib.import_module("numpy")


def installed():
    """True if `torch` means this package here."""
    return _AliasFinder in sys.meta_path


def install():
    """Installs the alias in this process and, through the environment, in its children. Returns the package. May be
    called again.
    """
    package = importlib.import_module(_INSIDE)
    if not installed():
        sys.meta_path.insert(0, _AliasFinder)
        if _WANT_NUMPY & sys.modules.keys():
            _bring_numpy()
        _become_torch(package)
        _extend_environment()
    sys.modules[_OUTSIDE] = package
    return package


def _become_torch(package):
    from tessera import version
    from tessera.torch_version import TorchVersion

    package._display_name = package.__name__ = _OUTSIDE
    set_name = getattr(package._C, "_set_module_name", None)
    if set_name is not None:
        set_name(_OUTSIDE)
    for cls in (package.Tensor, package.UntypedStorage):
        cls.__module__ = cls.__module__.replace(_INSIDE, _OUTSIDE, 1)
    version.__version__ = version.api_version
    package.__version__ = TorchVersion(version.api_version)


def _extend_environment():
    from tessera._alias.start import sitecustomize

    if SITE not in sys.path:
        # Behind the program's own folder, before installed packages: importlib.metadata takes the first distribution.
        sys.path.insert(min(1, len(sys.path)), SITE)
    paths = os.environ.get("PYTHONPATH")  # kept as it is: an empty entry has a meaning
    if sitecustomize.HERE not in (paths or "").split(os.pathsep):
        os.environ["PYTHONPATH"] = sitecustomize.HERE + (os.pathsep + paths if paths else "")
    os.environ[sitecustomize.VARIABLE] = sitecustomize.mark()
