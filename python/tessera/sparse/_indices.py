"""Row indices of sparse matrices: one for each element, or where each row begins."""

import tessera


def _convert_indices_from_coo_to_csr(input, size, *, out_int32=False):
    """Where each of `size` rows begins, (size + 1,): `input` has the elements' rows, a sorted vector of integers.

    RuntimeError unless it is a vector, NotImplementedError for other dtypes than integers.
    """
    if input.dim() > 1:
        raise RuntimeError(f"Input is supposed to be a vector, but got {input.dim()} dimensional tensor.")
    if input.dtype.is_floating_point or input.dtype.is_complex or input.dtype == tessera.bool:
        raise NotImplementedError(f"expected rows to be integers, got {input.dtype}")
    rows = tessera.arange(size + 1, dtype=input.dtype, device=input.device)
    return tessera.searchsorted(input.contiguous(), rows, out_int32=out_int32)


def _convert_indices_from_csr_to_coo(crow_indices, col_indices, *, out_int32=False, transpose=False):
    """Indices of elements, (dimensions of a batch + 2, elements): of each its place in the batch, row and column.

    Args:
        crow_indices: integers (*batch, rows + 1), where each row begins.
        col_indices: integers (*batch, elements of a matrix).
        transpose: columns are before rows.
    """
    counts = crow_indices.diff()
    places = tessera.ones_like(counts).nonzero().repeat_interleave(counts.flatten(), 0).unbind(1)
    last = [places[-1], col_indices.flatten()]
    found = [*places[:-1], *(reversed(last) if transpose else last)]
    dtype = tessera.int32 if out_int32 else tessera.int64
    return tessera.stack([one.to(dtype) for one in found])
