"""How an agent of remote calls is set up."""

import tessera
from tessera.distributed.rpc import constants

__all__ = ["RpcBackendOptions", "TensorPipeRpcBackendOptions"]


class RpcBackendOptions:
    """What every agent takes.

    Args:
        rpc_timeout: seconds that a call may take; 0: without end.
        init_method: where the workers find each other, as for init_process_group.
    """

    def __init__(self, rpc_timeout=constants.DEFAULT_RPC_TIMEOUT_SEC, init_method=constants.DEFAULT_INIT_METHOD):
        if not isinstance(rpc_timeout, (int, float)):
            raise TypeError(f"incompatible constructor arguments: rpc_timeout is seconds, but got {rpc_timeout!r}")
        if rpc_timeout < 0:
            raise RuntimeError(f"RPC Timeout must be non-negative: 0 is without end, but got {rpc_timeout}")
        self.rpc_timeout, self.init_method = float(rpc_timeout), init_method


def _device(one):
    found = tessera.device("cuda", one) if isinstance(one, int) else tessera.device(one)
    if found.type != "cuda":
        raise ValueError(f"device maps are between CUDA devices, but got {found}")
    return found


class TensorPipeRpcBackendOptions(RpcBackendOptions):
    """What the agent takes.

    Args:
        num_worker_threads: threads that carry out what others call.
        rpc_timeout: seconds that a call may take; 0: without end.
        init_method: where the workers find each other, as for init_process_group.
        device_maps: for a worker's name the devices that tensors on this one's go to.
        devices: devices of this process.

    Raises: ValueError for what is no CUDA device; RuntimeError for less than one thread, and for a negative timeout.
    """

    def __init__(
        self,
        *,
        num_worker_threads=constants.DEFAULT_NUM_WORKER_THREADS,
        rpc_timeout=constants.DEFAULT_RPC_TIMEOUT_SEC,
        init_method=constants.DEFAULT_INIT_METHOD,
        device_maps=None,
        devices=None,
        _transports=None,
        _channels=None,
    ):
        super().__init__(rpc_timeout, init_method)
        if num_worker_threads < 1:
            raise RuntimeError(f"num_worker_threads must be positive: it is at least 1, but got {num_worker_threads}")
        if _transports not in (None, ["uv"]) or _channels not in (None, ["basic"]):
            raise ValueError("there is one transport (TCP, 'uv') and one channel ('basic')")
        self._threads, self._maps, self._devices = num_worker_threads, {}, []
        for to, device_map in (device_maps or {}).items():
            self.set_device_map(to, device_map)
        self.set_devices(devices or [])

    def set_device_map(self, to, device_map):
        """Adds to which devices of a worker tensors on devices of this one go.

        Args:
            to: the worker's name.
            device_map: device to device.

        Raises: ValueError for a device that has another place, or two that have the same.
        """
        known = self._maps.setdefault(to, {})
        for source, target in device_map.items():
            source, target = _device(source), _device(target)
            if known.get(source, target) != target or target in [t for s, t in known.items() if s != source]:
                raise ValueError(f"device map to '{to}': {source} -> {target} contradicts {known}")
            known[source] = target

    def set_devices(self, devices):
        """Sets the devices of this process."""
        self._devices = [_device(one) for one in devices]

    @property
    def num_worker_threads(self):
        """Threads that carry out what others call."""
        return self._threads

    @property
    def device_maps(self):
        """For a worker's name the devices that tensors on this one's go to."""
        return self._maps

    @property
    def devices(self):
        """Devices of this process."""
        return self._devices
