"""How tensors are taken apart for pickling and built again.

The names of the functions are part of the checkpoint format (a file written by PyTorch names
`torch._utils._rebuild_tensor_v2`),
so they, and the order of their arguments, can't change. Their arguments may come from a hostile file: each checks what
it gets,
and `set_`, which makes the tensors, checks their geometry.
"""

import contextlib
import threading
from collections import OrderedDict

import tessera
from tessera._lazy import require
from tessera.storage import TypedStorage, UntypedStorage, _class_name_of_dtype, _typed


def _make(untyped, dtype, offset, size, stride):
    return tessera.empty(0, dtype=dtype, device=untyped.device).set_(untyped, offset, size, stride)


def _rebuild_tensor(storage, storage_offset, size, stride):
    """A tensor over a typed storage. Raises: RuntimeError if it would leave the storage, TypeError for other
    arguments.
    """
    if not isinstance(storage, TypedStorage):
        raise TypeError(f"_rebuild_tensor expects a storage, but got {type(storage).__name__}")
    return _make(storage._untyped_storage, storage.dtype, storage_offset, size, stride)


def _finish(tensor, requires_grad, backward_hooks, metadata):
    if metadata:  # before requires_grad: what is saved is a leaf
        if metadata.get("conj"):
            tensor = tensor.conj()
        if metadata.get("neg"):
            tensor = tessera._neg_view(tensor)
    if requires_grad:
        tensor.requires_grad = True
    if backward_hooks:
        tensor._backward_hooks = backward_hooks
    return tensor


def _rebuild_tensor_v2(storage, storage_offset, size, stride, requires_grad, backward_hooks, metadata=None):
    tensor = _rebuild_tensor(storage, storage_offset, size, stride)
    if requires_grad or backward_hooks or metadata:
        tensor = _finish(tensor, requires_grad, backward_hooks, metadata)
    return tensor


def _rebuild_tensor_v3(storage, storage_offset, size, stride, requires_grad, backward_hooks, dtype, metadata=None):
    """Like v2 for dtypes that have no legacy storage class: the storage holds bytes."""
    untyped = storage._untyped_storage if isinstance(storage, TypedStorage) else storage
    if not isinstance(untyped, UntypedStorage) or not isinstance(dtype, tessera.dtype):
        raise TypeError(
            f"_rebuild_tensor_v3 expects a storage and a dtype, but got {type(storage).__name__} and "
            f"{type(dtype).__name__}"
        )
    return _finish(_make(untyped, dtype, storage_offset, size, stride), requires_grad, backward_hooks, metadata)


def _rebuild_parameter(data, requires_grad, backward_hooks):
    if not isinstance(data, tessera.Tensor):
        raise TypeError(f"_rebuild_parameter expects a tensor, but got {type(data).__name__}")
    param = tessera.nn.Parameter(data, requires_grad)
    if backward_hooks:
        param._backward_hooks = backward_hooks
    return param


def _rebuild_parameter_with_state(data, requires_grad, backward_hooks, state):
    param = _rebuild_parameter(data, requires_grad, backward_hooks)
    return _set_obj_state(param, state)


def _rebuild_meta_tensor_no_storage(dtype, size, stride, requires_grad):
    return tessera.empty_strided(size, stride, dtype=dtype, device="meta", requires_grad=requires_grad)


def _rebuild_device_tensor_from_numpy(data, dtype, device, requires_grad):
    tensor = tessera.from_numpy(data).to(dtype=dtype, device=device)
    tensor.requires_grad = requires_grad
    return tensor


_rebuild_xla_tensor = _rebuild_device_tensor_from_numpy


def _rebuild_device_tensor_from_cpu_tensor(data, dtype, device, requires_grad):
    tensor = data.to(dtype=dtype, device=device)
    tensor.requires_grad = requires_grad
    return tensor


_loading = threading.local()


@contextlib.contextmanager
def sparse_checked_at_the_end():
    """Members of sparse tensors that are rebuilt inside are checked when the block ends: in streams, the bytes of
    storages come behind the tensors.
    """
    outer = getattr(_loading, "unchecked", None)
    _loading.unchecked = made = []
    try:
        yield
    finally:
        _loading.unchecked = outer
    for layout, data in made:
        _rebuild_sparse_tensor(layout, data)


def _rebuild_sparse_tensor(layout, data):
    """A sparse tensor of any layout from its members; the members are checked against each other."""
    kind = str(layout).rpartition(".")[2]
    later = getattr(_loading, "unchecked", None)
    if later is not None:
        later.append((layout, data))
    if kind == "sparse_coo":
        indices, values, size, *coalesced = data
        coalesced = coalesced[0] if coalesced else None
        return tessera.sparse_coo_tensor(indices, values, size, check_invariants=later is None, is_coalesced=coalesced)
    if kind in ("sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"):
        compressed, plain, values, size = data
        return tessera.sparse_compressed_tensor(
            compressed, plain, values, size, layout=layout, check_invariants=later is None
        )
    raise NotImplementedError(f"rebuilding sparse tensor for layout {layout}")


