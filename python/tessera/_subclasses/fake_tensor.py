"""FakeTensor and FakeTensorMode: programs run on what is known of tensors besides their values.

A fake tensor says that it is on a device, and holds no memory. What an operator makes of it is told by its own Meta
kernel (python/bindings/library/fake.cc), so there is no second set of shape rules; the result is on the device that the
operands have in common. With a ShapeEnv sizes are symbols (tessera.fx.experimental.symbolic_shapes).
"""

import contextlib
import weakref

import tessera
from tessera import _C, Tensor
from tessera.overrides import TorchFunctionMode
from tessera.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
from tessera.utils.weak import WeakIdKeyDictionary

__all__ = [
    "DataDependentOutputException", "DynamicOutputShapeException", "FakeCopyMode", "FakeTensor", "FakeTensorConverter",
    "FakeTensorDeviceMismatchError", "FakeTensorMode", "MetadataMismatchError", "UnsupportedFakeTensorException",
    "UnsupportedMutationAliasingException", "UnsupportedOperatorException", "disable_fake_tensor_cache",
    "get_plain_tensors", "is_fake", "maybe_get_fake_mode", "unset_fake_temporarily",
]  # fmt: skip


class _OfOperator(RuntimeError):
    def __init__(self, func):
        super().__init__(str(func))
        self.func = func


class DataDependentOutputException(_OfOperator):
    """The operator `func` returns a number that depends on values."""


class DynamicOutputShapeException(_OfOperator):
    """The size of what the operator `func` returns depends on values."""


class UnsupportedOperatorException(_OfOperator):
    """The operator `func` has no kernel that tells its result without data."""


class _WithReason(RuntimeError):
    def __init__(self, reason):
        super().__init__(reason)
        self.reason = reason


class UnsupportedFakeTensorException(_WithReason):
    """A tensor that has no fake form."""


class MetadataMismatchError(_WithReason):
    """Fake and real results differ."""


class UnsupportedMutationAliasingException(_WithReason):
    """Writes and aliases that can't be followed."""


class FakeTensorDeviceMismatchError(RuntimeError):
    """Operands on different devices."""


class FakeTensor(Tensor):
    """A tensor without data that says it is on a device.

    Args:
        fake_mode: the FakeTensorMode that it belongs to.
        elem: a tensor on the meta device with its metadata.
        device: where it says to be.
        constant: a real tensor of one element with its value, or None.
        real_tensor, pytype, dispatch_keys: None. Errors: NotImplementedError for others.

    >>> from tessera._subclasses.fake_tensor import FakeTensorMode
    >>> with FakeTensorMode():
    ...     x = tessera.empty(2, 3, device="cuda") @ tessera.empty(3, 4, device="cuda")
    >>> x
    FakeTensor(..., device='cuda:0', size=(2, 4))
    """

    __torch_function__ = _C._disabled_torch_function_impl  # type: ignore[assignment]

    def __new__(cls, fake_mode, elem, device, constant=None, real_tensor=None, pytype=None, dispatch_keys=None):
        for name, value in (("real_tensor", real_tensor), ("pytype", pytype), ("dispatch_keys", dispatch_keys)):
            if value is not None:
                raise NotImplementedError(f"FakeTensor({name}=...) is not supported; leave it out")
        if elem.device.type != "meta":
            raise AssertionError(f"FakeTensor: elem must be on the meta device, got {elem.device}")
        made = _C._make_fake(fake_mode, elem, _with_index(tessera.device(device)), elem)
        if constant is not None:
            _C._set_fake_constant(made, constant)
        return made.requires_grad_(elem.requires_grad) if elem.requires_grad else made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        mode = maybe_get_fake_mode((args, kwargs or {}))
        return NotImplemented if mode is None else mode.__torch_dispatch__(func, types, args, kwargs)

    @staticmethod
    def from_tensor(t, fake_mode):
        """The fake twin of a tensor."""
        return fake_mode.from_tensor(t)

    @property
    def fake_mode(self):
        """The FakeTensorMode that it belongs to."""
        return _C._fake_mode_of(self)

    @property
    def fake_device(self):
        """The device that it says to be on."""
        return self.device

    @property
    def constant(self):
        """The value of a tensor of one element, where it is known and nobody wrote to it since; else None."""
        known = _C._fake_constant(self)
        return known if known is not None and known.numel() <= 1 else None

    @constant.setter
    def constant(self, value):
        _C._set_fake_constant(self, value)

    @property
    def real_tensor(self):
        return None

    @property
    def names(self):
        return (None,) * self.dim()

    def tolist(self):
        """Numbers, where the values are known. Raises: DataDependentOutputException."""
        if self.dim() == 0:
            return self.item()
        known = _C._fake_constant(self)
        return known.tolist() if known is not None else [part.tolist() for part in self.unbind()]

    def numpy(self, *, force=False):
        raise RuntimeError(f".numpy(force={force}) is not supported for tensor subclasses.")

    def data_ptr(self):
        raise RuntimeError("Cannot access data pointer of Tensor (e.g. FakeTensor, FunctionalTensor). It has no data.")

    def __deepcopy__(self, memo):
        if not self.is_leaf:
            raise RuntimeError("Only Tensors created explicitly by the user support the deepcopy protocol")
        if id(self) not in memo:
            from tessera.storage import keep_with_memo

            made = memo[id(self)] = _C._make_fake(self.fake_mode, self, self.device, None)
            _C._set_symbolic_shape(made, _C._symbolic_shape(self))
            keep_with_memo(memo, self)
            made.__dict__.update(self.__dict__)
            made.requires_grad_(self.requires_grad)
            if self.grad is not None:
                made.grad = self.grad.__deepcopy__(memo)
        return memo[id(self)]

    def __reduce_ex__(self, proto):
        raise RuntimeError(
            "A FakeTensor has no data that could be pickled: save the real tensors, and make their fake twins with "
            "FakeTensorMode.from_tensor() after loading"
        )

    def __repr__(self, *, tensor_contents=None):
        parts = ["..."]
        if self.device.type != "cpu":
            parts.append(f"device='{self.device}'")
        parts.append(f"size=({', '.join(map(str, self.shape))}{',' * (self.dim() == 1)})")
        if self.dtype not in (tessera.get_default_dtype(), tessera.int64, tessera.bool):
            parts.append(f"dtype={self.dtype}")
        elif self.dtype is not tessera.get_default_dtype():
            parts.append(f"dtype={self.dtype}")
        if self.grad_fn is not None:
            parts.append(f"grad_fn=<{type(self.grad_fn).__name__}>")
        elif self.requires_grad:
            parts.append("requires_grad=True")
        text = f"FakeTensor({', '.join(parts)})"
        return f"Parameter({text})" if getattr(self, "_is_param", False) else text


