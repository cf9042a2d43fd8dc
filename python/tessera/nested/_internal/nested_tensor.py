"""Jagged tensors: components that differ in one dimension, lying one behind the other in one tensor."""

import tessera
from tessera.nested._internal.base import Nested
from tessera.nested._internal.nested_int import NestedInt
from tessera.utils.weak import WeakIdKeyDictionary

__all__ = ["NestedTensor"]

# The symbol of each tensor of offsets (or of lengths, where there are holes).
_tensor_symint_registry = WeakIdKeyDictionary()


def get_tensor_symint(tensor, *, coeff=1):
    """The symbol for the ragged size that the offsets (or lengths) `tensor` describe."""
    found = _tensor_symint_registry.get(tensor)
    if found is None:
        found = _tensor_symint_registry[tensor] = NestedInt()
    return found if coeff == 1 else found * coeff


class NestedTensor(Nested):
    """A jagged tensor of B components.

    Args:
        values: the components behind each other along dimension `_ragged_idx` - 1.
        offsets: (B + 1,) integers: where each begins, and the end of the last.
        lengths: (B,) integers: how long each is; without them a component ends where the next begins.
        _ragged_idx: which dimension of the nested tensor is ragged.
        _metadata_cache: {"min_seqlen": int, "max_seqlen": int} as far as known.
    """

    _layout = tessera.jagged
    _operators = "tessera.nested._internal.ops"

    @staticmethod
    def __new__(cls, values, offsets, *, lengths=None, _ragged_idx=1, _metadata_cache=None, requires_grad=False):
        sizes = list(values.shape)
        result = cls._make((offsets.shape[0] - 1, *sizes), values)
        result._values, result._offsets, result._lengths = values, offsets, lengths
        result._ragged_idx = _ragged_idx
        result._metadata_cache = {} if _metadata_cache is None else _metadata_cache
        get_tensor_symint(offsets if lengths is None else lengths)  # symbols are numbered as tensors are made
        if requires_grad:
            values.requires_grad_()
        return result

    def _like(self, values, ragged_idx=None):
        """A jagged tensor with the same lengths over other values."""
        return NestedTensor(
            values,
            self._offsets,
            lengths=self._lengths,
            _ragged_idx=self._ragged_idx if ragged_idx is None else ragged_idx,
            _metadata_cache=self._metadata_cache,
        )

    @property
    def _size(self):
        sizes = list(self._values.shape)
        sizes[self._ragged_idx - 1] = get_tensor_symint(self._offsets if self._lengths is None else self._lengths)
        return (self._offsets.shape[0] - 1, *sizes)

    @property
    def _strides(self):
        strides = self._values.stride()
        ragged = self._size[self._ragged_idx]
        return (strides[self._ragged_idx - 1] * ragged, *strides)

    def _same_sizes(self, other):
        return self._size == other._size if isinstance(other, NestedTensor) else False

    def _bounds(self):
        """(begin, length) of each component; checked once that they lie inside of the values."""
        bounds = self._metadata_cache.get("bounds")
        if bounds is None:
            starts = self._offsets.tolist()
            lengths = [b - a for a, b in zip(starts, starts[1:])] if self._lengths is None else self._lengths.tolist()
            bounds = self._metadata_cache["bounds"] = list(zip(starts, lengths))
        total = self._values.shape[self._ragged_idx - 1]
        if any(start < 0 or length < 0 or start + length > total for start, length in bounds):
            raise RuntimeError(
                f"the offsets {self._offsets.tolist()} and lengths {[length for _, length in bounds]} do not lie inside"
                f" of the {total} entries of the values"
            )
        return bounds

    def _parts(self):
        """The components, views of the values."""
        dim = self._ragged_idx - 1
        return [self._values.narrow(dim, start, length) for start, length in self._bounds()]

    def _row_ids(self):
        """For each entry along the ragged dimension, the component that it belongs to."""
        self._bounds()
        places = tessera.arange(self._values.shape[self._ragged_idx - 1], device=self._offsets.device)
        rows = tessera.bucketize(places, self._offsets[1:].to(places.dtype), right=True)
        return rows.clamp(max=max(len(self._offsets) - 2, 0))

    def _places(self):
        """For each entry of values without holes, its component and its place in it."""
        rows = self._row_ids()
        return rows, tessera.arange(rows.shape[0], device=rows.device) - self._offsets[:-1].index_select(0, rows)

    def _packed(self):
        """The same components without holes; itself where there are none."""
        if self._lengths is None:
            total = self._values.shape[self._ragged_idx - 1]
            bounds = self._bounds()
            if not bounds or (bounds[0][0] == 0 and sum(bounds[-1]) == total):
                return self
        parts = self._parts()
        return _from_parts(parts, self._ragged_idx)

    def values(self):
        """The tensor in which the components lie one behind the other."""
        return self._values

    def offsets(self):
        """Where each component begins, and the end of the last."""
        return self._offsets

    def lengths(self):
        """How long each component is, or None where each ends where the next begins."""
        return self._lengths

    def _extreme(self, name, choose):
        found = self._metadata_cache.get(name)
        if found is None:
            found = self._metadata_cache[name] = choose((length for _, length in self._bounds()), default=0)
        return _length(found)

    def _get_max_seqlen(self):
        return self._extreme("max_seqlen", max)

    def _get_min_seqlen(self):
        return self._extreme("min_seqlen", min)

    _max_seqlen = property(_get_max_seqlen)
    _min_seqlen = property(_get_min_seqlen)
    _maybe_max_seqlen = property(lambda self: self._metadata_cache.get("max_seqlen"))
    _maybe_min_seqlen = property(lambda self: self._metadata_cache.get("min_seqlen"))

    def _known_extreme(self, name):
        """A known length as the first size of an empty tensor, the form in which wrappers hand on what is no tensor."""
        found = self._metadata_cache.get(name)
        return None if found is None else tessera.zeros(_length(found), 0)

    _max_seqlen_tensor = property(lambda self: self._known_extreme("max_seqlen"))
    _min_seqlen_tensor = property(lambda self: self._known_extreme("min_seqlen"))

    def __tensor_flatten__(self):
        """(names of the attributes with its tensors, what else __tensor_unflatten__() needs)."""
        optional = ("_lengths", "_min_seqlen_tensor", "_max_seqlen_tensor")
        names = ["_values", "_offsets", *(name for name in optional if getattr(self, name) is not None)]
        return names, {"requires_grad": self.requires_grad, "ragged_idx": self._ragged_idx}

    @staticmethod
    def __tensor_unflatten__(inner_tensors, meta, outer_size, outer_stride):
        """A jagged tensor of the tensors that __tensor_flatten__() names; its sizes follow from them."""
        known = {name: inner_tensors.get(f"_{name}_tensor") for name in ("min_seqlen", "max_seqlen")}
        return NestedTensor(
            inner_tensors["_values"],
            inner_tensors["_offsets"],
            lengths=inner_tensors.get("_lengths"),
            _ragged_idx=meta["ragged_idx"],
            _metadata_cache={name: t.shape[0] for name, t in known.items() if t is not None},
            requires_grad=meta["requires_grad"],
        )

    def _is_contiguous_or_false(self):
        return self._lengths is None and self._values.is_contiguous()

    def __repr__(self, *, tensor_contents=None):
        values = self._values
        history = ""
        if values.grad_fn is not None:
            history = f", grad_fn={values.grad_fn}"
        elif values.requires_grad:
            history = ", requires_grad=True"
        size = "(" + ", ".join(map(str, self._size)) + ")"
        shown = "" if tensor_contents is None else f", {tensor_contents}"
        return (
            f"NestedTensor(size={size}, offsets={self._offsets}{history}, "
            f"contiguous={self._is_contiguous_or_false()}{shown})"
        )

    def __deepcopy__(self, memo):
        import copy

        return self._like(copy.deepcopy(self._values, memo))

    def __reduce_ex__(self, protocol):
        from tessera._tensor import _rebuild_from_type_v2

        parts = {
            "values": self._values,
            "offsets": self._offsets,
            "lengths": self._lengths,
            "_ragged_idx": self._ragged_idx,
            "_metadata_cache": {
                key: tessera.zeros(_length(value), 0) for key, value in self._metadata_cache.items() if key != "bounds"
            },
            "requires_grad": self._values.requires_grad,
        }
        return _rebuild_from_type_v2, (_rebuild_njt, NestedTensor, (parts,), {})

    # PyTorch's pickles repeat as attributes what the parts say.
    _computed = ("_values", "_offsets", "_lengths", "_ragged_idx", "_metadata_cache", "_size", "_strides")

    def __setstate__(self, state):
        from tessera._utils import _set_obj_state

        if isinstance(state, dict):
            state = {name: value for name, value in state.items() if name not in self._computed}
        _set_obj_state(self, state)


