"""Devices of other workers."""

import tessera


class _remote_device:
    """A device of a worker: "worker1/cuda:0", "rank:1/cuda:0", "worker1" (its CPU), or a device of this process.

    Args:
        remote_device: the text, or a device.

    Raises: ValueError for another text.
    """

    def __init__(self, remote_device):
        self._worker, self._rank = None, None
        self._device = remote_device
        if isinstance(remote_device, tessera.device):
            return
        if not isinstance(remote_device, str):
            raise TypeError(f"a remote device is a text or a device, but got {type(remote_device).__name__}")
        name, slash, device = remote_device.partition("/")
        if not slash and self._is_device(name):
            self._device = tessera.device(name)
            return
        if not name or (slash and (not device or "/" in device)):
            raise ValueError(f"a remote device is WORKER/DEVICE or rank:N/DEVICE, but got '{remote_device}'")
        if name.startswith("rank:"):
            if not name[5:].isdigit():
                raise ValueError(f"'{remote_device}' names no rank")
            self._rank = int(name[5:])
        else:
            self._worker = name
        self._device = tessera.device(device or "cpu")

    @staticmethod
    def _is_device(text):
        try:
            tessera.device(text)
            return True
        except RuntimeError:
            return False

    def worker_name(self):
        """The name of the worker, or None."""
        return self._worker

    def rank(self):
        """The rank of the worker, or None."""
        return self._rank

    def device(self):
        """Its device."""
        return self._device

    def __repr__(self):
        if self._worker is not None:
            return f"{self._worker}/{self._device}"
        return str(self._device) if self._rank is None else f"rank:{self._rank}/{self._device}"

    def __eq__(self, other):
        return isinstance(other, _remote_device) and repr(self) == repr(other)

    def __hash__(self):
        return hash(repr(self))
