"""Small public helpers of tessera.serialization."""

import contextlib
import tempfile
import warnings

import tessera

__all__ = ["StorageType", "check_module_version_greater_or_equal", "mkdtemp", "validate_hpu_device"]


class StorageType:
    """A legacy storage class by its name, such as "FloatStorage".

    Raises: ValueError for a name that is none.
    """

    def __init__(self, name):
        from tessera.storage import _KINDS

        kind = name[: -len("Storage")] if name.endswith("Storage") else None
        self._dtype = getattr(tessera, _KINDS.get(kind, ""), None)
        if self._dtype is None:
            raise ValueError(f"{name!r} is not the name of a storage class, such as 'FloatStorage'")

    @property
    def dtype(self):
        """The dtype of its elements."""
        return self._dtype

    def __str__(self):
        return f"StorageType(dtype={self.dtype})"

    __repr__ = __str__


def _aliases():
    """Types of arguments of save and load, for annotations."""
    import os
    from collections.abc import Callable
    from typing import IO

    place = tessera.device | str
    restore = Callable[[tessera.UntypedStorage, str], tessera.UntypedStorage | None]
    files = str | os.PathLike[str] | IO[bytes]
    return {"MAP_LOCATION": restore | place | dict[str, str] | None, "FileLike": files, "FILE_LIKE": files}


def __getattr__(name):
    if name in ("MAP_LOCATION", "FileLike", "FILE_LIKE"):
        return _aliases()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def mkdtemp():
    """A context whose value is the path of a new folder, which is removed with all that is in it at the end."""
    return tempfile.TemporaryDirectory(prefix="tessera-")


def check_module_version_greater_or_equal(module, req_version_tuple, error_if_malformed=True):
    """Whether `module.__version__` is at least a version.

    Args:
        module: with a `__version__` such as "1.2.3".
        req_version_tuple: the version's parts, ints or strings; as many are compared.
        error_if_malformed: False warns, and takes the version as new enough, where an error would be raised.

    Raises: RuntimeError if the version has fewer parts, or other ones than numbers where numbers are asked for.
    """
    found = module.__version__
    with contextlib.suppress(ValueError, IndexError):
        parts = found.split(".")
        return tuple(type(want)(parts[i]) for i, want in enumerate(req_version_tuple)) >= tuple(req_version_tuple)
    text = f"the version {found!r} of {module.__name__!r} can't be compared with {tuple(req_version_tuple)}"
    if error_if_malformed:
        raise RuntimeError(text)
    warnings.warn(f"{text}: it is taken as new enough", stacklevel=2)
    return True


def validate_hpu_device(location):
    """The index in "hpu:1". Raises: RuntimeError, for there are no such devices."""
    raise RuntimeError(
        f"a checkpoint has data for the device {str(location)!r}, which is not there: give "
        "torch.load(map_location='cpu') to load it into the CPU's memory"
    )