def _length(value):
    """A known length: pickles hold it as the size of a tensor without elements."""
    return value.shape[0] if isinstance(value, tessera.Tensor) else int(value)


def check_parts(values, offsets, lengths, ragged_idx, name):
    """Refuses what cannot be the parts of a jagged tensor.

    Raises: TypeError for what are no tensors, RuntimeError for offsets or lengths that are no 1-D tensors of integers
    or do not fit together, IndexError for a ragged dimension that the values do not have.
    """
    if not isinstance(values, tessera.Tensor) or isinstance(values, Nested):
        raise TypeError(f"{name}(): expected values to be a plain tensor, got {type(values).__name__}")
    for what, given in (("offsets", offsets), ("lengths", lengths)):
        if given is None and what == "lengths":
            continue
        if not isinstance(given, tessera.Tensor):
            raise TypeError(f"{name}(): expected {what} to be a tensor, got {type(given).__name__}")
        if given.dtype.is_floating_point or given.dtype.is_complex or given.dtype is tessera.bool or given.dim() != 1:
            raise RuntimeError(
                f"{name}(): expected {what} to be a 1-D tensor of integers, got {given.dtype} of shape "
                f"{tuple(given.shape)}"
            )
    if offsets.numel() == 0 or (lengths is not None and lengths.numel() != offsets.numel() - 1):
        raise RuntimeError(
            f"{name}(): offsets must be (B + 1,) and lengths (B,), got {tuple(offsets.shape)}"
            f"{'' if lengths is None else f' and {tuple(lengths.shape)}'}"
        )
    if not isinstance(ragged_idx, int) or not 1 <= ragged_idx <= values.dim():
        raise IndexError(
            f"{name}(): the ragged dimension {ragged_idx} must be between 1 and {values.dim()} for values of shape "
            f"{tuple(values.shape)}"
        )