_C._set_fake_tensor_type(FakeTensor)


def _with_index(device):
    """Devices that are counted have a number: the first, where none is given."""
    if device.index is None and device.type not in ("cpu", "meta"):
        return tessera.device(device.type, 0)
    return device


def is_fake(x):
    """True for fake tensors, for traceable wrapper subclasses of such, and for views of them."""
    if isinstance(x, FakeTensor):
        return True
    if isinstance(x, Tensor) and is_traceable_wrapper_subclass(x):
        inner, _ = x.__tensor_flatten__()
        found = [is_fake(getattr(x, name)) for name in inner]
        if any(found) != all(found):
            raise AssertionError(f"{type(x).__name__} has both fake and real tensors inside")
        return any(found)
    return False


def maybe_get_fake_mode(t):
    """The FakeTensorMode of a fake tensor, of what a wrapper subclass holds, or of the first fake tensor in a tree of
    tuples, lists and dictionaries; None without one.
    """
    if isinstance(t, Tensor):
        mode = _C._fake_mode_of(t)
        if mode is None and is_traceable_wrapper_subclass(t):
            return maybe_get_fake_mode([getattr(t, name) for name in t.__tensor_flatten__()[0]])
        return mode
    if isinstance(t, dict):
        t = t.values()
    elif not isinstance(t, (tuple, list)):
        return None
    return next((m for m in map(maybe_get_fake_mode, t) if m is not None), None)


def get_plain_tensors(subclass, *, out):
    """Appends the tensors inside of a traceable wrapper subclass to `out`, which is returned."""
    if not is_traceable_wrapper_subclass(subclass):
        out.append(subclass)
        return out
    for name in subclass.__tensor_flatten__()[0]:
        get_plain_tensors(getattr(subclass, name), out=out)
    return out


@contextlib.contextmanager
def unset_fake_temporarily():
    """Context manager: the innermost FakeTensorMode is off, other modes stay. Gives it, or None."""
    above, found = [], None
    while _C._len_torch_dispatch_stack() and found is None:
        mode = _C._pop_torch_dispatch_stack()
        if isinstance(mode, FakeTensorMode):
            found = mode
        else:
            above.append(mode)
    for mode in reversed(above):
        _C._push_on_torch_dispatch_stack(mode)
    try:
        yield found
    finally:
        if found is not None:
            kept = [_C._pop_torch_dispatch_stack() for _ in above]
            _C._push_on_torch_dispatch_stack(found)
            for mode in reversed(kept):
                _C._push_on_torch_dispatch_stack(mode)


