"""Exchange of tensors with other libraries without a copy, by the DLPack protocol."""

import enum

import tessera
from tessera import _C

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]


class DLDeviceType(enum.IntEnum):
    """How DLPack numbers the kinds of devices."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17


def to_dlpack(tensor):
    """A capsule with the memory of `tensor`; it can be taken over once. Raises: BufferError as `Tensor.__dlpack__`."""
    return _C._to_dlpack(tensor, False)


def device_of(tensor):
    """`Tensor.__dlpack_device__`: (kind of device, index). Raises: ValueError for devices that DLPack does not know."""
    kinds = {"cpu": DLDeviceType.kDLCPU, "cuda": DLDeviceType.kDLCUDA}
    device = tensor.device
    if device.type not in kinds:
        raise ValueError(f"Unknown device type {device.type} for Dlpack")
    if device.type == "cpu" and tensor.is_pinned():
        return DLDeviceType.kDLCUDAHost, 0
    return kinds[device.type], device.index or 0


def export(tensor, stream=None, max_version=None, dl_device=None, copy=None):
    """`Tensor.__dlpack__`: a capsule for a consumer.

    Args:
        stream: the consumer's CUDA stream; None on the CPU.
        max_version: highest protocol version that the consumer reads; None means the form without version.
        dl_device: where the memory shall be; only the tensor's own device.
        copy: True for a copy.

    Raises: BufferError for tensors that require grad, carry a conjugate bit, are not strided, or have no memory.
    """
    if tensor.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if tensor.is_conj():
        raise BufferError("Can't export tensors with the conjugate bit set")
    if not str(tensor.layout).endswith("strided"):
        raise BufferError("Can't export tensors with layout other than torch.strided")
    if tensor.is_meta:
        raise BufferError("Cannot pack tensors on meta")
    if stream is not None:
        if not isinstance(stream, int):
            raise TypeError("stream must be ``int`` or ``none``")
        if tensor.device.type == "cpu":
            raise AssertionError("stream should be None on cpu.")
        _wait_for(tensor, stream)
    if dl_device is not None and tuple(dl_device) != tuple(device_of(tensor)):
        raise BufferError(f"can't export a tensor on {tensor.device} to another device, {dl_device}")
    if copy:
        tensor = tensor.clone()
    return _C._to_dlpack(tensor, max_version is not None and max_version[0] >= 1)


def _wait_for(tensor, stream):
    """Makes the consumer's stream wait for what runs on the current one."""
    if tensor.device.type != "cuda" or stream == -1:
        return
    consumer = tessera.cuda.default_stream(tensor.device) if stream in (0, 1) else tessera.cuda.ExternalStream(stream)
    current = tessera.cuda.current_stream(tensor.device)
    if consumer != current:
        event = tessera.cuda.Event()
        event.record(current)
        consumer.wait_event(event)


def from_dlpack(ext_tensor, *, device=None, copy=None):
    """A tensor over the memory of an object with `__dlpack__`, or of a capsule.

    Args:
        ext_tensor: the object.
        device: must be the object's own device if given.
        copy: True for a copy, False to forbid one.

    Raises: RuntimeError for a capsule that was used already, TypeError or BufferError from the producer.
    """
    if hasattr(ext_tensor, "__dlpack__"):
        options = {}
        kind, index = ext_tensor.__dlpack_device__()
        if kind in (DLDeviceType.kDLCUDA, DLDeviceType.kDLROCM):
            stream = tessera.cuda.current_stream(f"cuda:{index}").cuda_stream
            options["stream"] = 1 if kind == DLDeviceType.kDLCUDA and stream == 0 else stream
        try:
            capsule = ext_tensor.__dlpack__(max_version=(1, 0), **options)
        except TypeError:  # a producer from before version 1
            capsule = ext_tensor.__dlpack__(**options)
    else:
        capsule = ext_tensor
    tensor = _C._from_dlpack(capsule)
    if device is not None and tessera.device(device).type != tensor.device.type:
        raise BufferError(f"can't take a tensor on {tensor.device} to {device} without a copy")
    return tensor.clone() if copy else tensor
