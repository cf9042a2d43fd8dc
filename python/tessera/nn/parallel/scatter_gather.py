"""Arguments in pieces, one for each device, and results joined again."""

import dataclasses

import tessera
from tessera.nn.parallel._devices import as_device

__all__ = ["gather", "scatter", "scatter_kwargs"]


def is_namedtuple(obj):
    return isinstance(obj, tuple) and hasattr(obj, "_fields")


def _like(original, items):
    return type(original)(*items) if is_namedtuple(original) else type(original)(items)


def _pieces(tensor, devices, dim):
    parts = [tensor] if tensor.dim() == 0 else tensor.chunk(len(devices), dim)
    return [part.to(device, non_blocking=True) for part, device in zip(parts, devices)]


def _distribute(obj, devices, dim):
    """A list of what each device gets: pieces of tensors, also inside of containers, all else as it is."""
    if isinstance(obj, tessera.Tensor):
        return _pieces(obj, devices, dim)
    if isinstance(obj, (tuple, list)) and obj:
        return [_like(obj, items) for items in zip(*(_distribute(item, devices, dim) for item in obj))]
    if isinstance(obj, dict) and obj:
        values = zip(*(_distribute(item, devices, dim) for item in obj.values()))
        return [type(obj)(zip(obj, items)) for items in values]
    return [obj] * len(devices)


def scatter(inputs, target_gpus, dim=0):
    """Cuts the tensors in `inputs` along `dim`, a piece for each device; other objects go to all.

    Args:
        inputs: a tensor, or tuples, lists and dicts of them, as deep as they are.
        target_gpus: devices, or numbers of CUDA devices.

    Returns: a list with what each device gets, shorter than `target_gpus` if a tensor has fewer pieces.
    """
    return _distribute(inputs, [as_device(device) for device in target_gpus], dim)


def scatter_kwargs(inputs, kwargs, target_gpus, dim=0):
    """(tuple of arguments, tuple of keyword arguments) for each device, both of the same length."""
    inputs = scatter(inputs, target_gpus, dim) if inputs else []
    kwargs = scatter(kwargs, target_gpus, dim) if kwargs else []
    count = max(len(inputs), len(kwargs))
    inputs, kwargs = list(inputs), list(kwargs)
    inputs += [()] * (count - len(inputs))
    kwargs += [{}] * (count - len(kwargs))
    return tuple(inputs), tuple(kwargs)


def _join_tensors(tensors, device, dim):
    tensors = [tensor.to(device) for tensor in tensors]
    if all(tensor.dim() == 0 for tensor in tensors):  # a loss of each: a vector of them
        return tessera.stack(tensors)
    return tessera.cat(tensors, dim)


def gather(outputs, target_device, dim=0):
    """Joins what the devices returned along `dim`, on one device.

    Args:
        outputs: a result of each device: tensors, None, or tuples, lists, dicts and dataclasses of them. Tensors
            without dimensions are joined to a vector.
        target_device: a device or a number; -1 is the CPU.

    Raises: ValueError for dicts with different keys, TypeError for anything else.
    """
    device, first = as_device(target_device), outputs[0]

    def join(parts):
        return gather(parts, device, dim)

    if isinstance(first, tessera.Tensor):
        return _join_tensors(outputs, device, dim)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(output.keys() != first.keys() for output in outputs):
            raise ValueError(f"expected dicts with the same keys, but got {[list(output) for output in outputs]}")
        return type(first)((key, join([output[key] for output in outputs])) for key in first)
    if dataclasses.is_dataclass(first):
        names = [field.name for field in dataclasses.fields(first)]
        return type(first)(**{name: join([getattr(output, name) for output in outputs]) for name in names})
    if isinstance(first, (tuple, list)):
        return _like(first, map(join, zip(*outputs)))
    raise TypeError(
        f"results are joined if they are tensors, or tuples, lists, dicts and dataclasses of them, but got "
        f"{type(first).__name__}"
    )