def _rebuild_nested_tensor(buffer, sizes, strides, storage_offsets):
    return require("_nested_view_from_buffer", "loading a nested tensor")(buffer, sizes, strides, storage_offsets)


def _rebuild_qtensor(storage, storage_offset, size, stride, quantizer_params, requires_grad, backward_hooks):
    scheme = str(quantizer_params[0]).rpartition(".")[2]
    if scheme == "per_tensor_affine":
        _, scale, zero_point = quantizer_params
        make = require("_empty_affine_quantized", "loading a quantized tensor")
        tensor = make(size, scale=scale, zero_point=zero_point, dtype=storage.dtype, device=storage.device)
    elif scheme in ("per_channel_affine", "per_channel_affine_float_qparams"):
        _, scales, zero_points, axis = quantizer_params
        make = require("_empty_per_channel_affine_quantized", "loading a quantized tensor")
        tensor = make(
            size, scales=scales, zero_points=zero_points, axis=axis, dtype=storage.dtype, device=storage.device
        )
    else:
        raise RuntimeError(f"Can't deserialize quantized tensor with qscheme {quantizer_params[0]}")
    tensor.set_(storage._untyped_storage, storage_offset, size, stride)
    return _finish(tensor, requires_grad, backward_hooks, None)


def _rebuild_wrapper_subclass(cls, dtype, size, stride, storage_offset, layout, device, requires_grad):
    """A tensor of a class that handles operators itself; what it wraps is in its attributes, which come later."""
    if not (isinstance(cls, type) and issubclass(cls, tessera.Tensor)):
        raise TypeError(f"_rebuild_wrapper_subclass: expected a class of tensors, but got {cls!r}")
    return tessera.Tensor._make_wrapper_subclass(
        cls,
        size,
        strides=stride,
        dtype=dtype,
        storage_offset=storage_offset,
        layout=layout,
        device=device,
        requires_grad=requires_grad,
    )


def _element_size(dtype):
    """Bytes of an element of a dtype. RuntimeError for anything else."""
    if not isinstance(dtype, tessera.dtype):
        raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
    return dtype.itemsize


def _get_available_device_type():
    """The kind of accelerator that can be used, such as "cuda"; None without one."""
    accelerator = tessera.accelerator.current_accelerator(check_available=True)
    return None if accelerator is None else accelerator.type


def _get_device_module(device_type):
    """The module of functions for a kind of device. RuntimeError for one that has none."""
    return tessera.get_device_module(device_type)


def _get_device_index(device, optional=False, allow_cpu=False):
    """The number of a device: itself if it is an int, -1 for the CPU where that is allowed.

    optional: a device without a number (and None) is that which is selected; None where there is no accelerator.

    Raises: ValueError for the CPU where it is not allowed, and where there is no number.
    """
    if isinstance(device, int):
        return device
    device = tessera.device(device) if isinstance(device, str) else device
    if isinstance(device, tessera.device):
        if device.type == "cpu":
            if not allow_cpu:
                raise ValueError(f"Expected a non cpu device, but got: {device}")
            return -1
        if device.index is not None:
            return device.index
    if not optional:
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")
    return tessera.accelerator.current_device_index() if tessera.accelerator.is_available() else None


def _get_obj_state(obj):
    """Attributes that a subclass or a user put on a tensor: a dict, (dict, slots) or None."""
    getstate = getattr(type(obj), "__getstate__", None)
    if getstate is not None and getstate is not getattr(object, "__getstate__", None):
        return obj.__getstate__()
    attributes = getattr(obj, "__dict__", None) or None
    slots = {}
    for cls in type(obj).__mro__:
        names = cls.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if name not in ("__dict__", "__weakref__") and hasattr(obj, name):
                slots[name] = getattr(obj, name)
    if slots:
        return attributes, slots
    return attributes


def _set_obj_state(obj, state):
    """Puts back what `_get_obj_state` took. Raises: RuntimeError for a state that is no dict or pair of dicts."""
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    for part in (attributes, slots):
        if part is not None and not isinstance(part, dict):
            raise RuntimeError(f"Invalid serialized state: {type(state).__name__}")
        for name, value in (part or {}).items():
            setattr(obj, name, value)
    return obj


def _hooks_of(tensor):
    from tessera.utils.hooks import warn_if_has_hooks

    warn_if_has_hooks(tensor)
    return OrderedDict()


def _reduce_strided(tensor):
    hooks = OrderedDict() if not tensor.requires_grad else _hooks_of(tensor)
    dtype = tensor.dtype
    metadata = {}
    if dtype.is_complex and tensor.is_conj():
        metadata["conj"] = True
    if tensor.is_neg():
        metadata["neg"] = True
    geometry = (tensor.storage_offset(), tuple(tensor.size()), tensor.stride(), tensor.requires_grad, hooks)
    untyped = tensor.untyped_storage()
    if dtype not in _class_name_of_dtype:
        return _rebuild_tensor_v3, (untyped, *geometry, dtype) + ((metadata,) if metadata else ())
    return _rebuild_tensor_v2, (_typed(untyped, dtype), *geometry) + ((metadata,) if metadata else ())


