"""Python side of the Tensor type: methods that need no speed. `install` adds to the extension's type those that it does
not define itself.
"""

import math
import warnings

import tessera
from tessera._linalg_utils import removed
from tessera import _C

_DEEPCOPY_NON_LEAF = (
    "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.  If you "
    "were "
    "attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage, see "
    "https://github.com/pytorch/pytorch/pull/103001"
)


def _rebuild_from_type_v2(func, new_type, args, state):
    """Builds a tensor with `func(*args)`, makes it an instance of `new_type`, restores its attributes.

    Raises: TypeError if `func` gives no tensor or `new_type` is no type of tensors.
    """
    tensor = func(*args)
    if not isinstance(tensor, tessera.Tensor) or not (
        isinstance(new_type, type) and issubclass(new_type, tessera.Tensor)
    ):
        raise TypeError(f"expected a tensor and a type of tensors, but got {type(tensor).__name__} and {new_type!r}")
    if type(tensor) is not new_type:
        tensor = tensor.as_subclass(new_type)
    if state is None:
        return tensor
    setstate = getattr(new_type, "__setstate__", None)
    if setstate is not None and setstate is not getattr(tessera.Tensor, "__setstate__", None):
        tensor.__setstate__(state)
        return tensor
    from tessera._utils import _set_obj_state

    return _set_obj_state(tensor, state)


def _rebuild_from_type(func, type, args, dict):
    """The form of old checkpoints."""
    return _rebuild_from_type_v2(func, type, args, dict)


def _overridable(method):
    """Lets subclasses and modes take a method over."""
    name = method.__name__

    def overridable(self, *args, **kwargs):
        if _C._has_torch_function_variadic(self, *args):
            return _C._handle_torch_function(getattr(tessera.Tensor, name), (self, *args), self, *args, **kwargs)
        return method(self, *args, **kwargs)

    overridable.__name__ = name
    overridable.__qualname__ = f"Tensor.{name}"
    overridable.__module__ = "tessera"  # where pickle finds Tensor
    overridable.__doc__ = method.__doc__
    overridable.__wrapped__ = method
    return overridable


def _as_class(result, cls):
    """Plain tensors among results (also in tuples and lists) as instances of the subclass."""
    if cls is tessera.Tensor:
        return result
    if isinstance(result, tessera.Tensor):
        return result if isinstance(result, cls) else result.as_subclass(cls)
    if isinstance(result, (tuple, list)):
        return type(result)(_as_class(item, cls) for item in result)
    return result


def _keeps_class(func):
    """Whether what `func` returns belongs to somebody else: a gradient or a base stays what it is."""
    return getattr(func, "__name__", "") == "__get__" and getattr(getattr(func, "__self__", None), "__name__", "") in (
        "grad",
        "_grad",
        "_base",
    )


def __torch_function__(cls, func, types, args=(), kwargs=None):
    """What subclasses inherit: runs `func` as for plain tensors, and makes its results instances of `cls`."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    saved = _C._set_torch_function_subclass_disabled(True)
    try:
        result = func(*args, **(kwargs or {}))
    finally:
        _C._set_torch_function_subclass_disabled(saved)
    return result if _keeps_class(func) else _as_class(result, cls)


def __repr__(self, *, tensor_contents=None):
    from tessera import _tensor_str

    return _tensor_str._str(self, tensor_contents=tensor_contents)


def __format__(self, format_spec):
    if self.dim() == 0 and not self.is_meta and type(self) is tessera.Tensor:
        return self.item().__format__(format_spec)
    return object.__format__(self, format_spec)


def __reduce_ex__(self, protocol):
    from tessera import _utils

    return _utils.reduce_tensor_ex(self, protocol)


def __setstate__(self, state):
    """Restores what pickles of PyTorch 0.4 and before hold; attributes otherwise."""
    if isinstance(state, dict):
        self.__dict__.update(state)
        return
    if not self.is_leaf:
        raise RuntimeError("__setstate__ can be only called on leaf Tensors")
    if len(state) == 4:  # storage, offset, size, stride
        self.set_(*state)
    elif len(state) == 5:
        data, self.requires_grad = state[0], state[3]
        self.data = data
    else:
        raise RuntimeError(f"unexpected state of {len(state)} entries")


def __deepcopy__(self, memo):
    """A copy with a storage of its own; tensors that share a storage share the copy of it. Leaves only
    (RuntimeError).
    """
    if tessera.overrides.has_torch_function_unary(self):
        return tessera.overrides.handle_torch_function(tessera.Tensor.__deepcopy__, (self,), self, memo)
    if not self.is_leaf:
        raise RuntimeError(_DEEPCOPY_NON_LEAF)
    if id(self) in memo:
        return memo[id(self)]
    import copy

    from tessera import _utils
    from tessera.storage import keep_with_memo

    wrapper = _is_wrapper(self)
    with tessera.no_grad():
        result = self.clone() if wrapper else _copy_data(self, memo)
        if type(self) is not tessera.Tensor:
            result = result.as_subclass(type(self)) if type(result) is not type(self) else result
        result.requires_grad_(self.requires_grad)
        if self.has_names():
            result.names = self.names
        if self.grad is not None:
            result.grad = copy.deepcopy(self.grad, memo)
        memo[id(self)] = result
        keep_with_memo(memo, self)
        state = _utils._get_obj_state(self)
        if wrapper:  # its clone has what the class gives every tensor
            state = {key: value for key, value in self.__dict__.items() if key not in result.__dict__}
        if state:
            _utils._set_obj_state(result, copy.deepcopy(state, memo))
    return result


def _is_wrapper(tensor):
    """Whether the class handles operators itself, without memory of the tensor's own."""
    return _takes_operators(type(tensor)) and tensor.untyped_storage().nbytes() == 0


