"""What an extension is compiled and linked with: compilers, their flags, and where headers and libraries lie."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import warnings

IS_WINDOWS, IS_MACOS, IS_LINUX = sys.platform == "win32", sys.platform == "darwin", sys.platform.startswith("linux")
LIB_EXT, CLIB_EXT, EXEC_EXT, CLIB_PREFIX, SHARED_FLAG = ".so", ".so", "", "lib", "-shared"
SUBPROCESS_DECODE_ARGS = ()
MINIMUM_GCC_VERSION = (10, 0, 0)
_TORCH_PATH = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TORCH_LIB_PATH = os.path.join(_TORCH_PATH, "lib")
# AMD's and Intel's toolchains are not among those that this package has engines for.
ROCM_HOME = ROCM_VERSION = HIP_HOME = HIP_VERSION = SYCL_HOME = None
IS_HIP_EXTENSION = False
COMMON_HIP_FLAGS, COMMON_HIPCC_FLAGS = ["-D__HIP_PLATFORM_AMD__=1", "-DUSE_ROCM=1"], ["-DCUDA_HAS_FP16=1"]
# Operators and conversions of half types are those of the tensor library's own types.
COMMON_NVCC_FLAGS = [
    "-D__CUDA_NO_HALF_OPERATORS__",
    "-D__CUDA_NO_HALF_CONVERSIONS__",
    "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-D__CUDA_NO_HALF2_OPERATORS__",
    "--expt-relaxed-constexpr",
]
# What the headers are written in.
STANDARD = "-std=c++20"
_NEWER_STANDARD = re.compile(r"[-/]{1,2}std[=:](c|gnu)\+\+(2[0-9abc])$")
# The generations of devices that can be named in TORCH_CUDA_ARCH_LIST.
_GENERATIONS = {
    "Maxwell": "5.0;5.2+PTX",
    "Pascal": "6.0;6.1+PTX",
    "Volta": "7.0+PTX",
    "Turing": "7.5+PTX",
    "Ampere": "8.0;8.6+PTX",
    "Ada": "8.9+PTX",
    "Hopper": "9.0+PTX",
    "Blackwell": "10.0;12.0+PTX",
}
_DEFAULT_DEVICES = "7.5;8.0;8.6;9.0+PTX"


def _find_cuda_home():
    """The folder of the CUDA toolkit: CUDA_HOME, CUDA_PATH, that of the nvcc on PATH, or /usr/local/cuda; or None."""
    named = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    if named:
        return named
    nvcc = shutil.which("nvcc")
    if nvcc is not None:
        return os.path.dirname(os.path.dirname(os.path.realpath(nvcc)))
    return "/usr/local/cuda" if os.path.exists("/usr/local/cuda/bin/nvcc") else None


CUDA_HOME = _find_cuda_home()
CUDNN_HOME = os.environ.get("CUDNN_HOME") or os.environ.get("CUDNN_PATH")


def _join_cuda_home(*parts):
    """A path in the CUDA toolkit. Raises: OSError where there is none."""
    if CUDA_HOME is None:
        raise OSError("no CUDA toolkit was found: set the environment variable CUDA_HOME to its folder")
    return os.path.join(CUDA_HOME, *parts)


def _is_cuda_file(path):
    """Whether nvcc compiles that source."""
    return os.path.splitext(path)[1] in (".cu", ".cuh")


def get_cxx_compiler():
    """The C++ compiler's command: the environment variable CXX, or "c++"."""
    return os.environ.get("CXX", "c++")


def _answer(command):
    """What a program prints, or None if it cannot be run."""
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True, errors="replace").stdout
    except (OSError, subprocess.CalledProcessError):
        return None


def check_compiler_is_gcc(compiler):
    """Whether that command runs GCC's C++ compiler."""
    macros = _answer([*compiler.split(), "-dM", "-E", "-x", "c++", os.devnull])
    return macros is not None and "#define __GNUC__ " in macros and "__clang__" not in macros


def check_compiler_ok_for_platform(compiler):
    """Whether what that C++ compiler makes fits this package, which GCC compiled."""
    return check_compiler_is_gcc(compiler)


