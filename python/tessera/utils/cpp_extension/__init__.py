"""C++ extensions: compiled against the headers of this package and linked with it, at run time or by setuptools.

`load` and `load_inline` compile sources when they are called and import the result; `CppExtension` with
`BuildExtension` do the same in a `setup.py`. Sources include `<torch/extension.h>`, for which the package pybind11 has
to be installed, and need a compiler of C++20 (g++ 10 or later).

The environment: `CXX` names the compiler, `MAX_JOBS` how many of it run at a time, `TORCH_EXTENSIONS_DIR` the folder in
which `load` builds, `CUDA_HOME` a CUDA toolkit, `TORCH_CUDA_ARCH_LIST` what nvcc compiles for.
"""

from tessera._lazy import attach as _attach

__all__ = [
    "BuildExtension",
    "CUDAExtension",
    "CppExtension",
    "SyclExtension",
    "check_compiler_is_gcc",
    "check_compiler_ok_for_platform",
    "get_compiler_abi_compatibility_and_version",
    "get_cxx_compiler",
    "get_default_build_root",
    "include_paths",
    "is_ninja_available",
    "library_paths",
    "load",
    "load_inline",
    "remove_extension_h_precompiler_headers",
    "verify_ninja_availability",
]

_PLACES = {
    "_toolchain": """CLIB_EXT CLIB_PREFIX COMMON_HIPCC_FLAGS COMMON_HIP_FLAGS COMMON_NVCC_FLAGS CUDA_HOME CUDNN_HOME
        EXEC_EXT HIP_HOME HIP_VERSION IS_HIP_EXTENSION IS_LINUX IS_MACOS IS_WINDOWS LIB_EXT MINIMUM_GCC_VERSION
        ROCM_HOME ROCM_VERSION SHARED_FLAG SUBPROCESS_DECODE_ARGS SYCL_HOME TORCH_LIB_PATH _TORCH_PATH
        _find_cuda_home _get_cuda_arch_flags _is_cuda_file _join_cuda_home check_compiler_is_gcc
        check_compiler_ok_for_platform get_compiler_abi_compatibility_and_version get_cxx_compiler include_paths
        library_paths""",
    "_build": "_get_num_workers is_ninja_available verify_ninja_availability",
    "_jit": """_get_build_directory _import_module_from_library get_default_build_root load load_inline
        remove_extension_h_precompiler_headers""",
    "_setuptools": "BuildExtension CUDAExtension CppExtension SyclExtension",
}

__getattr__, __dir__ = _attach(__name__, {name: place for place, names in _PLACES.items() for name in names.split()})
