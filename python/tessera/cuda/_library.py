"""Finds and loads the CUDA library, an extension module of its own beside `_C`.

It is loaded when a tensor is first wanted on a CUDA device, or when something is asked of one. TESSERA_CUDA_LIBRARY
names another file, such as a build for the emulated device;
`none` leaves CUDA out.
"""

import glob
import importlib.machinery
import importlib.util
import os
import sys
import warnings

_module = None
_tried = False
problem = None  # why the system's devices cannot be used, once that is known


def path():
    """The file of the library; None where this package has none."""
    given = os.environ.get("TESSERA_CUDA_LIBRARY")
    if given:
        return None if given == "none" else given
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        file = os.path.join(folder, "_cuda" + suffix)
        if os.path.exists(file):
            return file
    return None


def library_folders():
    """Folders in which NVIDIA's pip packages keep their libraries."""
    found = []
    for entry in sys.path:
        found += glob.glob(os.path.join(entry or ".", "nvidia", "*", "lib"))
    return found


def load():
    """The module `tessera._cuda`, or None where this package has none or the system has no CUDA device. Warns, once, if
    there are devices that cannot be used.
    """
    global _module, _tried, problem
    if _tried:
        return _module
    _tried = True
    file = path()
    if file is None:
        return None
    loader = importlib.machinery.ExtensionFileLoader("tessera._cuda", file)
    spec = importlib.util.spec_from_file_location("tessera._cuda", file, loader=loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    from tessera import _C

    connected = module._connect(_C._device_api, library_folders())
    if isinstance(connected, str):
        problem = connected
        warnings.warn(problem, stacklevel=3)
    elif connected:
        sys.modules["tessera._cuda"] = module
        _module = module
        apply_settings()
    return _module


def apply_settings():
    """Tells the library, once it is loaded, what `backends.cuda` and `backends.cudnn` are set to."""
    if _module is None:
        return
    import tessera

    cuda, cudnn = tessera.backends.cuda, tessera.backends.cudnn
    matmul = cuda.matmul
    _module.set_blas(
        matmul.fp32_precision == "tf32",
        matmul.allow_fp16_reduced_precision_reduction,
        matmul.allow_bf16_reduced_precision_reduction,
    )
    _module.set_linalg_library(int(cuda.preferred_linalg_library()))
    _module.set_dnn(
        cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn._uses_tf32(), max(cudnn.benchmark_limit, 0)
    )
