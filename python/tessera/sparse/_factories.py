"""Sparse tensors from their members: what is list or array becomes a tensor, then the members are checked and kept."""

import contextlib

import tessera
from tessera import _C

__all__ = [
    "sparse_bsc_tensor",
    "sparse_bsr_tensor",
    "sparse_compressed_tensor",
    "sparse_coo_tensor",
    "sparse_csc_tensor",
    "sparse_csr_tensor",
]


@contextlib.contextmanager
def _checking(wanted):
    """Invariants are checked, or not, inside of the block; None: as it is."""
    before = _C._sparse_invariants()
    if wanted is None or wanted == before:
        yield
        return
    _C._sparse_invariants(wanted)
    try:
        yield
    finally:
        _C._sparse_invariants(before)


def _member(data, dtype, device):
    if isinstance(data, tessera.Tensor):
        wanted = data.dtype if dtype is None else dtype
        return data if device is None and wanted is data.dtype else data.to(device=device, dtype=wanted)
    return tessera.tensor(data, dtype=dtype, device=device)


def _indices(data, device):
    if isinstance(data, tessera.Tensor) and data.dtype in (tessera.int64, tessera.int32):
        return data if device is None else data.to(device=device)
    return _member(data, tessera.int64, device)


def _finished(tensor, requires_grad):
    return tensor.requires_grad_() if requires_grad else tensor


def sparse_coo_tensor(
    indices=None,
    values=None,
    size=None,
    *,
    dtype=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
    check_invariants=None,
    is_coalesced=None,
    layout=tessera.sparse_coo,
):
    """A tensor of layout `sparse_coo`: `values[k]` at the place that column k of `indices` names.

    Args:
        indices: (sparse_dim, nnz), integers. A tensor without elements needs nothing but a size, here or as `size`.
        values: (nnz, *dense sizes). What stands at one place more than once is added.
        size: of the tensor; by default the smallest one that has all indices.
        dtype, device: of the values; by default theirs.
        pin_memory: members in pinned memory.
        requires_grad: the result is a leaf that gets a gradient.
        check_invariants: look at every index; by default as `sparse.check_sparse_tensor_invariants` says.
        is_coalesced: the indices are in order and without duplicates.

    Raises: RuntimeError where shapes do not fit, and for wrong indices if they are looked at.

        >>> tessera.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3)).to_dense()
        tensor([[0., 0., 3.],
                [4., 0., 0.]])
    """
    if _C._has_torch_function((indices, values)):
        return _C._handle_torch_function(
            sparse_coo_tensor,
            (indices, values),
            indices,
            values,
            size,
            dtype=dtype,
            device=device,
            pin_memory=pin_memory,
            requires_grad=requires_grad,
            check_invariants=check_invariants,
            is_coalesced=is_coalesced,
        )
    options = {"dtype": dtype, "device": device, "layout": layout, "pin_memory": pin_memory or None}
    if values is None:
        sizes = indices if size is None else size
        if sizes is None:
            raise TypeError("sparse_coo_tensor() needs indices and values, or a size")
        sizes = [int(n) for n in sizes]
        return _finished(_C._sparse_coo_tensor(sizes, **options), requires_grad)
    values = _member(values, dtype, device)
    if device is None and not isinstance(indices, tessera.Tensor):
        device = values.device
    indices = _indices(indices, device)
    options.update(device=None, dtype=None, is_coalesced=is_coalesced)
    if requires_grad:
        values = values.detach()
    with _checking(check_invariants):
        sized = () if size is None else ([int(n) for n in size],)
        return _finished(_C._sparse_coo_tensor(indices, values, *sized, **options), requires_grad)


def _compressed(function, names, compressed, plain, values, size, layout, options):
    if _C._has_torch_function((compressed, plain, values)):
        given = dict(options)
        if "layout" in names:
            given["layout"] = layout
        return _C._handle_torch_function(
            function, (compressed, plain, values), compressed, plain, values, size, **given
        )
    dtype, device = options["dtype"], options["device"]
    values = _member(values, dtype, device)
    if device is None and not isinstance(compressed, tessera.Tensor):
        device = values.device
    compressed, plain = _indices(compressed, device), _indices(plain, device)
    if options["requires_grad"]:
        values = values.detach()
    with _checking(options["check_invariants"]):
        sized = () if size is None else ([int(n) for n in size],)
        made = _C._sparse_compressed_tensor(
            compressed, plain, values, *sized, layout=layout, pin_memory=options["pin_memory"] or None
        )
    return _finished(made, options["requires_grad"])


