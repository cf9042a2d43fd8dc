"""Extensions that are compiled when a program asks for them."""

import contextlib
import fcntl
import hashlib
import os
import shlex
import sys

from tessera.utils.cpp_extension import _build, _toolchain

# What was loaded under a name in this process: the fingerprint, and how often it has changed.
_loaded = {}


def get_default_build_root():
    """The folder below which `load` builds, unless TORCH_EXTENSIONS_DIR names another."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.realpath(os.path.join(cache, "torch_extensions"))


def _get_build_directory(name, verbose):
    """The folder in which the extension of that name is built; it is created."""
    root = os.environ.get("TORCH_EXTENSIONS_DIR")
    if root is None:
        version = "py%d%d%s" % (*sys.version_info[:2], getattr(sys, "abiflags", ""))
        root = os.path.join(get_default_build_root(), version + "_tessera")
    folder = os.path.join(root, name)
    if not os.path.isdir(folder):
        if verbose:
            print(f"Creating extension directory {folder}...", file=sys.stderr)
        os.makedirs(folder, exist_ok=True)
    return folder


def load(
    name,
    sources: str | list[str],
    extra_cflags=None,
    extra_cuda_cflags=None,
    extra_sycl_cflags=None,
    extra_ldflags=None,
    extra_include_paths=None,
    build_directory=None,
    verbose=False,
    with_cuda: bool | None = None,
    with_sycl: bool | None = None,
    is_python_module=True,
    is_standalone=False,
    keep_intermediates=True,
):
    """Compiles sources into an extension and loads it.

    What was built before is used again as long as sources, headers and flags are the same; in a process that has
    loaded another version already, the new one gets a name of its own. Several processes may ask for the same one.

    Args:
        name: of the module, the value of the macro TORCH_EXTENSION_NAME.
        sources: a path or a list of them: C++, or CUDA (.cu).
        extra_cflags: more flags of the C++ compiler.
        extra_cuda_cflags: more flags of nvcc.
        extra_sycl_cflags: must be empty.
        extra_ldflags: more flags of the linker.
        extra_include_paths: more folders of headers.
        build_directory: where to build; default: a folder of that name below TORCH_EXTENSIONS_DIR.
        verbose: shows what is done.
        with_cuda: whether CUDA's headers and libraries are used; None: if there is a CUDA source.
        with_sycl: must not be True.
        is_python_module: whether the result is imported as a Python module. If not, it is loaded as a library, for the
            operators that it registers.
        is_standalone: builds a program instead.
        keep_intermediates: False deletes object files once the extension is loaded.

    Returns the module, the path of the program, or None for a library.

    Raises: RuntimeError with the compiler's output where it fails.
    """
    paths = [os.path.abspath(source) for source in ([sources] if isinstance(sources, (str, os.PathLike)) else sources)]
    _refuse_sycl(with_sycl, extra_sycl_cflags, paths)
    if with_cuda is None:
        with_cuda = any(map(_toolchain._is_cuda_file, paths))
    folder = os.path.abspath(build_directory or _get_build_directory(name, verbose))
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"build_directory {folder!r} does not exist: create it first")
    flags = [list(_words(given)) for given in (extra_cflags, extra_cuda_cflags, extra_ldflags)]
    include = [os.path.abspath(path) for path in _words(extra_include_paths)]
    print_fingerprint = _fingerprint(paths, flags, include, folder, with_cuda, is_python_module, is_standalone)
    known, version = _loaded.get(name, (print_fingerprint, 0))
    if known != print_fingerprint:
        version += 1
    module_name = f"{name}_v{version}" if version else name
    target = os.path.join(folder, module_name + (_toolchain.EXEC_EXT if is_standalone else _toolchain.LIB_EXT))
    with _locked(folder):
        if verbose:
            print(f"Building extension module {module_name} in {folder}...", file=sys.stderr)
        steps = _steps(module_name, paths, flags, include, folder, target, with_cuda, is_standalone)
        _build.run(steps, folder, module_name, verbose)
        if not keep_intermediates:
            for step in steps[:-1]:
                os.remove(step.output)
    _loaded[name] = print_fingerprint, version
    if is_standalone:
        return target
    if verbose:
        print(f"Loading extension module {module_name}...", file=sys.stderr)
    module = _import_module_from_library(module_name, folder, is_python_module)
    return module if is_python_module else None


def load_inline(
    name,
    cpp_sources,
    cuda_sources=None,
    sycl_sources=None,
    functions=None,
    extra_cflags=None,
    extra_cuda_cflags=None,
    extra_sycl_cflags=None,
    extra_ldflags=None,
    extra_include_paths=None,
    build_directory=None,
    verbose=False,
    with_cuda=None,
    with_sycl=None,
    is_python_module=True,
    with_pytorch_error_handling=True,
    keep_intermediates=True,
    use_pch=False,
    no_implicit_headers=False,
):
    """`load` of sources that are strings.

    Args:
        name: of the module.
        cpp_sources: a string or a list of them: C++ code, `#include <torch/extension.h>` stands before it.
        cuda_sources: the same for CUDA, after the headers of types and of the toolkit.
        sycl_sources: must be empty.
        functions: names of functions of cpp_sources to be called from Python: a name, a list of them, or a dict from
            names to docstrings. Without it the code binds itself.
        with_pytorch_error_handling: errors are raised as those of operators are.
        use_pch: has no effect; compilers are given whole sources.
        no_implicit_headers: nothing is put before the sources.

    The other arguments are those of `load`.
    """
    folder = build_directory or _get_build_directory(name, verbose)
    code, cuda_code = _strings(cpp_sources), _strings(cuda_sources)
    _refuse_sycl(with_sycl, _strings(sycl_sources) or extra_sycl_cflags, ())
    if not no_implicit_headers:
        code.insert(0, "#include <torch/extension.h>")
        if cuda_code:
            cuda_code[:0] = ["#include <torch/types.h>", "#include <cuda.h>", "#include <cuda_runtime.h>"]
    if functions is not None:
        code.append(_bindings(functions, with_pytorch_error_handling))
    files = []
    for file, parts in (("main.cpp", code), ("cuda.cu", cuda_code)):
        if parts:
            files.append(os.path.join(folder, file))
            with _locked(folder):
                _build.write_if_changed(files[-1], "\n".join([*parts, ""]))
    return load(
        name,
        files,
        extra_cflags,
        extra_cuda_cflags,
        None,
        extra_ldflags,
        extra_include_paths,
        folder,
        verbose,
        with_cuda,
        with_sycl,
        is_python_module,
        is_standalone=False,
        keep_intermediates=keep_intermediates,
    )


def remove_extension_h_precompiler_headers():
    """Does nothing: no precompiled headers are kept."""


def _bindings(functions, with_error_handling):
    """The C++ code that makes functions a module."""
    if isinstance(functions, str):
        functions = [functions]
    if not isinstance(functions, dict):
        functions = {function: function for function in functions}
    lines = ["PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {"]
    for function, text in functions.items():
        what = f"torch::wrap_pybind_function({function})" if with_error_handling else function
        quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        lines.append(f'  m.def("{function}", {what}, "{quoted}");')
    return "\n".join([*lines, "}"])


def _strings(sources):
    if sources is None:
        return []
    return [sources] if isinstance(sources, str) else list(sources)


def _words(given):
    return _strings(given)


def _refuse_sycl(with_sycl, given, sources):
    if with_sycl or given or any(source.endswith(".sycl") for source in sources):
        raise RuntimeError("SYCL sources cannot be compiled: this package has no engines for such devices")


@contextlib.contextmanager
def _locked(folder):
    """One process at a time; the lock of one that dies is gone with it."""
    with open(os.path.join(folder, "lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fingerprint(paths, flags, include, folder, *kind):
    """Tells versions of an extension apart: the sources' bytes and what the build was asked for."""
    digest = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            digest.update(hashlib.sha256(file.read()).digest())
    digest.update(repr((paths, flags, include, folder, kind, os.environ.get("CXX"))).encode())
    return digest.hexdigest()


