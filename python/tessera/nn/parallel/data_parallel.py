"""A module that shares each batch out among the devices of the machine."""

import itertools

import tessera
from tessera.nn.modules.module import Module
from tessera.nn.parallel._devices import as_device
from tessera.nn.parallel.parallel_apply import parallel_apply
from tessera.nn.parallel.replicate import replicate
from tessera.nn.parallel.scatter_gather import gather, scatter_kwargs

__all__ = ["DataParallel", "data_parallel"]


def _all_devices():
    return [tessera.device("cuda", i) for i in range(tessera.cuda.device_count())]


def _check_lies_on(module, device):
    for tensor in itertools.chain(module.parameters(), module.buffers()):
        if tensor.device != device:
            raise RuntimeError(
                f"the module must have its parameters and buffers on device {device}, the first of its devices, but "
                f"found one of them on device {tensor.device}"
            )


class DataParallel(Module):
    """Calls a module on several devices: the batch is cut along `dim`, each device runs a copy of the module on a
    piece, the results are joined. Gradients of the copies add up in the module.

    Without a device other than the CPU it just calls the module. State-dict keys begin with "module.".

    Args:
        module: whose parameters and buffers are on the first device.
        device_ids: devices, or numbers of CUDA devices; by default all.
        output_device: where results are joined; by default the first device.
        dim: along which tensors among the arguments are cut; other objects go to all devices.

    Raises: RuntimeError if a parameter or a buffer lies elsewhere.
    """

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        devices = _all_devices() if device_ids is None else [as_device(device) for device in device_ids]
        self.module, self.dim = module, dim
        self.device_ids = [device.index if device.type == "cuda" else device for device in devices]
        if devices:
            self.output_device = self.device_ids[0] if output_device is None else output_device
            self.src_device_obj = devices[0]
            if len(devices) == 1:
                self.module.to(devices[0])

    def forward(self, *inputs, **kwargs):
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        _check_lies_on(self.module, self.src_device_obj)
        pieces, options = self.scatter(inputs, kwargs, self.device_ids)
        if not pieces:  # no arguments at all: one call
            pieces, options = ((),), ({},)
        if len(self.device_ids) == 1:
            return self.module(*pieces[0], **options[0])
        replicas = self.replicate(self.module, self.device_ids[: len(pieces)])
        return self.gather(self.parallel_apply(replicas, pieces, options), self.output_device)

    def replicate(self, module, device_ids):
        """Copies of the module on the devices."""
        return replicate(module, device_ids, not tessera.is_grad_enabled())

    def scatter(self, inputs, kwargs, device_ids):
        """Arguments and keyword arguments for each device."""
        return scatter_kwargs(inputs, kwargs, device_ids, self.dim)

    def parallel_apply(self, replicas, inputs, kwargs):
        """The copies' results."""
        return parallel_apply(replicas, inputs, kwargs, self.device_ids[: len(replicas)])

    def gather(self, outputs, output_device):
        """The results, joined."""
        return gather(outputs, output_device, self.dim)


def data_parallel(module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None):
    """What DataParallel does, in one call.

    Args:
        module: the module.
        inputs: a tuple of arguments, or the only one.
        module_kwargs: keyword arguments.
        device_ids, output_device, dim: as for DataParallel.

    Raises: RuntimeError if there is no device, or if a parameter or a buffer is not on the first one.
    """
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    devices = _all_devices() if device_ids is None else device_ids
    if not devices:
        raise RuntimeError("data_parallel() needs a device for the module, but there is no CUDA device")
    _check_lies_on(module, as_device(devices[0]))
    return DataParallel(module, devices, output_device, dim)(*inputs, **(module_kwargs or {}))