def get_compiler_abi_compatibility_and_version(compiler):
    """A pair: whether extensions can be built with that C++ compiler, and its version as a string ("0.0.0": unknown).

    Warns where they cannot.
    """
    version = _answer([*compiler.split(), "-dumpfullversion", "-dumpversion"])
    found = re.match(r"(\d+)(?:\.(\d+))?(?:\.(\d+))?", version or "")
    numbers = tuple(int(n or 0) for n in found.groups()) if found else (0, 0, 0)
    text = ".".join(map(str, numbers))
    if os.environ.get("TORCH_DONT_CHECK_COMPILER_ABI", "").upper() in ("ON", "1", "YES", "TRUE", "Y"):
        return True, text
    if not check_compiler_ok_for_platform(compiler):
        warnings.warn(
            f"extensions are compiled with g++, and {compiler} is another compiler, or none: set CXX to a g++",
            stacklevel=2,
        )
        return False, text
    if numbers < MINIMUM_GCC_VERSION:
        wanted = ".".join(map(str, MINIMUM_GCC_VERSION))
        warnings.warn(f"extensions need g++ {wanted} or later, {compiler} is {text}", stacklevel=2)
        return False, text
    return True, text


def include_paths(device_type="cpu", torch_include_dirs=True):
    """The folders of headers that an extension is compiled with.

    Args:
        device_type: "cpu", or "cuda" for the toolkit's, too.
        torch_include_dirs: False leaves this package's own out.
    """
    _check_device_type(device_type)
    folders = [os.path.join(_TORCH_PATH, "include")] if torch_include_dirs else []
    if device_type == "cuda":
        folders += [_join_cuda_home("include")] + ([os.path.join(CUDNN_HOME, "include")] if CUDNN_HOME else [])
    return folders


def library_paths(device_type="cpu", torch_include_dirs=True, cross_target_platform=None):
    """The folders of libraries that an extension is linked with.

    Args:
        device_type: "cpu", or "cuda" for the toolkit's, too.
        torch_include_dirs: False leaves this package's own out.
        cross_target_platform: must be None; other platforms than this one cannot be built for.
    """
    _check_device_type(device_type)
    if cross_target_platform is not None:
        raise ValueError(f"libraries are those of this platform, not of {cross_target_platform!r}")
    folders = [TORCH_LIB_PATH] if torch_include_dirs else []
    if device_type == "cuda":
        folders += [_join_cuda_home("lib64")] + ([os.path.join(CUDNN_HOME, "lib64")] if CUDNN_HOME else [])
    return folders


def _check_device_type(device_type):
    if device_type not in ("cpu", "cuda"):
        raise ValueError(f"extensions are built for 'cpu' or 'cuda', not for {device_type!r}")


def pybind11_folders():
    """The folder of pybind11's headers in a list, which is empty where the package is not installed."""
    from importlib.util import find_spec

    spec = find_spec("pybind11")
    places = [] if spec is None or spec.origin is None else [os.path.join(os.path.dirname(spec.origin), "include")]
    return [place for place in places if os.path.isdir(place)][:1]


def python_folders():
    """The folders of Python's own headers."""
    return list(dict.fromkeys(filter(None, (sysconfig.get_path(name) for name in ("include", "platinclude")))))


def standard_flags(given):
    """The flag for the language version of the headers, in a list; empty if the given flags name a newer one."""
    return [] if any(_NEWER_STANDARD.match(flag) and not flag.endswith("20") for flag in given) else [STANDARD]


def link_flags(compiled_with, given):
    """The linker's flags: those given, and `-fopenmp` where the sources were compiled with it, since they need its
    library.
    """
    needed = "-fopenmp" in compiled_with and "-fopenmp" not in given
    return [*given, "-fopenmp"] if needed else list(given)


def _get_cuda_arch_flags(cflags=None):
    """nvcc's flags for the devices to compile for: those that the given flags name already (none are added), those of
    TORCH_CUDA_ARCH_LIST ("8.0;9.0+PTX", "Ampere"), or those in this machine.

    Raises: ValueError for a list that cannot be read.
    """
    if any("arch" in flag for flag in cflags or ()):
        return []
    wanted = os.environ.get("TORCH_CUDA_ARCH_LIST") or _visible_devices() or _DEFAULT_DEVICES
    flags = []
    for item in re.split(r"[\s;,]+", wanted.strip()):
        for one in _GENERATIONS.get(item, item).split(";"):
            found = re.fullmatch(r"(\d+)\.(\d[af]?)(\+PTX)?", one)
            if found is None:
                raise ValueError(f"TORCH_CUDA_ARCH_LIST is a list such as '8.0;9.0+PTX'; {item!r} is no device in it")
            number = found[1] + found[2]
            flags.append(f"-gencode=arch=compute_{number},code=sm_{number}")
            if found[3]:
                flags.append(f"-gencode=arch=compute_{number},code=compute_{number}")
    return sorted(set(flags))


def _visible_devices():
    from tessera import cuda

    return ";".join(sorted({"%d.%d" % cuda.get_device_capability(i) for i in range(cuda.device_count())}))