def sparse_compressed_tensor(
    compressed_indices,
    plain_indices,
    values,
    size=None,
    *,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
    check_invariants=None,
):
    """A tensor of one of the layouts `sparse_csr`, `sparse_csc`, `sparse_bsr` and `sparse_bsc`.

    Args:
        compressed_indices: (*batch, n + 1): where each row (CSR, BSR) or column (CSC, BSC) begins.
        plain_indices: (*batch, nnz): the columns, or rows, of the elements.
        values: (*batch, nnz, *dense), for BSR and BSC (*batch, nnz, height, width, *dense).
        size: of the tensor; by default the smallest one that has all indices.
        layout: required.
        dtype, device, pin_memory, requires_grad, check_invariants: as for `sparse_coo_tensor`.

    Raises: RuntimeError where shapes do not fit, and for wrong indices if they are looked at.
    """
    if layout is None:
        raise RuntimeError("sparse_compressed_tensor() expected sparse compressed tensor layout but got None")
    options = {
        "dtype": dtype,
        "device": device,
        "pin_memory": pin_memory,
        "requires_grad": requires_grad,
        "check_invariants": check_invariants,
    }
    return _compressed(
        sparse_compressed_tensor, ("layout",), compressed_indices, plain_indices, values, size, layout, options
    )


def _constructor(layout, rows):
    """The function that makes tensors of one compressed layout."""
    kind = layout.upper()
    compressed, plain = ("crow_indices", "col_indices") if rows else ("ccol_indices", "row_indices")
    source = (
        f"def sparse_{layout}_tensor({compressed}, {plain}, values, size=None, *, dtype=None, device=None,"
        " pin_memory=False, requires_grad=False, check_invariants=None):\n"
        "    options = {'dtype': dtype, 'device': device, 'pin_memory': pin_memory, 'requires_grad': requires_grad,"
        " 'check_invariants': check_invariants}\n"
        f"    return _compressed(sparse_{layout}_tensor, (), {compressed}, {plain}, values, size, _layout(), options)\n"
    )
    scope = {"_compressed": _compressed, "_layout": lambda: getattr(tessera, f"sparse_{layout}"), "__name__": __name__}
    exec(source, scope)
    function = scope[f"sparse_{layout}_tensor"]
    function.__doc__ = (
        f"A tensor in {kind}: `sparse_compressed_tensor` with `layout=sparse_{layout}`, {compressed} and {plain}."
    )
    return function


sparse_csr_tensor = _constructor("csr", True)
sparse_csc_tensor = _constructor("csc", False)
sparse_bsr_tensor = _constructor("bsr", True)
sparse_bsc_tensor = _constructor("bsc", False)


def _private(layout):
    def unsafe(compressed, plain, values, size, *, dtype=None, device=None, pin_memory=None, requires_grad=False):
        """The constructor of the layout that does not look at the indices."""
        made = _C._sparse_compressed_tensor_unsafe(
            compressed,
            plain,
            values,
            size,
            dtype=dtype,
            layout=getattr(tessera, f"sparse_{layout}"),
            device=device,
            pin_memory=pin_memory,
        )
        return _finished(made, requires_grad)

    def validate(compressed, plain, values, size, check_pinning=None):
        """RuntimeError unless these members make a tensor of the layout."""
        _C._validate_sparse_compressed_tensor_args(
            compressed, plain, values, size, getattr(tessera, f"sparse_{layout}"), check_pinning
        )

    unsafe.__name__ = unsafe.__qualname__ = f"_sparse_{layout}_tensor_unsafe"
    validate.__name__ = validate.__qualname__ = f"_validate_sparse_{layout}_tensor_args"
    return unsafe, validate


_sparse_csr_tensor_unsafe, _validate_sparse_csr_tensor_args = _private("csr")
_sparse_csc_tensor_unsafe, _validate_sparse_csc_tensor_args = _private("csc")
_sparse_bsr_tensor_unsafe, _validate_sparse_bsr_tensor_args = _private("bsr")
_sparse_bsc_tensor_unsafe, _validate_sparse_bsc_tensor_args = _private("bsc")