def _takes_operators(cls):
    """Whether a class of tensors has a `__torch_dispatch__` that operators are given to."""
    return cls.__torch_dispatch__ is not _C._disabled_torch_dispatch_impl


def _copy_data(tensor, memo):
    plain = tensor.detach()
    if type(plain) is not tessera.Tensor:
        plain = plain.as_subclass(tessera.Tensor)
    if not str(plain.layout).endswith("strided") or plain.is_quantized or plain.is_meta or plain.is_nested:
        return plain.clone()
    storage = plain.untyped_storage().__deepcopy__(memo)
    copied = tessera.empty(0, dtype=plain.dtype, device=plain.device)
    copied.set_(storage, plain.storage_offset(), plain.size(), plain.stride())
    if plain.dtype.is_complex and plain.is_conj():
        copied = copied.conj()
    return tessera._neg_view(copied) if plain.is_neg() else copied


def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    """Adds to `.grad` of the leaves the gradient of this tensor; see `autograd.backward`.

    `gradient` has the shape of the tensor and may be left out for a scalar.
    """
    from tessera import autograd

    autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)


def storage(self):
    """Deprecated: the typed storage."""
    from tessera.storage import _warn_deprecated

    _warn_deprecated(2)
    return _typed_storage(self)


def _typed_storage(self):
    from tessera.storage import _typed

    return _typed(self.untyped_storage(), self.dtype)


def storage_type(self):
    """Deprecated: the class of the typed storage."""
    from tessera.storage import _class_name_of_dtype

    return getattr(tessera, _class_name_of_dtype[self.dtype])


def to_sparse_coo(self):
    """The tensor in COO layout; self if it is."""
    return self.to_sparse()


def is_shared(self):
    """True if the data lies in memory that other processes can share."""
    return self.is_cuda or self.untyped_storage().is_shared()


def share_memory_(self):
    """Moves the data of a tensor on the CPU to memory that processes share; such tensors can't be resized.

    Returns: the tensor.
    """
    if self.device.type == "cpu":
        from tessera import _utils

        for member in _utils._members(self):
            member.untyped_storage().share_memory_()
    return self


def module_load(self, other, assign=False):
    """How `load_state_dict` puts `other` into this parameter, under
    `__future__.set_swap_module_params_on_conversion`.
    """
    if assign:
        return other.detach()
    return self.copy_(other).detach()


def __reversed__(self):
    """The tensor flipped along dimension 0."""
    return self if self.dim() == 0 else self.flip(0)


def __iter__(self):
    if self.dim() == 0:
        raise TypeError("iteration over a 0-d tensor")
    if tessera._C._jit.is_tracing():
        tessera.jit._host.trace_warning("iteration", level=3)
    return iter(self.unbind(0))


def __contains__(self, element):
    """True if an element (a number or tensor) equals one of the values."""
    if isinstance(element, (tessera.Tensor, int, float, complex, bool)):
        return bool((element == self).any().item())
    raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")


