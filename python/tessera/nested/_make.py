"""The public functions of `tessera.nested`."""

import tessera
from tessera.nested import _strided
from tessera.nested._internal.base import is_nested
from tessera.nested._internal.nested_tensor import (
    NestedTensor,
    check_parts,
    jagged_from_list,
    nested_view_from_values_offsets_lengths,
)


def _layout(layout, name):
    layout = tessera.strided if layout is None else layout
    if layout not in (tessera.strided, tessera.jagged):
        raise RuntimeError(f"{name}(): Specified layout is unsupported for nested tensors: {layout}")
    return layout


def _strided_from(tensors, dtype, device):
    """A strided nested tensor over a new buffer, with the history of the components."""
    for i, tensor in enumerate(tensors):
        if tensor.dim() != tensors[0].dim():
            raise RuntimeError(
                "All Tensors given to nested_tensor must have the same dimension. Found dimension "
                f"{tensor.dim()} for Tensor at index {i} and dimension {tensors[0].dim()} for Tensor at index 0."
            )
        if tensor.dtype != tensors[0].dtype or tensor.device != tensors[0].device:
            raise RuntimeError(
                f"All Tensors given to nested_tensor must have the same dtype and device. Found {tensor.dtype} on "
                f"{tensor.device} at index {i}, and {tensors[0].dtype} on {tensors[0].device} at index 0."
            )
    sizes = [tuple(tensor.shape) for tensor in tensors]
    flat = [tensor.reshape(-1) for tensor in tensors]
    buffer = tessera.cat(flat) if flat else tessera.empty(0)
    buffer = buffer.to(device=device, dtype=dtype)
    return _strided.StridedNestedTensor._from_buffer(buffer, sizes)


