"""Files that devices read and write by themselves (GPUDirect Storage), which this build does not use."""

import tessera

__all__ = ["GdsFile", "gds_deregister_buffer", "gds_register_buffer"]


def _missing(what):
    tessera.cuda._lazy_init()
    return RuntimeError(f"{what} needs libcufile, which this build does not use; read into memory and copy from there")


def _check_storage(s):
    if not isinstance(s, tessera.UntypedStorage):
        raise TypeError(f"expected an UntypedStorage on a CUDA device, but got {type(s).__name__}")


def gds_register_buffer(s):
    """Makes a storage of a device known. Raises: TypeError for what is no storage, otherwise RuntimeError."""
    _check_storage(s)
    raise _missing("gds_register_buffer")


def gds_deregister_buffer(s):
    """Forgets a storage. Raises: TypeError for what is no storage, otherwise RuntimeError."""
    _check_storage(s)
    raise _missing("gds_deregister_buffer")


class GdsFile:
    """An open file that devices read and write by themselves.

    Args:
        filename: its path.
        flags: of os.open.

    Raises: RuntimeError: this build does not use GPUDirect Storage.
    """

    def __init__(self, filename, flags):
        raise _missing(f"GdsFile({filename!r}, {flags})")

    def register_handle(self):
        """Makes the file known. Raises: RuntimeError."""
        raise _missing("GdsFile.register_handle")

    def deregister_handle(self):
        """Forgets the file. Raises: RuntimeError."""
        raise _missing("GdsFile.deregister_handle")

    def load_storage(self, storage, offset=0):
        """Reads the file from `offset` on into a storage. Raises: RuntimeError."""
        _check_storage(storage)
        raise _missing(f"GdsFile.load_storage at {offset}")

    def save_storage(self, storage, offset=0):
        """Writes a storage into the file at `offset`. Raises: RuntimeError."""
        _check_storage(storage)
        raise _missing(f"GdsFile.save_storage at {offset}")
