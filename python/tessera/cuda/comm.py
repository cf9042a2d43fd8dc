"""Tensors on several devices: copies, pieces, sums."""

import warnings

import tessera
from tessera.cuda import _index, device_count

__all__ = ["broadcast", "broadcast_coalesced", "gather", "reduce_add", "reduce_add_coalesced", "scatter"]


def _devices(devices):
    found = [_index(d) for d in devices]
    return [tessera.device("cuda", i if i >= 0 else tessera.cuda.current_device()) for i in found]


def broadcast(tensor, devices=None, *, out=None):
    """Copies of a tensor, on `devices` (of which the first is the tensor's own, if it is on one) or in the tensors
    `out`.

    Returns: a tuple of tensors. Raises: RuntimeError unless exactly one of `devices` and `out` is given, or for tensors
        on the CPU.
    """
    if (devices is None) == (out is None):
        raise RuntimeError(
            f"Exactly one of 'devices' and 'out' must be specified, but got devices={devices} and out={out}"
        )
    if out is not None:
        for i, o in enumerate(out):
            if not o.is_cuda:
                raise RuntimeError(
                    f"Expected all output tensors to be CUDA tensors, but output tensor at index {i} is not"
                )
            if o.shape != tensor.shape:
                raise RuntimeError(
                    f"Expected all output tensors to have same shape as the source tensor {tuple(tensor.shape)}, "
                    f"but output tensor at index {i} has shape {tuple(o.shape)}"
                )
        return tuple(o if o is tensor else o.copy_(tensor, non_blocking=True) for o in out)
    targets = _devices(devices)
    if not targets:
        raise RuntimeError("Expected at least one device to broadcast to")
    if not tensor.is_cuda:
        raise RuntimeError("Expected tensor to be on a CUDA device")
    if tensor.device != targets[0]:
        raise RuntimeError("device of broadcasted tensor must appear as the first on devices list")
    return tuple(tensor if d == tensor.device else tensor.to(d, non_blocking=True) for d in targets)


def broadcast_coalesced(tensors, devices, buffer_size=10485760):
    """A tuple of copies of all tensors for each device. Small ones travel together, up to `buffer_size` bytes.

    Raises: RuntimeError for tensors that are not on the first device, ValueError for a buffer of no size.
    """
    if buffer_size <= 0:
        raise ValueError("buffer_size must be positive")
    targets = _devices(devices)
    if any(not t.is_cuda or t.device != targets[0] for t in tensors):
        raise RuntimeError("all tensors must be on devices[0]")
    result = [list(tensors)] + [[None] * len(tensors) for _ in targets[1:]]
    for places in _buckets(tensors, buffer_size):
        flat = tessera.cat([tensors[i].reshape(-1) for i in places]) if len(targets) > 1 else None
        for copies, device in zip(result[1:], targets[1:]):
            parts = flat.to(device, non_blocking=True).split([tensors[i].numel() for i in places])
            for i, part in zip(places, parts):
                copies[i] = part.view(tensors[i].shape)
    return [tuple(copies) for copies in result]


def _buckets(tensors, buffer_size):
    """Positions of tensors of one dtype and of `buffer_size` bytes together (or of one larger tensor): lists."""
    open_buckets = {}
    for i, t in enumerate(tensors):
        places, size = open_buckets.get(t.dtype, ([], 0))
        nbytes = t.numel() * t.element_size()
        if places and size + nbytes > buffer_size:
            yield places
            places, size = [], 0
        open_buckets[t.dtype] = [*places, i], size + nbytes
    for places, _ in open_buckets.values():
        yield places


def reduce_add(inputs, destination=None):
    """The sum of tensors of one shape on several devices, on `destination` (by default the selected device).

    Raises: RuntimeError for tensors on the CPU, ValueError for different shapes.
    """
    index = _index(destination)
    target = tessera.device("cuda", tessera.cuda.current_device() if index < 0 else index)
    for t in inputs:
        if not t.is_cuda:
            raise RuntimeError("reduce_add expects all inputs to be on GPUs")
        if t.shape != inputs[0].shape:
            raise ValueError(f"input has invalid size: got {tuple(t.shape)}, but expected {tuple(inputs[0].shape)}")
    if len(inputs) == 1:
        return inputs[0]
    result = inputs[0].to(target, non_blocking=True) + inputs[1].to(target, non_blocking=True)
    for t in inputs[2:]:
        result.add_(t.to(target, non_blocking=True))
    return result


