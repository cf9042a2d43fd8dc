"""Finds and loads the CUDA library, an extension module of its own beside `_C`.

It is loaded when a tensor is first wanted on a CUDA device, or when something is asked of one. TESSERA_CUDA_LIBRARY names another file, such as a build for the emulated device;
`none` leaves CUDA out.
"""

import glob
import importlib.machinery
import importlib.util
import os
import sys

_module = None
_tried = False


def _path():
    given = os.environ.get("TESSERA_CUDA_LIBRARY")
    if given:
        return None if given == "none" else given
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        path = os.path.join(folder, "_cuda" + suffix)
        if os.path.exists(path):
            return path
    return None


def library_folders():
    """Folders in which NVIDIA's pip packages keep their libraries."""
    found = []
    for entry in sys.path:
        found += glob.glob(os.path.join(entry or ".", "nvidia", "*", "lib"))
    return found


def load():
    """The module `tessera._cuda`, or None where this package has none or the system has no CUDA device."""
    global _module, _tried
    if _tried:
        return _module
    _tried = True
    path = _path()
    if path is None:
        return None
    loader = importlib.machinery.ExtensionFileLoader("tessera._cuda", path)
    spec = importlib.util.spec_from_file_location("tessera._cuda", path, loader=loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    from tessera import _C
    if module._connect(_C._device_api, library_folders()):
        sys.modules["tessera._cuda"] = module
        _module = module
    return _module
