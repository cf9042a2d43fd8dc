"""Parameter and Buffer: tensors that a Module registers on assignment, and their forms without a shape for lazy
modules.
"""

import tessera
from tessera import Tensor
from tessera.storage import keep_with_memo

__all__ = [
    "Parameter",
    "Buffer",
    "UninitializedParameter",
    "UninitializedBuffer",
    "UninitializedTensorMixin",
    "is_lazy",
]

_TensorMeta = type(Tensor)
_disabled_torch_function = tessera._C._disabled_torch_function_impl


def _once(memo, tensor, make):
    """What stands for a tensor in a deep copy: made at the first time."""
    if id(tensor) not in memo:
        memo[id(tensor)] = make()
        keep_with_memo(memo, tensor)
    return memo[id(tensor)]


def _marked(tensor, **marks):
    """The tensor with attributes that a Module knows it by."""
    for name, value in marks.items():
        setattr(tensor, name, value)
    return tensor


class _ParameterMeta(_TensorMeta):  # type: ignore[valid-type, misc]
    # A tensor of another subclass that was wrapped in Parameter stays of its own type and carries the flag `_is_param`.
    def __instancecheck__(self, instance):
        if super().__instancecheck__(instance):
            return True
        return self is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False)


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that is a parameter of a module: assigned as an attribute of a Module, it appears in `parameters()` and
    in the state dict.

    data: the values, shared, not copied (default: an empty tensor). requires_grad: whether gradients are recorded (also
        if created under no_grad).
    RuntimeError if data's dtype is not floating point or complex and requires_grad is True.
    """

    def __new__(cls, data=None, requires_grad=True):
        kind = Tensor if data is None else type(data)
        if kind in (Tensor, Parameter):
            return Tensor._make_subclass(cls, tessera.empty(0) if data is None else data, requires_grad)
        made = data.detach().requires_grad_(requires_grad)
        if type(made) is kind:
            return _marked(made, _is_param=True)
        raise RuntimeError(
            f"Creating a Parameter from an instance of type {kind.__name__} requires that detach() returns an instance "
            f"of the same type, but got {type(made).__name__}. Give detach() of this type the expected semantics to "
            "use it as a parameter."
        )

    def __deepcopy__(self, memo):
        def make():
            return type(self)(self.data.clone(memory_format=tessera.preserve_format), self.requires_grad)

        return _once(memo, self, make)

    def __repr__(self, *, tensor_contents=None):
        return "Parameter containing:\n" + super().__repr__(tensor_contents=tensor_contents)

    def __reduce_ex__(self, proto):
        from tessera._utils import reduce_parameter_ex

        return reduce_parameter_ex(self, proto)

    __torch_function__ = _disabled_torch_function


# What may be done with a tensor that has no shape yet: enough for Module.to(), apply() and friends.
_ALLOWED_LAZY_METHODS = (
    "data",
    "device",
    "dtype",
    "layout",
    "is_leaf",
    "requires_grad",
    "requires_grad_",
    "__hash__",
    "is_floating_point",
    "is_complex",
    "half",
    "float",
    "double",
    "char",
    "short",
    "int",
    "long",
    "cuda",
    "cpu",
    "to",
    "get_device",
    "_has_compatible_shallow_copy_type",
)


class UninitializedTensorMixin:
    """A parameter or buffer without a shape. Everything that needs data raises ValueError until `materialize(shape)`
    was called.
    """

    cls_to_become = None

    def materialize(self, shape, device=None, dtype=None):
        """Allocates uninitialized memory of the given shape and turns this very object into the plain class (references
        to it stay valid).

        device, dtype: default to those given at construction.
        """
        given = {"device": device, "dtype": dtype}
        own = {name: getattr(self.data, name) if value is None else value for name, value in given.items()}
        self.data = tessera.empty(shape, **own)
        self.__class__ = self.cls_to_become

    @property
    def shape(self):
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load "
            "an uninitialized parameter into an initialized one. Call `forward` to initialize the parameters before "
            "accessing their attributes."
        )

    def share_memory_(self):
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the parameters "
            "before calling "
            "`module.share_memory()`."
        )

    def __repr__(self):
        return f"<{self.__class__.__name__}>"

    def __reduce_ex__(self, proto):
        return (self.__class__, (self.requires_grad,))

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if (
            name in _ALLOWED_LAZY_METHODS
            or type(func).__name__ in ("method-wrapper", "getset_descriptor")
            or name == "__get__"
        ):
            return super().__torch_function__(func, types, args, kwargs or {})
        raise ValueError(
            f"Attempted to use an uninitialized parameter in {func}. This error happens when you are using a "
            f"`LazyModule` or explicitly "
            "manipulating `torch.nn.parameter.UninitializedParameter` objects. When using LazyModules Call `forward` "
            "with a dummy batch to "
            "initialize the parameters before calling torch functions"
        )


def is_lazy(param):
    """Whether `param` still has no shape."""
    return isinstance(param, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):  # type: ignore[misc, override]
    """A parameter whose shape is not known yet; lazy modules give it one at their first call."""

    cls_to_become = Parameter

    def __new__(cls, requires_grad=True, device=None, dtype=None):
        return Tensor._make_subclass(cls, tessera.empty(0, device=device, dtype=dtype), requires_grad)

    def __deepcopy__(self, memo):
        return _once(memo, self, lambda: type(self)(self.requires_grad, self.data.device, self.data.dtype))


class _BufferMeta(_TensorMeta):  # type: ignore[valid-type, misc]
    def __instancecheck__(self, instance):
        if super().__instancecheck__(instance):
            return True
        return self is Buffer and isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that is part of a module's state but no parameter (running statistics and the like), registered on
    assignment.

    persistent: whether it belongs to the state dict.
    """

    def __new__(cls, data=None, *, persistent=True):
        shared = tessera.empty(0) if data is None else data.detach().requires_grad_(data.requires_grad)
        return _marked(shared, persistent=persistent, _is_buffer=True)

    __torch_function__ = _disabled_torch_function


class UninitializedBuffer(UninitializedTensorMixin, Tensor):  # type: ignore[override]
    """A buffer whose shape is not known yet."""

    cls_to_become = Tensor

    def __new__(cls, requires_grad=False, device=None, dtype=None, persistent=True):
        plain = Tensor._make_subclass(cls, tessera.empty(0, device=device, dtype=dtype), requires_grad)
        return _marked(plain, persistent=persistent, _is_buffer=True)