def __hash__(self):
    return id(self)


def __dir__(self):
    names = set(dir(type(self))) | set(self.__dict__)
    names.discard("volatile")
    if not self.is_cuda:
        names.discard("__cuda_array_interface__")
    return sorted(names)


def __array__(self, dtype=None, copy=None):
    array = self.numpy()
    if copy:
        array = array.copy()
    return array if dtype is None else array.astype(dtype, copy=False)


def __array_wrap__(self, array, context=None, return_scalar=False):
    if array.dtype == bool:
        array = array.astype("uint8")  # comparisons of NumPy functions
    return tessera.from_numpy(array)


def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
    from tessera.utils import dlpack

    return dlpack.export(self, stream, max_version, dl_device, copy)


def __dlpack_device__(self):
    from tessera.utils import dlpack

    return dlpack.device_of(self)


def register_hook(self, hook):
    """Calls `hook(grad)` when the gradient of this tensor is there; a result other than None replaces it.

    Returns: a handle with `remove()`. Raises: RuntimeError if the tensor requires no gradient.
    """
    return _C._register_hook(self, hook)


def register_post_accumulate_grad_hook(self, hook):
    """Calls `hook(tensor)` after the gradient was added to `.grad` of this leaf. Returns a handle with `remove()`."""
    return _C._register_post_accumulate_grad_hook(self, hook)


def where(self, condition, y):
    """`self` where the condition is true, `y` (a tensor or number) elsewhere."""
    return tessera.where(condition, self, y)


def norm(self, p="fro", dim=None, keepdim=False, dtype=None):
    """See `norm`."""
    return tessera.functional.norm.__wrapped__(self, p, dim, keepdim, dtype=dtype)  # overriding has been asked about


def lu(self, pivot=True, get_infos=False):
    """See `lu`."""
    return tuple(tessera.functional.lu.__wrapped__(self, pivot, get_infos))


def to_padded_tensor(self, padding, output_size=None):
    """`tessera.nested.to_padded_tensor(self, ...)`: of nested tensors only."""
    from tessera import nested

    return nested.to_padded_tensor(self, padding, output_size)


