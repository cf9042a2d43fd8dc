"""Matrices of which two elements in each group of four along a row are kept (2:4): packed to half their size.

Packed on the CPU as well: `packed` holds the kept elements, (rows, columns / 2), `meta` their places within each group
of four, an int8 for two of them (place of the first + 4 * place of the second), (rows, columns / 4).
"""

import tessera

__all__ = [
    "SparseSemiStructuredTensor",
    "SparseSemiStructuredTensorCUTLASS",
    "SparseSemiStructuredTensorCUSPARSELT",
    "to_sparse_semi_structured",
]

_DTYPES = ("int8", "float16", "bfloat16", "float32")
_SMALLEST = (1, 4)  # rows and columns are multiples of these


def _check(tensor):
    if not isinstance(tensor, tessera.Tensor) or tensor.layout != tessera.strided:
        raise RuntimeError("to_sparse_semi_structured expects a strided tensor")
    if tensor.dim() != 2:
        raise RuntimeError(
            f"Error original_tensor.dim = {tensor.dim()} is not supported! Only 2d tensors are supported."
        )
    if str(tensor.dtype).rpartition(".")[2] not in _DTYPES:
        raise RuntimeError(
            f"Error original_tensor.dtype {tensor.dtype} is not a supported dtype! dtype must be one of: {_DTYPES}"
        )
    if tensor.shape[1] % _SMALLEST[1]:
        raise RuntimeError(
            f"Error original_tensor.shape {tuple(tensor.shape)} is not supported! The number of columns must be a "
            f"multiple of {_SMALLEST[1]}"
        )