def _rebuild_njt(parts):
    """A jagged tensor of what its pickle holds: a dict with the arguments of NestedTensor."""
    values, offsets, lengths = (parts.get(key) for key in ("values", "offsets", "lengths"))
    ragged_idx = parts.get("_ragged_idx", 1)
    check_parts(values, offsets, lengths, ragged_idx, "NestedTensor")
    known = {
        key: _length(value)
        for key, value in dict(parts.get("_metadata_cache") or {}).items()
        if key in ("min_seqlen", "max_seqlen")
    }
    wanted = bool(parts.get("requires_grad")) and not values.requires_grad
    return NestedTensor(
        values, offsets, lengths=lengths, _ragged_idx=ragged_idx, _metadata_cache=known, requires_grad=wanted
    )


def _from_parts(parts, ragged_idx=1):
    """A jagged tensor of components that agree in all dimensions but `ragged_idx` - 1."""
    dim = ragged_idx - 1
    lengths = [part.shape[dim] for part in parts]
    values = tessera.cat(parts, dim)
    offsets = tessera.tensor([0, *lengths], device=values.device).cumsum(0)
    known = {"min_seqlen": min(lengths), "max_seqlen": max(lengths)}
    return NestedTensor(values, offsets, _ragged_idx=ragged_idx, _metadata_cache=known)


def jagged_from_list(tensors, offsets, dtype=None, device=None):
    """(jagged tensor, offsets) of a list of components; `offsets` where they are known.

    Raises: RuntimeError for an empty list, and for components that differ in dtype, device, number of dimensions, or in
    more than one size.
    """
    if not tensors:
        raise RuntimeError("Cannot construct a nested tensor from an empty tensor list")
    for name in ("dtype", "device", "ndim"):
        if len({getattr(t, name) for t in tensors}) > 1:
            shown = "dim" if name == "ndim" else name
            raise RuntimeError(f"When constructing a nested tensor, all tensors in list must have the same {shown}")
    if tensors[0].ndim == 0:
        raise RuntimeError("Cannot construct a nested tensor from a list of zero-dim tensors")
    ragged = [d for d in range(tensors[0].ndim) if len({t.shape[d] for t in tensors}) > 1]
    if len(ragged) > 1:
        raise RuntimeError(
            "Cannot represent given tensor list as a nested tensor with the jagged layout. Note that the jagged layout "
            "only represents shapes of the form (B, *_0, *_1, ..., *_N) with one ragged dim. Received list with "
            f"components of shapes {[tuple(t.shape) for t in tensors]}"
        )
    result = _from_parts(tensors, (ragged or [0])[0] + 1)
    if dtype is not None or device is not None:
        values = result._values.to(device=device, dtype=dtype)
        result = NestedTensor(
            values,
            result._offsets.to(values.device),
            _ragged_idx=result._ragged_idx,
            _metadata_cache=result._metadata_cache,
        )
    if offsets is not None:
        result = NestedTensor(
            result._values, offsets, _ragged_idx=result._ragged_idx, _metadata_cache=result._metadata_cache
        )
    return result, result._offsets


def nested_view_from_values_offsets(values, offsets, ragged_idx=1, min_seqlen=None, max_seqlen=None):
    """A jagged tensor over `values`, without a copy."""
    return nested_view_from_values_offsets_lengths(values, offsets, None, ragged_idx, min_seqlen, max_seqlen)


def nested_view_from_values_offsets_lengths(values, offsets, lengths, ragged_idx=1, min_seqlen=None, max_seqlen=None):
    """A jagged tensor over `values`, without a copy; `lengths` leave holes between components."""
    known = {"min_seqlen": min_seqlen, "max_seqlen": max_seqlen}
    known = {key: value for key, value in known.items() if value is not None}
    return NestedTensor(values, offsets, lengths=lengths, _ragged_idx=ragged_idx, _metadata_cache=known)


def buffer_from_jagged(jagged):
    """The values of a jagged tensor."""
    return jagged._values
