"""The protocol `__cuda_array_interface__`, by which libraries exchange arrays on CUDA devices without a copy."""

import tessera

_TYPES = {
    "|b1": "bool",
    "|u1": "uint8",
    "|i1": "int8",
    "<i2": "int16",
    "<i4": "int32",
    "<i8": "int64",
    "<u2": "uint16",
    "<u4": "uint32",
    "<u8": "uint64",
    "<f2": "float16",
    "<f4": "float32",
    "<f8": "float64",
    "<c8": "complex64",
    "<c16": "complex128",
}


def export(tensor):
    """The dict that describes a tensor's memory. Raises: AttributeError unless it is strided and on a CUDA device,
    RuntimeError if it requires grad.
    """
    if not tensor.is_cuda:
        raise AttributeError(
            f"Can't get __cuda_array_interface__ on non-CUDA tensor type: {tensor.type()} "
            "If CUDA data is required use tensor.cuda() to copy tensor to device memory."
        )
    if tensor.layout is not tessera.strided:
        raise AttributeError(
            f"Can't get __cuda_array_interface__ on sparse type: {tensor.type()} Use Tensor.to_dense() to convert to a "
            f"dense tensor first."
        )
    if tensor.requires_grad:
        raise RuntimeError(
            "Can't get __cuda_array_interface__ on Variable that requires grad. "
            "If gradients aren't required, use var.detach() to get Variable that doesn't require grad."
        )
    found = [text for text, name in _TYPES.items() if getattr(tessera, name) is tensor.dtype]
    if not found:
        raise TypeError(f"__cuda_array_interface__ has no name for {tensor.dtype}")
    itemsize = tensor.dtype.itemsize
    strides = None if tensor.is_contiguous() else tuple(s * itemsize for s in tensor.stride())
    return {
        "typestr": found[0],
        "shape": tuple(tensor.shape),
        "strides": strides,
        "data": (tensor.data_ptr() if tensor.numel() else 0, False),
        "version": 2,
    }


def take(obj):
    """A tensor over the memory of an object with `__cuda_array_interface__`, which it keeps alive.

    Raises: TypeError for unknown types of elements, ValueError for strides that no tensor can have, RuntimeError
        without a device.
    """
    said = obj.__cuda_array_interface__
    name = _TYPES.get(said["typestr"])
    if name is None or said.get("mask") is not None:
        raise TypeError(f"can't take an array of type {said['typestr']} over" + (" with a mask" if name else ""))
    dtype = getattr(tessera, name)
    tessera.cuda.init()
    shape, address = tuple(said["shape"]), said["data"][0]
    strides = said.get("strides")
    if strides is None:
        steps = tessera.empty(shape, device="meta").stride()
    elif any(s < 0 or s % dtype.itemsize for s in strides):
        raise ValueError(
            f"given array with strides {strides}, of which some are negative or no multiples of the element size "
            f"{dtype.itemsize}"
        )
    else:
        steps = tuple(s // dtype.itemsize for s in strides)
    last = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, steps))
    device = tessera.device("cuda", tessera.cuda.current_device())
    storage = tessera.UntypedStorage._over_memory(address, last * dtype.itemsize, device, obj)
    return tessera.empty(0, dtype=dtype, device=device).set_(storage, 0, shape, steps)