def _steps(name, paths, flags, include, folder, target, with_cuda, is_standalone):
    """The steps that make an extension: one for each source, and the linker's."""
    cflags, cuda_cflags, ldflags = flags
    defines = [f"-DTORCH_EXTENSION_NAME={name}", "-DTORCH_API_INCLUDE_EXTENSION_H"]
    system = _toolchain.include_paths("cuda" if with_cuda else "cpu") + _toolchain.python_folders()
    system += _toolchain.pybind11_folders()
    folders = [f"-I{path}" for path in include] + [word for path in system for word in ("-isystem", path)]
    compiler = shlex.split(_toolchain.get_cxx_compiler())
    steps = []
    for path in paths:
        cuda = _toolchain._is_cuda_file(path)
        output = os.path.join(folder, _object_name(path, paths, cuda))
        common = ["-MD", "-MF", output + ".d", *defines, *folders]
        if cuda:
            given = [*_toolchain.COMMON_NVCC_FLAGS, *_toolchain._get_cuda_arch_flags(cuda_cflags), *cuda_cflags]
            command = [_toolchain._join_cuda_home("bin", "nvcc"), *common, *given]
            command += ["--compiler-options", "-fPIC", *_toolchain.standard_flags(cuda_cflags)]
        else:
            command = [*compiler, *common, "-fPIC", *cflags, *_toolchain.standard_flags(cflags)]
        steps.append(_build.Step(output, [path], [*command, "-c", path, "-o", output], output + ".d"))
    objects = [step.output for step in steps]
    link = [*compiler, *objects] + ([] if is_standalone else [_toolchain.SHARED_FLAG])
    link += _toolchain.link_flags(cflags, ldflags)
    for path in _toolchain.library_paths("cuda" if with_cuda else "cpu"):
        link += ["-L" + path, "-Wl,-rpath," + path]
    link += ["-ltessera"] + (["-lcudart"] if with_cuda else [])
    steps.append(_build.Step(target, objects, [*link, "-o", target], implicit=[_library_file()]))
    return steps


def _object_name(path, paths, cuda):
    """The name of a source's object file, different for sources of one name in different folders."""
    stem, ending = os.path.splitext(os.path.basename(path))
    name = stem + (".cuda" if cuda else "")
    same = [other for other in paths if os.path.splitext(os.path.basename(other))[0] == stem and other != path]
    if any(_toolchain._is_cuda_file(other) == cuda for other in same):
        name += "-" + hashlib.sha256(path.encode()).hexdigest()[:8]
    return name + ".o"


def _library_file():
    from tessera import _C

    return _C.__file__


def _import_module_from_library(module_name, path, is_python_module):
    """Loads the shared object of that name in the folder `path`: as a module, which is returned, or as a library."""
    file = os.path.join(path, module_name + _toolchain.LIB_EXT)
    if not is_python_module:
        from tessera import ops

        ops.load_library(file)
        return file
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(module_name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no extension module")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