def nested_tensor(tensor_list, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """A nested tensor with copies of the components, a leaf of the graph.

    Args:
        tensor_list: tensors with the same number of dimensions, or nested lists of numbers.
        dtype, device: of the result; by default those of the first component.
        layout: tessera.strided (the default), or tessera.jagged where components differ in one dimension only.
        requires_grad: whether gradients are kept.
        pin_memory: whether the memory is pinned.

    Raises: TypeError for what is no list; RuntimeError for components with different numbers of dimensions, for other
    layouts, and for components that the layout cannot hold.
    """
    layout = _layout(layout, "nested_tensor")
    if isinstance(tensor_list, tessera.Tensor) and layout == tessera.jagged and tensor_list.dim() > 0:
        tensor_list = list(tensor_list.unbind())
    if isinstance(tensor_list, tessera.Tensor) or not isinstance(tensor_list, (list, tuple)):
        raise TypeError("Only lists (List[Tensor] and List[List...[Scalar]]) are accepted in nested_tensor")
    tensors = [
        item.detach() if isinstance(item, tessera.Tensor) else tessera.tensor(item, dtype=dtype, device=device)
        for item in tensor_list
    ]
    with tessera.no_grad():
        if layout is tessera.strided:
            tensors = [tensor.to(tensors[0].dtype) for tensor in tensors]
            result = _strided_from(tensors, dtype, device)
            buffer = result._buffer
        else:
            result, _ = jagged_from_list(tensors, None, dtype=dtype, device=device)
            buffer = result._values
        if any(buffer.data_ptr() == tensor.data_ptr() and buffer.numel() for tensor in tensors):
            buffer = buffer.clone()
        if pin_memory:
            buffer = buffer.pin_memory()
    result = result._like(buffer.detach())
    return result.requires_grad_() if requires_grad else result


def as_nested_tensor(ts, dtype=None, device=None, layout=None):
    """A nested tensor of components, whose graph goes on: gradients reach the components.

    Args:
        ts: a list or tuple of tensors, or one tensor whose entries along the first dimension are the components.
        dtype, device, layout: as in `nested_tensor`.

    Raises: TypeError for anything else; what `nested_tensor` raises.
    """
    layout = _layout(layout, "as_nested_tensor")
    if is_nested(ts):
        if ts.layout is not layout:
            raise RuntimeError("as_nested_tensor(): Converting between nested tensor layouts is not supported")
        moved = {key: value for key, value in (("dtype", dtype), ("device", device)) if value is not None}
        return ts.to(**moved) if moved else ts
    if isinstance(ts, tessera.Tensor):
        if ts.dim() < 2:
            raise RuntimeError("as_nested_tensor(): Expected tensor argument to have dim() > 1")
        ts = ts.unbind()
    if not isinstance(ts, (list, tuple)) or not all(isinstance(t, tessera.Tensor) for t in ts):
        raise TypeError("as_nested_tensor(): Expected first argument to be a tensor or a list / tuple of tensors")
    if layout is tessera.strided:
        return _strided_from(ts, dtype, device)
    return jagged_from_list(ts, None, dtype=dtype, device=device)[0]


def nested_tensor_from_jagged(values, offsets=None, lengths=None, jagged_dim=None, min_seqlen=None, max_seqlen=None):
    """A jagged tensor over `values`, without a copy.

    Args:
        values: the components one behind the other along dimension `jagged_dim` - 1.
        offsets: (B + 1,) integers: where each component begins, and the end of the last.
        lengths: (B,) integers. Without offsets, components follow each other; with them, there may be holes.
        jagged_dim: the ragged dimension of the result, 1 by default.
        min_seqlen, max_seqlen: the shortest and the longest length where they are known.

    Raises: TypeError for what are no plain tensors, RuntimeError without offsets and lengths or where these are no 1-D
    tensors of integers, IndexError for a dimension out of range. Offsets that lie outside of the values are found when
    the components are asked for.
    """
    if offsets is None:
        if lengths is None:
            raise RuntimeError("nested_tensor_from_jagged(): At least one of offsets or lengths is required.")
        offsets = tessera.nn.functional.pad(lengths.cumsum(0), (1, 0))
        lengths = None
    jagged_dim = 1 if jagged_dim is None else jagged_dim
    check_parts(values, offsets, lengths, jagged_dim, "nested_tensor_from_jagged")
    return nested_view_from_values_offsets_lengths(values, offsets, lengths, jagged_dim, min_seqlen, max_seqlen)


def narrow(tensor, dim, start, length, layout=tessera.strided):
    """Pieces of the entries of `tensor`, as a nested tensor over its memory.

    Args:
        tensor: a plain tensor; its first dimension is the batch.
        dim: which dimension is cut, 1 for the jagged layout.
        start, length: integers, or (for the jagged layout) tensors (B,) with one for each entry.
        layout: tessera.strided (integers only) or tessera.jagged.

    Raises: RuntimeError for other combinations and for pieces that do not lie inside of the tensor.
    """
    if not isinstance(start, (int, tessera.Tensor)) or not isinstance(length, (int, tessera.Tensor)):
        raise RuntimeError("start and length must be integers or tensors")
    layout = _layout(layout, "narrow")
    if layout is tessera.strided:
        if isinstance(start, tessera.Tensor) or isinstance(length, tessera.Tensor):
            raise RuntimeError("start and length must be integers for the strided layout NT impl")
        return as_nested_tensor(tensor.narrow(dim, start, length).unbind())
    if dim != 1:
        raise RuntimeError("jagged layout only supports dim=1")
    batch, longest = tensor.shape[:2]
    starts, lengths = (
        value.to(tessera.int64) if isinstance(value, tessera.Tensor) else tessera.full((batch,), value)
        for value in (start, length)
    )
    if starts.shape != (batch,) or lengths.shape != (batch,):
        raise RuntimeError(f"start and length must have one entry for each of the {batch} entries of the batch")
    if bool(((starts < 0) | (lengths < 0) | (starts + lengths > longest)).any()):
        raise RuntimeError(f"start and length must lie inside of dimension 1, which has {longest} entries")
    begins = starts + tessera.arange(batch, device=starts.device) * longest
    offsets = tessera.cat([begins, tessera.full((1,), batch * longest, dtype=begins.dtype)])
    return NestedTensor(tensor.reshape(-1, *tensor.shape[2:]), offsets, lengths=lengths)


def masked_select(tensor, mask):
    """The elements of each entry of `tensor` for which `mask` is True, as a jagged tensor.

    Args:
        tensor: a plain tensor with at least one dimension.
        mask: a bool tensor that broadcasts to it.

    Raises: RuntimeError for other layouts, and for a mask that is not bool or does not broadcast.
    """
    if tensor.layout is not tessera.strided or is_nested(tensor):
        raise RuntimeError(f"masked_select: expected a plain strided tensor, got the layout {tensor.layout}")
    if mask.dtype is not tessera.bool:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    tensor, mask = tessera.broadcast_tensors(tensor, mask)
    lengths = mask.sum(-1).reshape(-1)  # of each row along the last dimension
    offsets = tessera.nn.functional.pad(lengths.cumsum(0), (1, 0))
    return NestedTensor(tensor.masked_select(mask), offsets)


def to_padded_tensor(input, padding, output_size=None, out=None):
    """A plain tensor with the components of a nested one, filled up at their ends.

    Args:
        input: a nested tensor.
        padding: the number that stands where a component has nothing.
        output_size: the size of the result, at least that of the components; by default the smallest that holds all.
        out: a tensor that takes the result.

    Raises: RuntimeError for an input that is not nested, and for an output_size that is too small.
    """
    if not is_nested(input):
        raise RuntimeError("to_padded_tensor(): expected a nested tensor")
    result = type(input)._served()["to_padded_tensor"](to_padded_tensor, (input, padding, output_size), {})
    if out is None:
        return result
    out.resize_(result.shape)
    return out.copy_(result)
