"""gradcheck for functions of sparse tensors."""

import functools

import tessera

_LAYOUTS = frozenset(f"sparse_{kind}" for kind in ("coo", "csr", "csc", "bsr", "bsc"))


def _kind(value):
    if not isinstance(value, tessera.Tensor):
        return ""
    name = str(value.layout).rpartition(".")[2]
    return name if name in _LAYOUTS else ""


def _taken_apart(tensor):
    """(values that a gradient is wanted of, what makes the tensor of them)."""
    if _kind(tensor) == "sparse_coo":
        tensor = tensor.detach().coalesce()
        indices, size = tensor.indices(), tensor.size()
        values = tensor.values().clone().requires_grad_(True)
        return values, lambda v: tessera.sparse_coo_tensor(indices, v, size, is_coalesced=True)
    tensor, layout, size = tensor.detach(), tensor.layout, tensor.size()
    rows = _kind(tensor) in ("sparse_csr", "sparse_bsr")
    compressed = tensor.crow_indices() if rows else tensor.ccol_indices()
    plain = tensor.col_indices() if rows else tensor.row_indices()
    values = tensor.values().clone().requires_grad_(True)
    return values, lambda v: tessera.sparse_compressed_tensor(compressed, plain, v, size, layout=layout)


def _specify_all(tensor):
    """The tensor with every element specified, so that those that are zero are varied as well."""
    kind = _kind(tensor)
    extra = {"blocksize": tensor.values().shape[-2:]} if kind in ("sparse_bsr", "sparse_bsc") else {}
    ones = tessera.ones(tensor.shape, dtype=tensor.dtype, device=tensor.device)
    return tensor.detach().to_dense().sparse_mask(ones.to_sparse(layout=tensor.layout, **extra))


def _dense(result):
    if isinstance(result, (list, tuple)):
        return tuple(_dense(r) for r in result)
    return result.to_dense() if _kind(result) else result


def as_sparse_gradcheck(gradcheck):
    """Makes of `gradcheck` a function that takes sparse inputs and results.

    Only the specified elements of sparse inputs are varied if the call says `masked=True`, else all of them are: an
    input is specified in full first.
    """

    @functools.wraps(gradcheck)
    def checked(func, inputs, **kwargs):
        given = inputs if isinstance(inputs, (list, tuple)) else (inputs,)
        masked = kwargs.pop("masked", False)
        flat, makers = [], []
        for value in given:
            if _kind(value) and value.requires_grad:
                value, make = _taken_apart(value if masked else _specify_all(value))
            else:
                make = None
            flat.append(value)
            makers.append(make)

        def strided(*values):
            return _dense(func(*(v if make is None else make(v) for v, make in zip(values, makers))))

        return gradcheck(strided, tuple(flat), **kwargs)

    return checked