def _members(tensor):
    """The strided tensors that hold the elements of `tensor`: itself, or the members of its layout."""
    kind = str(tensor.layout).rpartition(".")[2]
    if kind == "sparse_coo":
        return tensor._indices(), tensor._values()
    if kind in ("sparse_csr", "sparse_bsr"):
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    if kind in ("sparse_csc", "sparse_bsc"):
        return tensor.ccol_indices(), tensor.row_indices(), tensor.values()
    return (tensor,)


def _reduce_sparse(tensor, kind):
    flag = (tensor.is_coalesced(),) if kind == "sparse_coo" else ()
    return _rebuild_sparse_tensor, (tensor.layout, (*_members(tensor), tensor.size(), *flag))


def _reduce_quantized(tensor):
    scheme = tensor.qscheme()
    if str(scheme).endswith("per_tensor_affine"):
        params = (scheme, tensor.q_scale(), tensor.q_zero_point())
    else:
        params = (
            scheme,
            tensor.q_per_channel_scales(),
            tensor.q_per_channel_zero_points(),
            tensor.q_per_channel_axis(),
        )
    storage = _typed(tensor.untyped_storage(), tensor.dtype)
    return _rebuild_qtensor, (
        storage,
        tensor.storage_offset(),
        tuple(tensor.size()),
        tensor.stride(),
        params,
        tensor.requires_grad,
        OrderedDict(),
    )


def _reduce_tensor(tensor):
    """(function, arguments) that rebuild `tensor` as a plain tensor (what wraps others: as one without memory)."""
    if tessera._tensor._is_wrapper(tensor):
        return _rebuild_wrapper_subclass, (
            type(tensor),
            tensor.dtype,
            tuple(tensor.size()),
            tensor.stride(),
            tensor.storage_offset(),
            tensor.layout,
            tensor.device,
            tensor.requires_grad,
        )
    kind = str(tensor.layout).rpartition(".")[2]
    if kind.startswith("sparse"):
        return _reduce_sparse(tensor, kind)
    if tensor.is_quantized:
        return _reduce_quantized(tensor)
    if tensor.is_meta:
        return _rebuild_meta_tensor_no_storage, (
            tensor.dtype,
            tuple(tensor.size()),
            tensor.stride(),
            tensor.requires_grad,
        )
    if tensor.is_nested:
        return _rebuild_nested_tensor, (
            tensor.values(),
            tensor._nested_tensor_size(),
            tensor._nested_tensor_strides(),
            tensor._nested_tensor_storage_offsets(),
        )
    return _reduce_strided(tensor)


def reduce_tensor_ex(tensor, protocol):
    """`Tensor.__reduce_ex__`: plain tensors as they are, subclasses and tensors with attributes through their type.

    Raises: RuntimeError for a tensor with named dimensions. One that is not a leaf of the graph is refused when it is
    deep-copied, never here.
    """
    if tensor.has_names():
        raise RuntimeError(
            "NYI: Named tensors don't support serialization. Please drop names via `tensor = tensor.rename(None)` "
            "before serialization."
        )
    state = _get_obj_state(tensor)
    function, args = _reduce_tensor(tensor)
    if type(tensor) is tessera.Tensor and not state:
        return function, args
    return tessera._tensor._rebuild_from_type_v2, (function, type(tensor), args, state)


def reduce_parameter_ex(param, protocol):
    """`Parameter.__reduce_ex__`."""
    state = _get_obj_state(param)
    hooks = OrderedDict()
    if state:
        return _rebuild_parameter_with_state, (param.data, param.requires_grad, hooks, state)
    return _rebuild_parameter, (param.data, param.requires_grad, hooks)


class KeyErrorMessage(str):
    """The text of a KeyError that spans lines: prints as it is, not quoted."""

    __slots__ = ()

    def __repr__(self):
        return str(self)


class ExceptionWrapper:
    """An exception with its traceback as text, to be raised again in another process or thread."""

    def __init__(self, exc_info=None, where="in background"):
        import sys
        import traceback

        kind, error, trace = exc_info or sys.exc_info()
        self.exc_type, self.where = kind, where
        self.exc_msg = "".join(traceback.format_exception(kind, error, trace))

    def _again(self):
        text = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            return KeyError(KeyErrorMessage(text))
        try:
            return self.exc_type(message=text) if getattr(self.exc_type, "message", None) else self.exc_type(text)
        except Exception:
            return RuntimeError(text)

    def reraise(self):
        """Raises an exception of the original type; RuntimeError if that type can't be built from a message."""
        raise self._again()


def _flatten_dense_tensors(tensors):
    """The numbers of dense tensors of one dtype, one after the other: a tensor of one dimension."""
    return tessera.cat([tensor.contiguous().view(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat, tensors):
    """Views of what `_flatten_dense_tensors` made, in the shapes of `tensors`: a tuple."""
    parts = flat.split([tensor.numel() for tensor in tensors])
    return tuple(part.view_as(tensor) for part, tensor in zip(parts, tensors))