def _pack(dense):
    """(kept elements, their places): the two greatest of each group of four, in order. Others must be zero."""
    rows, columns = dense.shape
    groups = dense.reshape(rows, columns // 4, 4)
    places = (groups != 0).to(tessera.int8).topk(2, dim=-1).indices.sort(dim=-1).values
    kept = groups.gather(-1, places)
    if int((groups != 0).sum()) != int((kept != 0).sum()):
        raise RuntimeError(
            "the tensor is not 2:4 sparse: a group of four neighbours in a row has more than two nonzero elements"
        )
    meta = (places[..., 0] + 4 * places[..., 1]).to(tessera.int8)
    return kept.reshape(rows, columns // 2).contiguous(), meta.contiguous()


def _unpack(packed, meta, columns):
    rows = packed.shape[0]
    places = tessera.stack((meta % 4, meta // 4), -1).long()
    groups = tessera.zeros(rows, columns // 4, 4, dtype=packed.dtype, device=packed.device)
    return groups.scatter(-1, places, packed.reshape(rows, columns // 4, 2)).reshape(rows, columns)


def _prune(dense):
    """The tensor with the two greatest magnitudes of each group of four kept, zeros elsewhere."""
    groups = dense.reshape(dense.shape[0], -1, 4)
    keep = tessera.zeros_like(groups, dtype=tessera.bool).scatter(
        -1, groups.abs().float().topk(2, dim=-1).indices, True
    )
    return tessera.where(keep, groups, tessera.zeros_like(groups)).reshape(dense.shape)


class SparseSemiStructuredTensor(tessera.Tensor):
    """A 2:4 sparse matrix. Products with strided matrices, `F.linear`, `t`, `detach`, `to_dense` work on it; other
    operators raise NotImplementedError.
    """

    __torch_function__ = tessera._C._disabled_torch_function_impl

    BACKEND = "tessera"
    _DEFAULT_ALG_ID = 0
    _FORCE_CUTLASS = False
    _FUSE_TRANSPOSE = False
    _PROTOTYPE_WARNING_SHOWN = False

    @staticmethod
    def __new__(
        cls,
        shape,
        packed,
        meta,
        packed_t,
        meta_t,
        compressed_swizzled_bitmask,
        fuse_transpose_cusparselt=False,
        alg_id_cusparselt=0,
        requires_grad=False,
    ):
        like = packed if packed is not None else packed_t
        if like is None:
            raise ValueError("At least one of packed or packed_t must be provided")
        made = tessera.Tensor._make_wrapper_subclass(
            cls, tuple(shape), device=like.device, dtype=like.dtype, layout=like.layout, requires_grad=requires_grad
        )
        made.packed, made.meta, made.packed_t, made.meta_t = packed, meta, packed_t, meta_t
        made.compressed_swizzled_bitmask = compressed_swizzled_bitmask
        made.fuse_transpose_cusparselt = fuse_transpose_cusparselt
        made.alg_id_cusparselt = alg_id_cusparselt
        return made

    packed = meta = packed_t = meta_t = compressed_swizzled_bitmask = None

    @classmethod
    def from_dense(cls, original_tensor):
        """Packs a 2:4 sparse matrix. RuntimeError if it is none."""
        _check(original_tensor)
        packed, meta = _pack(original_tensor.detach())
        return cls(original_tensor.shape, packed, meta, None, None, None, requires_grad=original_tensor.requires_grad)

    @classmethod
    def prune_dense_static_sort(cls, original_tensor, algorithm=""):
        """Packs what is left of a matrix when only the two greatest magnitudes of each group of four are kept."""
        if algorithm not in ("", "largest_values_greedy", "causal1122"):
            raise ValueError(f"unknown algorithm {algorithm!r}: the two greatest magnitudes are kept")
        return cls.from_dense(_prune(original_tensor.detach()))

    def to_dense(self):
        """The strided matrix."""
        if self.packed is not None:
            return _unpack(self.packed, self.meta, self.shape[1])
        return _unpack(self.packed_t, self.meta_t, self.shape[0]).t()

    def _transposed(self):
        return type(self)((self.shape[1], self.shape[0]), self.packed_t, self.meta_t, self.packed, self.meta, None)

    def __repr__(self):
        return f"{type(self).__name__}(shape={tuple(self.shape)})"

    def __tensor_flatten__(self):
        names = [n for n in ("packed", "meta", "packed_t", "meta_t") if getattr(self, n) is not None]
        return names, (self.shape, self.fuse_transpose_cusparselt, self.alg_id_cusparselt, self.requires_grad)

    @classmethod
    def __tensor_unflatten__(cls, inner_tensors, tensor_meta, outer_size, outer_stride):
        shape, fuse, algorithm, requires_grad = tensor_meta
        if outer_stride is not None and len(outer_stride) != 2:
            raise RuntimeError(f"expected the strides of a matrix, but got {tuple(outer_stride)}")
        parts = [inner_tensors.get(n) for n in ("packed", "meta", "packed_t", "meta_t")]
        return cls(outer_size if shape is None else shape, *parts, None, fuse, algorithm, requires_grad)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        rule = _RULES.get(str(func).partition(".")[2].partition(".")[0])
        if rule is None:
            raise NotImplementedError(
                f"{cls.__name__} only supports a specific set of operations, can't perform requested op "
                f"({func.__name__}): use to_dense()"
            )
        return rule(*args, **(kwargs or {}))


def _dense(value):
    return value.to_dense() if isinstance(value, SparseSemiStructuredTensor) else value


def _product(a, b):
    return tessera.mm(_dense(a), _dense(b))


def _added_product(bias, a, b, *, beta=1, alpha=1):
    return tessera.addmm(bias, _dense(a), _dense(b), beta=beta, alpha=alpha)


def _linear(input, weight, bias=None):
    return tessera.nn.functional.linear(_dense(input), _dense(weight), bias)


def _twin(tensor):
    return type(tensor)(
        tensor.shape, tensor.packed, tensor.meta, tensor.packed_t, tensor.meta_t, tensor.compressed_swizzled_bitmask
    )


def _copy(tensor, **kwargs):
    kwargs = {k: v for k, v in kwargs.items() if k in ("dtype", "device") and v is not None}
    parts = []
    for name in ("packed", "meta", "packed_t", "meta_t"):
        part = getattr(tensor, name)
        if part is not None:
            part = (
                part.to(**kwargs).clone() if name.startswith("packed") else part.to(device=kwargs.get("device")).clone()
            )
        parts.append(part)
    return type(tensor)(tensor.shape, *parts, tensor.compressed_swizzled_bitmask)


_RULES = {
    "mm": _product,
    "matmul": _product,
    "addmm": _added_product,
    "linear": _linear,
    "t": SparseSemiStructuredTensor._transposed,
    "transpose": lambda tensor, a, b: tensor._transposed() if {a % 2, b % 2} == {0, 1} else _twin(tensor),
    "detach": _twin,
    "alias": _twin,
    "values": lambda tensor: tensor.packed.detach(),
    "indices": lambda tensor: tensor.meta.detach(),
    "clone": _copy,
    "_to_copy": _copy,
    "to_dense": lambda tensor, *args, **kwargs: tensor.to_dense(),
    "is_same_size": lambda a, b: a.shape == b.shape,
}


class SparseSemiStructuredTensorCUTLASS(SparseSemiStructuredTensor):
    """The 2:4 matrix of the kernels that read places in 2 bits of 16 or 32."""

    BACKEND = "cutlass"


class SparseSemiStructuredTensorCUSPARSELT(SparseSemiStructuredTensor):
    """The 2:4 matrix of NVIDIA's library."""

    BACKEND = "cusparselt"


def to_sparse_semi_structured(original_tensor, transposed=False):
    """Packs a 2:4 sparse matrix: of each four neighbours in a row two at most are not zero.

    Args:
        original_tensor: (rows, columns) of int8, float16, bfloat16 or float32, columns a multiple of 4.
        transposed: deprecated, must be False.

    Raises: RuntimeError if the tensor has another shape or dtype, or is not 2:4 sparse.

        >>> a = tessera.tensor([[0.0, 1.0, 0.0, 2.0]])
        >>> tessera.sparse.to_sparse_semi_structured(a).to_dense()
        tensor([[0., 1., 0., 2.]])
    """
    if transposed:
        raise DeprecationWarning("transposed=True was removed: transpose the result")
    kind = (
        SparseSemiStructuredTensorCUTLASS
        if SparseSemiStructuredTensor._FORCE_CUTLASS
        else SparseSemiStructuredTensorCUSPARSELT
    )
    return kind.from_dense(original_tensor)