@contextlib.contextmanager
def disable_fake_tensor_cache(fake_mode):
    """Context manager: `fake_mode.cache_enabled` is False. Results are always computed: it changes nothing."""
    old, fake_mode.cache_enabled = fake_mode.cache_enabled, False
    try:
        yield
    finally:
        fake_mode.cache_enabled = old


_SPARSE = (tessera.sparse_coo, tessera.sparse_csr, tessera.sparse_csc, tessera.sparse_bsr, tessera.sparse_bsc)


def _sparse_twin(mode, t):
    """A fake tensor with as many elements as a sparse one, whose sizes are numbers whatever the mode."""
    made = _C._make_fake(mode, t.detach().to("meta"), t.device, None)
    if t.requires_grad:
        made.requires_grad_()
        if not t.is_leaf:
            with tessera.enable_grad():
                made = made.clone()
    return made


class FakeTensorConverter:
    """Makes the fake twins of real tensors, each once: tensors that share memory have twins that share it, views have
    views.

    Args:
        copy_data, export: False. Errors: NotImplementedError for copy_data.
    """

    def __init__(self, *, copy_data=False, export=False):
        if copy_data:
            raise NotImplementedError("FakeTensorConverter(copy_data=True) is not supported; leave it out")
        self.export = export
        self.tensor_memo = WeakIdKeyDictionary()
        self._storages = {}  # address of a storage -> (weak reference to a tensor that keeps it, the twin)
        self.constant_storage_mapping = {}

    def from_real_tensor(
        self, fake_mode, t, make_constant=False, shape_env=None, *, source=None, symbolic_context=None, trace=True
    ):
        """The fake twin of a tensor.

        Args:
            make_constant: the twin knows the value of `t`, which nobody may write to.
            shape_env: ShapeEnv: sizes become symbols, named after `source`, as `symbolic_context` has it.
            trace: of no effect: there is no log.
        """
        known = self.tensor_memo.get(t)
        if known is not None and known.fake_mode is fake_mode:
            return known
        if t.layout in _SPARSE:
            made = _sparse_twin(fake_mode, t)
        elif t.layout is tessera.strided:
            made = self._convert(fake_mode, t, shape_env, source, symbolic_context, trace)
        else:
            raise UnsupportedFakeTensorException(f"tensors of layout {t.layout} have no fake form")
        if make_constant:
            _C._set_fake_constant(made, t)
        self.tensor_memo[t] = made
        return made

    def from_meta_and_device(self, fake_mode, t, device, pytype=None, dispatch_keys=None):
        """A fake tensor with the metadata, and the storage, of a meta tensor."""
        return FakeTensor(fake_mode, t, device, pytype=pytype, dispatch_keys=dispatch_keys)

    def _convert(self, mode, t, shape_env, source, context, trace):
        again = dict(shape_env=shape_env, trace=trace)
        if is_traceable_wrapper_subclass(t):
            names, meta = t.__tensor_flatten__()
            inner = {name: self.from_real_tensor(mode, getattr(t, name), **again) for name in names}
            return type(t).__tensor_unflatten__(inner, meta, t.size(), t.stride())
        base = t._base if t._is_view() else None
        follows = t.requires_grad and not t.is_leaf
        if base is not None and shape_env is None and base.dtype == t.dtype and not (t.is_conj() or t.is_neg()):
            fake_base = self.from_real_tensor(mode, base, **again)
            with tessera.set_grad_enabled(follows):
                made = fake_base.as_strided(t.size(), t.stride(), t.storage_offset())
        else:
            made = _C._make_fake(mode, t, None, self._twin_of_storage(t))
            if shape_env is not None:
                shape_env._give_symbols(made, t, source, context)
        if self._twin_of_storage(t) is None:
            kept = t if base is None else base
            self._storages[t.untyped_storage()._cdata] = weakref.ref(kept), made
        if follows and not made.requires_grad:
            with tessera.enable_grad():
                made = made.requires_grad_().clone()
        elif t.requires_grad and t.is_leaf:
            made.requires_grad_()
        if isinstance(t, tessera.nn.Parameter):
            made._is_param = True
        elif isinstance(t, tessera.nn.Buffer):
            made._is_buffer = True
        if t.is_leaf and t.grad is not None:
            made.grad = self.from_real_tensor(mode, t.grad, **again)
        return made

    def _twin_of_storage(self, t):
        # The address names the storage as long as the tensor that had it then is alive.
        keeper, twin = self._storages.get(t.untyped_storage()._cdata, (None, None))
        return twin if keeper is not None and keeper() is not None else None


