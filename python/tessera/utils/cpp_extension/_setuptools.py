"""Extensions that setuptools builds."""

import os
import shlex

import setuptools
from setuptools.command.build_ext import build_ext

from tessera.utils.cpp_extension import _build, _toolchain


def CppExtension(name, sources, *args, **kwargs):
    """A `setuptools.Extension` of C++ sources, compiled and linked against this package.

    Args:
        name: of the module, dotted as for setuptools.
        sources: paths, relative to setup.py.
        args: the other arguments of `setuptools.Extension`.
        kwargs: the same by name. `extra_compile_args` may be a dict with the keys "cxx" and "nvcc".
    """
    return _extension(name, sources, args, kwargs, "cpu", [])


def CUDAExtension(name, sources, *args, **kwargs):
    """`CppExtension` with CUDA sources (.cu), which nvcc compiles, and CUDA's headers and libraries.

    Args:
        name: of the module, dotted as for setuptools.
        sources: paths, relative to setup.py.
        args: the other arguments of `setuptools.Extension`.
        kwargs: the same by name. `extra_compile_args` may be a dict with the keys "cxx" and "nvcc".

    Raises: OSError where no CUDA toolkit is found.
    """
    return _extension(name, sources, args, kwargs, "cuda", ["cudart"])


def SyclExtension(name, sources, *args, **kwargs):
    """Raises: RuntimeError; SYCL devices have no engines here.

    Args:
        name: of the module.
        sources: paths.
        args: more arguments of `setuptools.Extension`.
        kwargs: the same by name.
    """
    raise RuntimeError(
        f"extension {name!r} ({len(sources)} sources, {len(args) + len(kwargs)} options) is for SYCL devices, which "
        "have no engines here: use CppExtension"
    )


def _extension(name, sources, args, kwargs, device_type, libraries):
    kwargs["include_dirs"] = [*kwargs.get("include_dirs", []), *_toolchain.include_paths(device_type)]
    kwargs["library_dirs"] = [*kwargs.get("library_dirs", []), *_toolchain.library_paths(device_type)]
    own = ["c10", "torch", "torch_cpu"] + ([] if kwargs.get("py_limited_api") else ["torch_python"])
    kwargs["libraries"] = [*kwargs.get("libraries", []), *own, *libraries]
    kwargs["language"] = "c++"
    return setuptools.Extension(name, sources, *args, **kwargs)


class BuildExtension(build_ext):
    """The command `build_ext` for extensions of this package: the flags of its headers, mixed C++ and CUDA sources, as
    many compilers at a time as MAX_JOBS says, and nothing compiled again that is up to date.

    In setup.py: `cmdclass={"build_ext": BuildExtension}`, or `BuildExtension.with_options(...)`.

    Args:
        args: those of the command.
        kwargs: `use_ninja` (True) builds by ninja where it is installed; `no_python_abi_suffix` (False) leaves the
            interpreter's version out of the names of files.
    """

    @classmethod
    def with_options(cls, **options):
        """The command with options set."""

        class CommandWithOptions(cls):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **{**kwargs, **options})

        return CommandWithOptions

    def __init__(self, *args, **kwargs):
        self.no_python_abi_suffix = kwargs.pop("no_python_abi_suffix", False)
        self.use_ninja = kwargs.pop("use_ninja", True) and _build.is_ninja_available()
        super().__init__(*args, **kwargs)

    def finalize_options(self):
        super().finalize_options()
        self.force = True  # what is out of date is found out below, from the headers as well

    def build_extensions(self):
        compatible, version = _toolchain.get_compiler_abi_compatibility_and_version(_toolchain.get_cxx_compiler())
        if not compatible and version == "0.0.0":
            raise RuntimeError(f"no C++ compiler: {_toolchain.get_cxx_compiler()!r} cannot be run, set CXX")
        self.compiler.src_extensions += [e for e in (".cu", ".cuh") if e not in self.compiler.src_extensions]
        self.compiler.compile = self._compile
        super().build_extensions()

    def build_extension(self, ext):
        self._building = ext
        flags = ext.extra_compile_args
        flags = flags.get("cxx", ()) if isinstance(flags, dict) else flags
        ext.extra_link_args = _toolchain.link_flags(flags or (), ext.extra_link_args or ())
        super().build_extension(ext)

    def get_ext_filename(self, ext_name):
        """The path of an extension's file, relative to the package's root."""
        path = super().get_ext_filename(ext_name)
        if not self.no_python_abi_suffix:
            return path
        folder, file = os.path.split(path)
        return os.path.join(folder, file.split(".")[0] + _toolchain.LIB_EXT)

    def _compile(
        self,
        sources,
        output_dir=None,
        macros=None,
        include_dirs=None,
        debug=0,
        extra_preargs=None,
        extra_postargs=None,
        depends=None,
    ):
        """What the compiler object of setuptools does for a list of sources, with its arguments and result."""
        folder = os.path.abspath(output_dir or ".")
        objects = [os.path.join(folder, path) for path in self.compiler.object_filenames(sources)]
        name = self._building.name.rpartition(".")[2]
        folders = [os.path.abspath(path) for path in [*(include_dirs or ()), *self.compiler.include_dirs]]
        own = [path for path in _toolchain.include_paths() if path in folders]
        system = own + _toolchain.pybind11_folders()
        common = [
            "-DTORCH_API_INCLUDE_EXTENSION_H",
            f"-DTORCH_EXTENSION_NAME={name}",
            *map(_macro, [*self.compiler.macros, *(macros or ())]),
            *(f"-I{path}" for path in folders if path not in system),
            *(word for path in system for word in ("-isystem", path)),
            *(["-g"] if debug else []),
        ]
        steps = []
        for source, output in zip(sources, objects, strict=True):
            path = os.path.abspath(source)
            command = self._command(path, [*(extra_preargs or ()), *common], extra_postargs or [])
            headers = output + ".d"
            command += ["-MD", "-MF", headers, "-c", path, "-o", output]
            steps.append(_build.Step(output, [path], command, headers, [os.path.abspath(d) for d in depends or ()]))
        _build.run(steps, folder, self._building.name, bool(self.verbose), self.use_ninja)
        return objects

    def _command(self, path, common, given):
        """The words before input and output. `given`: a list, or one for each compiler."""
        cuda = _toolchain._is_cuda_file(path)
        flags = list(given.get("nvcc" if cuda else "cxx", []) if isinstance(given, dict) else given)
        if cuda:
            command = [_toolchain._join_cuda_home("bin", "nvcc"), *common, *_toolchain.COMMON_NVCC_FLAGS]
            command += ["--compiler-options", "-fPIC", *flags, *_toolchain._get_cuda_arch_flags(flags)]
            return [*command, *_toolchain.standard_flags(flags)]
        usual = list(self.compiler.compiler_so)
        if path.endswith(".c"):
            return [*usual, *common, *flags]
        compiler = shlex.split(_toolchain.get_cxx_compiler())
        return [*compiler, *usual[1:], *common, *flags, *_toolchain.standard_flags(flags)]


def _macro(macro):
    """The flag for one of setuptools' macros: (name, value or None), or (name,) for one that is undefined."""
    if len(macro) == 1:
        return "-U" + macro[0]
    return "-D" + macro[0] + ("" if macro[1] is None else f"={macro[1]}")