def unique(self, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """See `unique`."""
    return tessera.unique(self, sorted=sorted, return_inverse=return_inverse, return_counts=return_counts, dim=dim)


def unique_consecutive(self, return_inverse=False, return_counts=False, dim=None):
    """See `unique_consecutive`."""
    return tessera.unique_consecutive(self, return_inverse=return_inverse, return_counts=return_counts, dim=dim)


def reinforce(self, reward):
    """Removed: RuntimeError that names its successor."""
    raise RuntimeError("reinforce() was removed.  Use torch.distributions instead.")


_general_backward = _overridable(backward)  # the extension's Tensor.backward calls it where arguments are given


def polygamma(self, n):
    """The n-th derivative of digamma, `tessera.polygamma(n, self)`."""
    return tessera.polygamma(n, self)


def rename(self, *names, **rename_map):
    """A view whose dimensions have other names: a name or None for each, or new names by old ones; `rename(None)` drops
    all of them.
    """
    from tessera import _named

    return _named.rename(self, *names, **rename_map)


def rename_(self, *names, **rename_map):
    """`rename` of the tensor itself."""
    from tessera import _named

    return _named.rename_(self, *names, **rename_map)


def refine_names(self, *names):
    """A view with names where there were none; "..." stands for the dimensions that are not mentioned."""
    from tessera import _named

    return _named.refine_names(self, *names)


def align_to(self, *names):
    """A view with the dimensions in the order of `names`, and dimensions of size 1 for those that are new."""
    from tessera import _named

    return _named.align_to(self, *names)


def align_as(self, other):
    """`align_to` with the names of `other`."""
    from tessera import _named

    return _named.align_as(self, other)


def dequantize(self):
    """The float32 tensor of a quantized one; other tensors stay what they are."""
    return self


def to_mkldnn(self, dtype=None):
    """A copy for oneDNN's operators, of `dtype`; here these take tensors as they lie in memory, so that `to_dense()` of
    the copy is the copy. RuntimeError for what is not floating point.
    """
    if not self.is_floating_point() or self.layout != tessera.strided:
        raise RuntimeError(f"to_mkldnn: expected a strided floating point tensor, but got {self.dtype}, {self.layout}")
    return self.to(dtype or self.dtype, copy=True, memory_format=tessera.contiguous_format)


def xpu(self, device=None, non_blocking=False, memory_format=tessera.preserve_format):
    """A copy on an XPU. RuntimeError where there is none."""
    target = tessera.device("xpu" if device is None else device)
    return self.to(target, non_blocking=non_blocking, memory_format=memory_format)


def ipu(self, device=None, non_blocking=False, memory_format=tessera.preserve_format):
    """A copy on an IPU. RuntimeError where there is none."""
    target = tessera.device("ipu" if device is None else device)
    return self.to(target, non_blocking=non_blocking, memory_format=memory_format)


def mtia(self, device=None, non_blocking=False, memory_format=tessera.preserve_format):
    """A copy on an MTIA device. RuntimeError where there is none."""
    target = tessera.device("mtia" if device is None else device)
    return self.to(target, non_blocking=non_blocking, memory_format=memory_format)


def new(self, *args, size=None, device=None):
    """An uninitialized tensor of the sizes that are given, a tensor with the values of a sequence, or one over the
    memory of a storage or of a tensor of the same dtype: of this tensor's dtype, on its device. Older than new_empty
    and new_tensor, which say which of these is meant. Of a COO tensor another one: (), (sizes), (indices, values) or
    (indices, values, size).

    Raises: TypeError for anything else, or another dtype; RuntimeError for another type of device, or a device with a
        tensor.
    """
    if size is not None:
        if args:
            raise TypeError(f"new(): expected the sizes once, but got {args} and size={size}")
        args = (tessera.Size(size),)
    target = self.device if device is None else tessera.device(device)
    if target.type != self.device.type:
        raise RuntimeError(
            f"legacy constructor expects device type: {self.device.type} but device type: {target.type} was passed"
        )
    if self.layout is tessera.sparse_coo:
        if len(args) == 1 and isinstance(args[0], (list, tuple)) and not isinstance(args[0], tessera.Size):
            raise TypeError("new(): of a sparse tensor it takes sizes, not elements: call torch.sparse_coo_tensor()")
        return tessera.sparse._sparse_tensor(self.dtype, target.type, *args, device=target)
    if len(args) == 1 and isinstance(args[0], tessera.Tensor) and args[0].dtype is self.dtype:
        if device is not None:
            raise RuntimeError("Legacy tensor new(tensor, device=...) is not supported; use torch.as_tensor() instead")
        if args[0].device != target:
            raise RuntimeError(f"new(): expected a tensor on {target}, but got one on {args[0].device}")
        return args[0].view_as(args[0])
    return _C._legacy_tensor(self.dtype, args, {}).to(target)


def map2_(self, x, y, callable):
    """Each element a becomes callable(a, b, c), b and c the elements of `x` and `y` (broadcast) there; CPU tensors
    only, no derivative.

    Raises: RuntimeError for other dtypes than this tensor's, for a device, or while it requires a gradient.
    """
    for name, other in (("x", x), ("y", y)):
        if not isinstance(other, tessera.Tensor) or other.dtype is not self.dtype:
            raise RuntimeError(f"map2_: expected {name} to be a tensor of {self.dtype}, but got {type(other).__name__}")
    if not self.is_cpu or self.requires_grad:
        raise RuntimeError(
            f"map2_: expected a CPU tensor that requires no gradient, but got one on {self.device}"
            f"{', requires_grad=True' if self.requires_grad else ''}"
        )
    second = iter(y.expand_as(self).flatten().tolist())
    return self.map_(x.expand_as(self), lambda a, b: callable(a, b, next(second)))


def _resized(self, sizes, name):
    warnings.warn(f"non-inplace {name} is deprecated: use reshape", stacklevel=3)
    count = math.prod(sizes)
    if count != self.numel():
        raise RuntimeError(
            f"requested {name} to {'x'.join(map(str, sizes))} ({count} elements in total), but the given tensor has a "
            f"size of {'x'.join(map(str, self.shape))} ({self.numel()} elements): the number of elements must stay"
        )
    return self.reshape(sizes)


def resize(self, *sizes):
    """reshape by an older name, with as many elements as there are. RuntimeError for another number of them."""
    given = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
    return _resized(self, tuple(given), "resize")


def resize_as(self, tensor):
    """reshape_as by an older name. RuntimeError for another number of elements."""
    return _resized(self, tuple(tensor.shape), "resize_as")


def _volatile(_tensor):
    warnings.warn("volatile was removed: it is False always. Use no_grad() where nothing shall be recorded")
    return False


def _of_quantized(name, what):
    def method(self):
        raise RuntimeError(f"{name}() is for quantized tensors, but got one of dtype {self.dtype}")

    method.__name__, method.__doc__ = name, f"{what}. RuntimeError for tensors that are not quantized."
    return method


_QUANTIZED = {
    "int_repr": "A copy of the integers of a quantized tensor",
    "qscheme": "How the integers of a quantized tensor stand for numbers",
    "q_scale": "The scale of a quantized tensor",
    "q_zero_point": "The integer that stands for 0 in a quantized tensor",
    "q_per_channel_scales": "The scales of a quantized tensor's channels",
    "q_per_channel_zero_points": "The integers that stand for 0 in a quantized tensor's channels",
    "q_per_channel_axis": "The dim of a quantized tensor's channels",
}

_METHODS = (
    *(_of_quantized(name, what) for name, what in _QUANTIZED.items()),
    dequantize,
    to_mkldnn,
    xpu,
    ipu,
    mtia,
    new,
    map2_,
    resize,
    resize_as,
    __repr__,
    __format__,
    __reduce_ex__,
    __setstate__,
    __deepcopy__,
    storage,
    _typed_storage,
    storage_type,
    is_shared,
    module_load,
    __reversed__,
    to_sparse_coo,
    __iter__,
    __contains__,
    __dir__,
    __array__,
    __array_wrap__,
    __dlpack__,
    __dlpack_device__,
    register_hook,
    register_post_accumulate_grad_hook,
    align_as,
    align_to,
    lu,
    norm,
    polygamma,
    refine_names,
    rename,
    rename_,
    to_padded_tensor,
    unique,
    unique_consecutive,
    where,
)
_INSTEAD = (share_memory_,)  # of the extension's
_PLAIN = (__hash__, reinforce, *map(removed, ("eig", "lstsq", "solve", "symeig")))  # never overridden


def __rpow__(self, other):
    """other ** self; `self` may be a number where `other` is a tensor."""
    return tessera.pow(other, self)


def __rmod__(self, other):
    """other % self; `self` may be a number where `other` is a tensor."""
    return tessera.remainder(other, self)


# For calls by name; the operators themselves go through the type's slots.
_REFLECTED = (__rpow__, __rmod__)


def _cuda_array_interface(self):
    """The tensor's memory on a CUDA device as other libraries read it."""
    from tessera.cuda import _array_interface

    return _array_interface.export(self)


def __init_subclass__(cls, **kwargs):
    """A class that takes operators over and says nothing about functions gets none of their calls: what its
    `__torch_dispatch__` returns stays as it is."""
    super(tessera.Tensor, cls).__init_subclass__(**kwargs)
    if _takes_operators(cls) and getattr(cls.__torch_function__, "__func__", None) is __torch_function__:
        cls.__torch_function__ = _C._disabled_torch_function_impl


def install(cls):
    """Adds the methods above to `cls` where it has none of its own."""
    own = cls.__dict__
    for method in _REFLECTED:
        _C._set_type_entry(method.__name__, _overridable(method))
    if "__torch_function__" not in own:
        cls.__torch_function__ = classmethod(__torch_function__)
    for method in _METHODS:
        if method.__name__ not in own:
            setattr(cls, method.__name__, _overridable(method))
    for method in _INSTEAD:
        setattr(cls, method.__name__, _overridable(method))
    for method in _PLAIN:
        method.__qualname__, method.__module__ = f"Tensor.{method.__name__}", "tessera"
        if own.get(method.__name__) is None:  # a type that compares has None for __hash__
            setattr(cls, method.__name__, method)
    if "__init_subclass__" not in own:
        cls.__init_subclass__ = classmethod(__init_subclass__)
    if "__cuda_array_interface__" not in own:
        cls.__cuda_array_interface__ = property(_cuda_array_interface)
    if "volatile" not in own:
        cls.volatile = property(_volatile, doc="False: what it stood for is no_grad() now.")
    if "__array_priority__" not in own:
        cls.__array_priority__ = 1000  # NumPy leaves `array * tensor` to the tensor