class FakeTensorMode(_C._FakeModeBase, TorchDispatchMode):
    """A context in which what makes tensors makes fake ones. Fake tensors work outside of it, too.

    Args:
        allow_fallback_kernels: True; operators without a Meta kernel raise either way.
        allow_non_fake_inputs: real tensors among the operands are converted (AssertionError otherwise).
        shape_env: ShapeEnv: sizes of converted tensors are symbols, and numbers that depend on values as well.
        static_shapes: sizes of converted tensors are numbers (default: without a shape_env).
        export: for programs that are exported.

    >>> from tessera._subclasses.fake_tensor import FakeTensorMode
    >>> mode = FakeTensorMode()
    >>> mode.from_tensor(tessera.ones(2, 3)).sum(0)
    FakeTensor(..., size=(3,))
    """

    def __new__(cls, *args, **kwargs):
        return super().__new__(cls)

    def __init__(
        self, *, allow_fallback_kernels=True, allow_non_fake_inputs=False, shape_env=None, static_shapes=None,
        export=False,
    ):  # fmt: skip
        TorchDispatchMode.__init__(self)
        self.allow_fallback_kernels = allow_fallback_kernels
        self.allow_non_fake_inputs = bool(allow_non_fake_inputs)
        self.shape_env = shape_env
        self.static_shapes = shape_env is None if static_shapes is None else bool(static_shapes)
        self.export = export
        self.cache_enabled = True
        self.allow_meta = False
        self.in_kernel_invocation = False
        self.values_found = None  # function of (operator, args, kwargs, result) with symbols for what depends on values
        self.fake_tensor_converter = FakeTensorConverter(export=export)
        self._symbolic = shape_env is not None
        self._native = type(self).__torch_dispatch__ is FakeTensorMode.__torch_dispatch__

    @classmethod
    def is_infra_mode(cls):
        return True

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if any(tessera._tensor._takes_operators(t) for t in types if t is not FakeTensor):
            return NotImplemented  # first of all what wraps fake tensors has to unwrap them
        native, self._native = self._native, True
        try:
            with self:
                return func(*args, **kwargs)
        finally:
            self._native = native

    def dispatch(self, func, types, args=(), kwargs=None):
        """As __torch_dispatch__."""
        return self.__torch_dispatch__(func, types, args, kwargs)

    def __deepcopy__(self, memo):
        return self

    def from_tensor(self, tensor, *, static_shapes=None, source=None, symbolic_context=None, trace=True):
        """The fake twin of a real tensor; the same one every time. Fake tensors of this mode are their own.

        Args:
            static_shapes: sizes are numbers although there is a shape_env (default: as of the mode).
            source: name or Source of the tensor, by which guards call it.
            symbolic_context: StatelessSymbolicContext: which sizes are dynamic.
            trace: of no effect.
        """
        if _C._fake_mode_of(tensor) is self:
            return tensor
        static = self.static_shapes if static_shapes is None else static_shapes
        if static and symbolic_context is not None and not static_shapes:
            raise AssertionError("from_tensor: a symbolic_context needs a mode with symbolic sizes")
        with unset_fake_temporarily():
            return self.fake_tensor_converter.from_real_tensor(
                self, tensor, shape_env=None if static else self.shape_env, source=source,
                symbolic_context=symbolic_context, trace=trace,
            )  # fmt: skip

    def _new_size(self, op, low, high):
        """For fake implementations: a size that depends on values."""
        if self.shape_env is None or not self.shape_env.allow_dynamic_output_shape_ops:
            raise DynamicOutputShapeException(op)
        if isinstance(low, tessera.SymInt) or isinstance(high, tessera.SymInt):
            raise ValueError(f"new_dynamic_size: min and max must be plain numbers, got min={low}, max={high}")
        if low < 0:
            raise ValueError(f"new_dynamic_size: a size is not negative, got min={low}")
        made = self.shape_env.create_unbacked_symint()
        self.shape_env.size_like.add(made.node._expr)
        self.shape_env.constrain_symbol_range(made.node._expr, low, float("inf") if high is None else high)
        return made

    # --- what python/bindings/library/fake.cc calls ---

    def _from_operand(self, tensor):
        """The fake twin of a real tensor among an operator's operands: its sizes are numbers."""
        return self.from_tensor(tensor, static_shapes=True)

    def _refuse_real_tensors(self, func, args, kwargs):
        shown = ", ".join([_short(a) for a in args] + [f"{k}={_short(v)}" for k, v in kwargs.items()])
        raise AssertionError(
            "Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode with "
            f"'allow_non_fake_inputs'. Found in {func}({shown})"
        )

    def _call_in_python(self, func, args, kwargs):
        """Operators whose result depends on values, and those whose Meta kernel is written in Python."""
        name = func._schema.name
        if name == "aten::repeat_interleave":
            from tessera._subclasses._symbolic_calls import indices_of_repeats

            made = indices_of_repeats(self, *args, **kwargs)
            if made is not None:
                return made
        if _depends_on_values(func, args):
            sizes, env = name in _DYNAMIC_SHAPES, self.shape_env
            if env is None or not (env.allow_dynamic_output_shape_ops if sizes else env.allow_scalar_outputs):
                raise (DynamicOutputShapeException if sizes else DataDependentOutputException)(func)
            from tessera._subclasses._symbolic_calls import data_dependent

            return data_dependent(self, func, args, kwargs)
        if name == "aten::nonzero_static":
            with self:
                return tessera.empty((kwargs["size"], args[0].dim()), dtype=tessera.int64, device=args[0].device)
        with self:
            return func._redispatch(_C._key_bits("Meta"), *args, **kwargs)

    def _symbolic_call(self, func, args, kwargs):
        """An operator on symbols, or on tensors with symbolic sizes."""
        if func._schema.name == "aten::_assert_scalar":
            return None  # of numbers that are not known: it is looked at where the graph runs
        if func.namespace != "aten" or func._schema.name.startswith("aten::sym_") or _depends_on_values(func, args):
            return self._call_in_python(func, args, kwargs)
        from tessera._subclasses import _symbolic_calls as calls

        rules = {
            "aten::slice": calls.sliced, "aten::select": calls.selected, "aten::as_strided": calls.restrided,
            "aten::slice_scatter": calls.scattered, "aten::select_scatter": calls.scattered,
        }  # fmt: skip
        return rules.get(func._schema.name, calls.call)(self, func, args, kwargs)

    def _symbolic_inner_call(self, func, args, kwargs):
        """The same, called by another operator or a gradient's formula in C++."""
        if _depends_on_values(func, args):
            return self._call_in_python(func, args, kwargs)
        from tessera._subclasses._symbolic_calls import inner_call

        return inner_call(self, func, args, kwargs)

    def _symbolic_composite(self, func, args, kwargs):
        from tessera._subclasses._symbolic_calls import composite, interleaved, split_at

        if func.name() == "aten::repeat_interleave.self_Tensor":
            return interleaved(args, kwargs)
        if func._schema.name == "aten::tensor_split":
            parts = split_at(func, args, kwargs)
            if parts is not None:
                return parts
            if self.shape_env is None:
                raise DataDependentOutputException(func)
        return composite(self, func, args, kwargs)