def reduce_add_coalesced(inputs, destination=None, buffer_size=10485760):
    """The sums, place by place, of lists of tensors, one list for each device: a tuple of tensors on `destination`.
    Small ones travel together, up to `buffer_size` bytes.

    Raises: RuntimeError for tensors on the CPU, ValueError for lists of different lengths or shapes, or for a buffer of
        no size.
    """
    if buffer_size <= 0:
        raise ValueError("buffer_size must be positive")
    lists = [list(tensors) for tensors in inputs]
    if any([t.shape for t in tensors] != [t.shape for t in lists[0]] for tensors in lists):
        raise ValueError("inputs: expected lists of tensors with the same shapes")
    result = [None] * len(lists[0]) if lists else []
    for places in _buckets(lists[0], buffer_size) if lists else ():
        flat = [
            tessera.cat([tensors[i].reshape(-1) for i in places]) if len(places) > 1 else tensors[places[0]]
            for tensors in lists
        ]
        total = reduce_add(flat, destination)
        parts = total.split([lists[0][i].numel() for i in places]) if len(places) > 1 else [total]
        for i, part in zip(places, parts):
            result[i] = part.view(lists[0][i].shape)
    return tuple(result)


def scatter(tensor, devices=None, chunk_sizes=None, dim=0, streams=None, *, out=None):
    """Cuts a tensor along `dim` and puts the pieces on devices, by default all, or into the tensors `out`.

    Args:
        chunk_sizes: lengths of the pieces; by default about the same.
        streams: on which the copies run, one for each device.

    Returns: a tuple of tensors. Raises: RuntimeError for sizes that don't fit, or with `out` together with `devices` or
        `chunk_sizes`.
    """
    if out is not None:
        if devices is not None:
            raise RuntimeError(f"'devices' must not be specified when 'out' is specified, but got devices={devices}")
        if chunk_sizes is not None:
            raise RuntimeError(
                f"'chunk_sizes' must not be specified when 'out' is specified, but got chunk_sizes={chunk_sizes}"
            )
        targets, sizes = [o.device for o in out], [o.size(dim) for o in out]
    else:
        targets = _devices(range(device_count()) if devices is None else devices)
        sizes = chunk_sizes
    if sizes is not None and (len(sizes) != len(targets) or sum(sizes) != tensor.size(dim)):
        raise RuntimeError(
            f"given chunk sizes {list(sizes)} don't sum up to the tensor's size {tensor.size(dim)} along dimension "
            f"{dim}, one for each of {len(targets)} devices"
        )
    pieces = tensor.chunk(len(targets), dim) if sizes is None else tensor.split(list(sizes), dim)
    results = []
    for i, piece in enumerate(pieces):
        with tessera.cuda.stream(streams[i] if streams else None):
            results.append(
                out[i].copy_(piece, non_blocking=True)
                if out is not None
                else piece.to(targets[i], non_blocking=True).contiguous()
            )
    return tuple(results)


def gather(tensors, dim=0, destination=None, *, out=None):
    """Joins tensors of several devices along `dim`, on `destination` (a device, 'cpu', or by default the selected
    device) or in `out`.

    Raises: RuntimeError for tensors on the CPU or with both `destination` and `out`.
    """
    for t in tensors:
        if not t.is_cuda:
            raise RuntimeError("Gather expects all inputs to be on GPUs")
    if out is not None:
        if destination is not None:
            raise RuntimeError(
                f"'destination' must not be specified when 'out' is specified, but got destination={destination}"
            )
        return tessera.cat([t.to(out.device) for t in tensors], dim, out=out)
    if destination == -1:
        warnings.warn(
            "Using -1 to represent CPU tensor is deprecated. Please use a device object or string instead, e.g., "
            '"cpu".',
            FutureWarning,
            stacklevel=2,
        )
        destination = "cpu"
    target = (
        tessera.device("cuda", tessera.cuda.current_device()) if destination is None else tessera.device(destination)
    )
    return tessera.cat([t.to(target) for t in tensors], dim)