_DYNAMIC_SHAPES = frozenset(
    "aten::" + name
    for name in (
        "nonzero masked_select unique_dim _unique _unique2 unique_consecutive unique_dim_consecutive "
        "repeat_interleave bincount index _unsafe_index"
    ).split()
)
_DATA_DEPENDENT = frozenset(("aten::_local_scalar_dense", "aten::equal"))


def _depends_on_values(func, args):
    """Whether the size of the result, or the number that it is, depends on values."""
    name = func._schema.name
    if name in ("aten::index", "aten::_unsafe_index"):
        return any(i is not None and i.dtype in (tessera.bool, tessera.uint8) for i in args[1])
    return name in _DYNAMIC_SHAPES or name in _DATA_DEPENDENT


def _short(value):
    if isinstance(value, Tensor):
        return repr(value) if isinstance(value, FakeTensor) else f"tensor([...], size={tuple(value.shape)})"
    return f"[{', '.join(map(_short, value))}]" if isinstance(value, (list, tuple)) else repr(value)


class FakeCopyMode(TorchFunctionMode):
    """In this context copies of real tensors are fake: copy.deepcopy(module) gives a module of fake tensors.

    Args:
        fake_mode: FakeTensorMode.
    """

    def __init__(self, fake_mode):
        self.fake_mode = fake_mode

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is Tensor.clone:
            return self.fake_mode.from_tensor(func(*args, **kwargs), static_shapes=True)
        if func is Tensor.__deepcopy__:
            tensor, memo = args
            if id(tensor) not in memo:
                memo[id(tensor)] = self.fake_mode.from_tensor(tensor, static_shapes=True)
            return memo[id(tensor)]
        return func(*args, **kwargs)
