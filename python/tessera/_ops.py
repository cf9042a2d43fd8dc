"""`ops`: every operator by its name, `ops.<namespace>.<name>.<overload>`, built in or made with `library`."""

import enum
import importlib
import math
import sys
import types

import tessera
from tessera import _C

__all__ = [
    "DispatchKey",
    "DispatchKeySet",
    "FunctionSchema",
    "HigherOrderOperator",
    "OpOverload",
    "OpOverloadPacket",
    "Tag",
    "ops",
]


class Tag(enum.Enum):
    """What is known about an operator besides its schema."""

    core = 0
    cudagraph_unsafe = 1
    data_dependent_output = 2
    dynamic_output_shape = 3
    flexible_layout = 4
    generated = 5
    inplace = 6
    inplace_view = 7
    maybe_aliasing_or_mutating = 8
    needs_contiguous_strides = 9
    needs_exact_strides = 10
    needs_fixed_stride_order = 11
    nondeterministic_bitwise = 12
    nondeterministic_seeded = 13
    out = 14
    out_variant = 15
    pointwise = 16
    pt2_compliant_tag = 17
    reduction = 18
    view_copy = 19


# Keys of devices and layers that this library has no kernels for: programs name them, registration refuses them.
_REST = "HIP HPU IPU Lazy MAIA MPS MTIA PrivateUse1 PrivateUse2 PrivateUse3 VE XLA XPU".split()
_NO_KERNELS = (
    """HIP PrivateUse2 PrivateUse3 Dense Quantized Sparse SparseCsr NestedTensor AutogradFunctionality
    CompositeImplicitAutogradNestedTensor FuncTorchBatchedDecomposition FuncTorchVmapMode AutocastHPU AutocastIPU
    AutocastMPS AutogradHIP AutogradHPU AutogradIPU AutogradLazy AutogradMAIA AutogradMTIA AutogradPrivateUse2
    AutogradPrivateUse3 AutogradVE""".split()
    + [family + device for family in ("Quantized", "Sparse", "SparseCsr", "NestedTensor") for device in _REST]
    + [
        f"{side}Of{family}Backends"
        for side in ("Start", "End")
        for family in ("Dense", "Quantized", "Sparse", "SparseCsr", "NestedTensor", "AutogradFunctionality")
    ]
)

# The dispatch keys and the aliases for several of them; each is a string, its name.
DispatchKey = enum.Enum(  # type: ignore[misc]
    "DispatchKey",
    {
        name: name
        for name in (
            "Undefined",
            "Autograd",
            "CompositeExplicitAutograd",
            "CompositeExplicitAutogradNonFunctional",
            "CompositeImplicitAutograd",
            *_C._key_names(2**64 - 1),
            *_NO_KERNELS,
        )
    },
    type=str,
    module=__name__,
)


class DispatchKeySet:
    """A set of dispatch keys; what kernels that asked for it get first.

    Args:
        bits: a DispatchKey, the name of one, or the bits of several.
    """

    __slots__ = ("bits",)

    def __init__(self, bits=0):
        if isinstance(bits, str):
            name = getattr(bits, "value", bits)
            bits = _C._autograd_key_bits() if name == "Autograd" else _C._key_bits(name)
        self.bits = bits

    def has(self, key):
        """True if the key of that name is in the set."""
        return bool(self.bits & _C._key_bits(key))

    def __and__(self, other):
        return DispatchKeySet(self.bits & other.bits)

    def __or__(self, other):
        return DispatchKeySet(self.bits | other.bits)

    def __sub__(self, other):
        return DispatchKeySet(self.bits & ~other.bits)

    def __eq__(self, other):
        return isinstance(other, DispatchKeySet) and self.bits == other.bits

    def __hash__(self):
        return hash(self.bits)

    def __iter__(self):
        """The names, highest priority first."""
        return iter(_C._key_names(self.bits))

    def __repr__(self):
        return f"DispatchKeySet({', '.join(self)})"

    def highestPriorityTypeId(self):
        return next(iter(self), "Undefined")

    def add(self, key):
        """The set with that key, too."""
        return self | DispatchKeySet(key)

    def remove(self, key):
        """The set without that key."""
        return self - DispatchKeySet(key)

    def raw_repr(self):
        """The bits, which `from_raw_repr` takes."""
        return self.bits

    from_raw_repr = classmethod(lambda cls, bits: cls(bits))


class _KeyGuard:
    """Context manager around a change of the thread's keys."""

    _included = False

    def __init__(self, keys):
        self._keys = keys

    def __enter__(self):
        self._saved = included, excluded = _C._tls_keys()
        bits = self._keys.bits
        if self._included:
            _C._set_tls_keys(included | bits, excluded)
        else:
            _C._set_tls_keys(included, excluded | bits)

    def __exit__(self, exc_type, exc_value, traceback):
        _C._set_tls_keys(*self._saved)


class ExcludeKeys(_KeyGuard):
    """Inside the block the layers of these keys are passed by. `keys`: DispatchKeySet."""


class IncludeKeys(_KeyGuard):
    """Inside the block the layers of these keys see every call. `keys`: DispatchKeySet."""

    _included = True


class AliasInfo:
    """Which alias sets a value belongs to before and after the call, and whether it is written to."""

    __slots__ = ("is_write", "before_set", "after_set")

    def __init__(self, is_write, before, after):
        self.is_write, self.before_set, self.after_set = is_write, set(before), set(after)


class Argument:
    """A parameter or result of a schema."""

    __slots__ = ("name", "type", "default_value", "kwarg_only", "alias_info", "_has_default", "_text")

    def __init__(self, name, type, has_default, default, kwarg_only, alias, text):
        self.name, self.type, self.default_value, self.kwarg_only, self._has_default, self._text = (
            name,
            type,
            default,
            kwarg_only,
            has_default,
            text,
        )
        self.alias_info = AliasInfo(*alias) if alias else None

    def has_default_value(self):
        return self._has_default

    @property
    def is_out(self):
        return self.kwarg_only and self.is_write

    @property
    def is_write(self):
        return self.alias_info is not None and self.alias_info.is_write

    @property
    def N(self):
        """The length of a list that one value may stand for, 3 of "int[3]"; or None."""
        length = self.type.rstrip("?").rpartition("[")[2].rstrip("]")
        return int(length) if length.isdigit() else None

    @property
    def real_type(self):
        """The type, which schemas of this library do not change: SymInt stays SymInt."""
        return self.type

    def __repr__(self):
        return self._text


def _is_subtype(a, b):
    """Whether values of the type `a` are some of the type `b`, by their texts; lengths of lists play no part."""
    import re

    a, b = (re.sub(r"\[\d+\]", "[]", text) for text in (a, b))
    return a == b or (b.endswith("?") and a.rstrip("?") == b[:-1]) or (b == "Scalar" and a in ("int", "float", "bool"))


def _sets(argument):
    info = argument.alias_info
    return info and (info.is_write, info.before_set, info.after_set)


def _fits(new, old):
    """Whether an argument takes what it took: its name, and its default and place by keyword if it had them."""
    return new.name == old.name and _sets(new) == _sets(old) and (old.kwarg_only or not new.kwarg_only)


class FunctionSchema:
    """The signature of an operator, from its text. Raises: RuntimeError where the text is no schema."""

    __slots__ = ("name", "overload_name", "arguments", "returns", "is_mutable", "_text", "__weakref__")

    def __init__(self, text):
        self.name, self.overload_name, arguments, returns, self.is_mutable, self._text = _C._parse_schema(text)
        self.arguments = [Argument(*a) for a in arguments]
        self.returns = [Argument(*a) for a in returns]

    def __str__(self):
        return self._text

    __repr__ = __str__

    def __eq__(self, other):
        return isinstance(other, FunctionSchema) and self._text == other._text

    def __hash__(self):
        return hash(self._text)

    def _parts(self):
        outs = sum(a.is_out for a in self.arguments)
        return self.arguments[: len(self.arguments) - outs], self.arguments[len(self.arguments) - outs :]

    def _same_results(self, old, compare):
        return (
            (self.name, self.overload_name) == (old.name, old.overload_name)
            and len(self.returns) == len(old.returns)
            and all(compare(a, b) for a, b in zip(self.returns, old.returns))
        )

    def is_backward_compatible_with(self, old_schema):
        """Whether every call that fits `old_schema`, a FunctionSchema, fits this one and gives what it gave."""
        (new, new_out), (old, old_out) = self._parts(), old_schema._parts()
        if not self._same_results(old_schema, lambda a, b: _is_subtype(a.type, b.type) and _sets(a) == _sets(b)):
            return False
        if len(new) < len(old) or len(new_out) != len(old_out):
            return False
        pairs = [*zip(new, old), *zip(new_out, old_out)]
        return all(a.has_default_value() for a in new[len(old) :]) and all(
            _fits(a, b)
            and _is_subtype(b.type, a.type)
            and (not b.has_default_value() or (a.has_default_value() and a.default_value == b.default_value))
            for a, b in pairs
        )

    def check_forward_compatible_with(self, old_schema):
        """(whether calls of this schema that use nothing new fit `old_schema`, a FunctionSchema, why not or "")."""
        (new, new_out), (old, old_out) = self._parts(), old_schema._parts()
        if not self._same_results(old_schema, lambda a, b: _is_subtype(a.type, b.type) or _is_subtype(b.type, a.type)):
            return False, ""
        if len(new_out) != len(old_out):
            return False, "Function schema should have the same number of out arguments"
        for a, b in [*zip(new, old), *zip(new_out, old_out)]:
            defaults = a.has_default_value(), a.default_value
            if not (
                _fits(a, b) and _is_subtype(a.type, b.type) and defaults == (b.has_default_value(), b.default_value)
            ):
                return False, f"'{a.name}' is not forward compatible with the older version of the schema"
        for a in new[len(old) :]:
            start = f"Function schema is not forward compatible since the new argument '{a.name}' of type {a.type}"
            if not a.has_default_value():
                return False, f"{start} did not provide a default value."
            if isinstance(a.default_value, list):
                return False, f"{start} has a container type as its default value."
        return True, ""


# The Core ATen operators: what exported programs are made of.
_CORE = frozenset(
    """
_adaptive_avg_pool2d _adaptive_avg_pool2d_backward _adaptive_avg_pool3d _cdist_forward _embedding_bag _fft_r2c
_local_scalar_dense _log_softmax
_native_batch_norm_legit _native_batch_norm_legit.no_stats _native_batch_norm_legit_no_training _pdist_forward _softmax
_to_copy abs acos acosh adaptive_avg_pool1d
add.Scalar add.Tensor addmm alias amax amin any any.dim any.dims arange.start_step argmax argmin as_strided asin asinh
atan atan2 atan2.out atanh avg_pool1d
avg_pool2d avg_pool2d_backward avg_pool3d bitwise_and.Scalar bitwise_and.Tensor bitwise_not bitwise_or.Scalar
bitwise_or.Tensor bitwise_xor.Scalar
bitwise_xor.Tensor bmm cat ceil clamp clamp.Tensor clone col2im constant_pad_nd convolution convolution_backward copy
cos cosh cumsum diagonal div.Scalar
div.Scalar_mode div.Tensor div.Tensor_mode elu embedding embedding_dense_backward empty.memory_format empty_strided
eq.Scalar eq.Tensor erf exp expand expm1
fill.Scalar flip floor fmod.Scalar fmod.Tensor full full_like gather ge.Scalar ge.Tensor gelu grid_sampler_2d gt.Scalar
gt.Tensor hardtanh index.Tensor index_put
index_select isinf isnan le.Scalar le.Tensor leaky_relu log log10 log1p log2 logical_and logical_not logical_or
logical_xor lt.Scalar lt.Tensor
masked_scatter max.dim max_pool2d_with_indices max_pool2d_with_indices_backward max_pool3d_with_indices maximum mean
mean.dim min.dim minimum mm mul.Scalar
mul.Tensor native_dropout native_group_norm native_group_norm_backward native_layer_norm native_layer_norm_backward
ne.Scalar ne.Tensor neg nonzero permute
pow.Scalar pow.Tensor_Scalar pow.Tensor_Tensor prod prod.dim_int rand randn randperm reciprocal reflection_pad1d
reflection_pad2d reflection_pad3d relu
remainder.Scalar remainder.Tensor repeat replication_pad2d replication_pad3d resize_ round rsqrt scalar_tensor
scatter.src scatter.value scatter_add
scatter_reduce.two select.int select_scatter sigmoid sign sin sinh slice.Tensor slice_scatter sort split_with_sizes sqrt
squeeze.dim squeeze.dims
sub.Scalar sub.Tensor sum.dim_IntList sym_is_contiguous sym_numel sym_size.int sym_storage_offset sym_stride.int tan
tanh topk trunc unsqueeze
upsample_bilinear2d.vec upsample_nearest2d.vec var.correction var.dim view where.self
""".split()
)


class OpOverload(_C._OpBase):
    """One overload of an operator. There is one object for each: compare with `is`.

    Calls go through dispatch. Raises: RuntimeError where the arguments don't fit the schema.
    """

    def __new__(cls, packet, overload):
        return super().__new__(
            cls, f"{packet._qualified_op_name}.{overload}" if overload else packet._qualified_op_name
        )

    def __init__(self, packet, overload):
        self._overloadpacket = packet
        self._overloadname = overload or "default"
        self.namespace = packet._qualified_op_name.split("::")[0]
        self.__name__ = f"{packet.__name__}.{self._overloadname}"
        self.__qualname__ = self.__name__
        self.__module__ = packet.__module__
        self._schema = FunctionSchema(self._schema_text)
        self._name = f"{packet._qualified_op_name}.{overload}" if overload else packet._qualified_op_name

    @property
    def overloadpacket(self):
        return self._overloadpacket

    @property
    def op(self):
        return self._overloadpacket

    @property
    def tags(self):
        names = {t for t in self._tags_text.split() if t in Tag.__members__}
        if self.namespace == "aten":
            names.add("pt2_compliant_tag")
            if self._name[len("aten::") :] in _CORE:
                names.add("core")
        return [Tag[name] for name in sorted(names)]

    def name(self):
        """The qualified name, "aten::add.Tensor"."""
        return self._name

    def redispatch(self, keyset, *args, **kwargs):
        """Calls the kernel of the highest key of `keyset`."""
        return self._redispatch(keyset.bits, *args, **kwargs)

    def has_kernel_for_dispatch_key(self, key):
        return _C._has_op_kernel(self._name, key)

    def decompose(self, *args, **kwargs):
        """The call as the composition that a CompositeImplicitAutograd operator is. NotImplemented for other
        operators.
        """
        if not _C._has_op_kernel(self._name, "CompositeImplicitAutograd"):
            return NotImplemented
        return self._redispatch(0, *args, **kwargs)

    def __repr__(self):
        return f"<OpOverload(op='{self._overloadpacket}', overload='{self._overloadname}')>"

    def __str__(self):
        return f"{self._overloadpacket}.{self._overloadname}"

    def __deepcopy__(self, memo):
        return self

    def __copy__(self):
        return self

    def __reduce__(self):
        return _overload_of, (
            self._overloadpacket._qualified_op_name,
            "" if self._overloadname == "default" else self._overloadname,
        )


class OpOverloadPacket:
    """An operator with all its overloads. A call takes the first one that the arguments fit."""

    def __init__(self, namespace, name):
        self._qualified_op_name = f"{namespace}::{name}"
        self.__name__ = name
        self.__qualname__ = name
        self.__module__ = f"{_C.TensorBase.__module__.split('.')[0]}.ops.{namespace}"
        self._overloads = {}

    def overloads(self):
        """The names of the overloads, in the order of their definition; "default" for the one without a name."""
        return [name or "default" for name in _C._op_overloads(self._qualified_op_name)]

    def _get(self, overload):
        known = self._overloads.get(overload)
        if known is None:
            known = self._overloads[overload] = OpOverload(self, overload)
        return known

    def __getattr__(self, name):
        if name.startswith("__") and name != "__rpow__":
            raise AttributeError(f"'OpOverloadPacket' object has no attribute '{name}'")
        overload = "" if name == "default" else name
        if overload not in _C._op_overloads(self._qualified_op_name):
            raise AttributeError(f"The underlying op of '{self}' has no overload name '{name}'")
        return self._get(overload)

    def __iter__(self):
        return iter(self.overloads())

    def __call__(self, /, *args, **kwargs):
        names = _C._op_overloads(self._qualified_op_name)
        if not names:
            raise RuntimeError(
                f"the operator {self._qualified_op_name} is gone: the Library that defined it was destroyed"
            )
        relevant = args if not kwargs else (*args, *kwargs.values())
        for value in relevant:
            if isinstance(value, (list, tuple)):
                relevant = (*relevant, *value)
        if _C._has_torch_function(relevant):
            from tessera.overrides import handle_torch_function

            return handle_torch_function(self, relevant, *args, **kwargs)
        for name in names:
            overload = self._get(name)
            if len(names) == 1 or overload._fits(*args, **kwargs):
                return overload(*args, **kwargs)
        given = ", ".join([type(a).__name__ for a in args] + [f"{k}={type(v).__name__}" for k, v in kwargs.items()])
        schemas = "\n".join(f"  {self._get(name)._schema}" for name in names)
        raise RuntimeError(
            f"No overload of {self._qualified_op_name} fits the arguments ({given}). The overloads are:\n{schemas}"
        )

    def __repr__(self):
        return f"<OpOverloadPacket(op='{self}')>"

    def __str__(self):
        return self._qualified_op_name.replace("::", ".")

    def __deepcopy__(self, memo):
        return self

    def __copy__(self):
        return self

    def __reduce__(self):
        return _packet_of, (self._qualified_op_name,)

    def __dir__(self):
        return sorted(set(object.__dir__(self)) | set(self.overloads()))


class HigherOrderOperator:
    """An operator whose arguments may be functions. Subclasses are called; `py_impl` says how, for each layer.

    Args:
        name: what it is at `ops.higher_order`.
        cacheable: whether compiled code that calls it may be kept.

    A call goes to the first of: a `__torch_function__` of its arguments; the rule for the innermost mode of
    `__torch_dispatch__`, then those of tensor subclasses; the rule "Autograd" if an argument requires grad; that of the
    backend ("CPU" ...) or of "CompositeExplicitAutograd". Raises: RuntimeError when made without a subclass,
    NotImplementedError where no rule fits.
    """

    namespace = "higher_order"

    def __init__(self, name, *, cacheable=False):
        if type(self) is HigherOrderOperator:
            raise RuntimeError(
                "Direct instantiation of HigherOrderOperator is not allowed. Please subclass it and give it __call__"
            )
        self._name = self.__name__ = self.__qualname__ = name
        self._cacheable = cacheable
        self.__module__ = f"{_C.TensorBase.__module__.split('.')[0]}.ops.higher_order"
        self._rules = {}  # name of a key, or class of a mode or tensor -> function
        _higher_order[name] = self

    @property
    def _ns(self):
        return self.namespace

    def name(self):
        """Its name."""
        return self._name

    def cacheable(self):
        """What it was made with."""
        return self._cacheable

    def py_impl(self, k):
        """Decorator: the rule for a dispatch key (its name), for a mode's class (called with the mode first, which is
        off meanwhile) or for a subclass of Tensor.

        Raises: RuntimeError if there is one.
        """
        key = k if isinstance(k, (str, type)) else k.name
        if key in self._rules:
            raise RuntimeError(f"{self._name} has a rule for {key} already")

        def keep(function):
            self._rules[key] = function
            return function

        return keep

    def py_autograd_impl(self, fn):
        """Decorator: the rule for arguments that require grad."""
        return self.py_impl("Autograd")(fn)

    def fallthrough(self, dispatch_key):
        """There is no rule at this key, and none is needed."""
        self._rules.setdefault(dispatch_key if isinstance(dispatch_key, str) else dispatch_key.name, None)

    def _rule_of(self, cls):
        return next((self._rules[c] for c in cls.__mro__ if c in self._rules), None)

    def __call__(self, /, *args, **kwargs):
        root = sys.modules["tessera"]
        leaves = root.utils._pytree.tree_leaves((args, kwargs))
        if root.overrides.has_torch_function(leaves):
            return root.overrides.handle_torch_function(self, leaves, *args, **kwargs)
        return self.dispatch(leaves, *args, **kwargs)

    def dispatch(self, leaves, /, *args, **kwargs):
        """The call behind `__torch_function__`; `leaves` are those of its arguments."""
        if _C._len_torch_dispatch_stack():
            mode = _C._pop_torch_dispatch_stack()
            try:
                rule = self._rule_of(type(mode))
                if rule is None:
                    raise NotImplementedError(
                        f"There is no rule of the operator {self._name} for the mode {type(mode).__name__}: register "
                        f"one with {self._name}.py_impl"
                    )
                return rule(mode, *args, **kwargs)
            finally:
                _C._push_on_torch_dispatch_stack(mode)
        tensors = [leaf for leaf in leaves if isinstance(leaf, _C.TensorBase)]
        for t in tensors:
            rule = self._rule_of(type(t)) if type(t) is not _C.TensorBase else None
            if rule is not None:
                return rule(*args, **kwargs)
        if _C.is_grad_enabled() and any(t.requires_grad for t in tensors) and self._rules.get("Autograd"):
            return self._rules["Autograd"](*args, **kwargs)
        backend = {"cuda": "CUDA", "meta": "Meta"}.get(tensors[0].device.type, "CPU") if tensors else "CPU"
        for key in (backend, "CompositeExplicitAutograd", "CompositeImplicitAutograd"):
            if self._rules.get(key):
                return self._rules[key](*args, **kwargs)
        raise NotImplementedError(f"There is no rule of the operator {self._name} for {backend}")

    def __repr__(self):
        return f"<HigherOrderOperator(op='{self._name}')>"

    def __str__(self):
        return self._name

    def __deepcopy__(self, memo):
        return self

    def __copy__(self):
        return self

    def __reduce__(self):
        return _higher_order_of, (self._name,)


_higher_order = {}  # name -> HigherOrderOperator


class _HigherOrderNamespace:
    """`ops.higher_order`: those that exist; the package's own are made when they are first asked for."""

    __name__ = name = "higher_order"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in _higher_order:
            sys.modules["tessera"]._higher_order_ops  # noqa: B018 - loading it makes them
        if name not in _higher_order:
            raise AttributeError(f"'_OpNamespace' 'higher_order' object has no attribute '{name}'")
        return _higher_order[name]

    def __dir__(self):
        sys.modules["tessera"]._higher_order_ops  # noqa: B018
        return sorted(_higher_order)

    def __iter__(self):
        return iter(self.__dir__())

    def __repr__(self):
        return "<namespace ops.higher_order>"


def _higher_order_of(name):
    return getattr(ops.higher_order, name)


# Operators of sizes, which are known of tensors without data, too: "name.overload" -> (parameters, function).
# Operators that are methods of Tensor here, and operators for those who ask for them: {name: (schema, kernel)}.
_METHOD_OPERATORS = {
    "sym_size.int": ("(Tensor self, int dim) -> SymInt", lambda self, dim: self.size(dim)),
    "sym_stride.int": ("(Tensor self, int dim) -> SymInt", lambda self, dim: self.stride(dim)),
    "sym_numel": ("(Tensor self) -> SymInt", lambda self: self.numel()),
    "sym_storage_offset": ("(Tensor self) -> SymInt", lambda self: self.storage_offset()),
    "_pin_memory": ("(Tensor self, Device? device=None) -> Tensor", lambda self, device=None: self.pin_memory(device)),
}
_method_kernels = []  # as long as these are kept, the operators have their kernels


def _define_method_operators(base):
    """Defines those of a base name ("aten::sym_size"), if it is one and they are not there. True if it did."""
    more = importlib.import_module("tessera._library.operators")
    own = {f"aten::{name}": what for name, what in _METHOD_OPERATORS.items()}
    tables = {"CompositeExplicitAutograd": {**own, **more.EXPLICIT}, "CompositeImplicitAutograd": more.IMPLICIT}
    for key, table in tables.items():
        for name, (signature, function) in table.items():
            if name.partition(".")[0] == base:
                qualified = _C._define_op(name + signature, "")
                _method_kernels.append(_C._register_op_kernel(qualified, key, function, False))
    if base in ("aten::_assert_scalar", "aten::_assert_async"):
        importlib.import_module("tessera.export._symbols")  # makes them
    return bool(_C._op_overloads(base))


class _OpNamespace(types.ModuleType):
    def __init__(self, name):
        super().__init__(f"{_C.TensorBase.__module__.split('.')[0]}.ops.{name}")
        self.name = name

    def __getattr__(self, name):
        if name.startswith("__") and not _C._op_overloads(f"{self.name}::{name}"):
            raise AttributeError(name)
        if not _C._op_overloads(f"{self.name}::{name}") and not (
            self.name in ("aten", "prim", "prims") and _define_method_operators(f"{self.name}::{name}")
        ):
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{name}'")
        packet = OpOverloadPacket(self.name, name)
        setattr(self, name, packet)
        return packet

    def __iter__(self):
        return iter(self.__dir__())

    def __dir__(self):
        prefix = f"{self.name}::"
        return sorted(name[len(prefix) :] for name in _C._op_names() if name.startswith(prefix))

    def __repr__(self):
        return f"<namespace ops.{self.name}>"


# Modules of tessera.distributed that define operators, by their namespaces.
_WITH_DISTRIBUTED = {
    "_c10d_functional": "_functional_collectives",
    "_c10d_functional_autograd": "_functional_collectives",
    "_dtensor": "_functional_collectives",
    "c10d": "_operators",
    "c10d_functional": "_functional_collectives",
    "symm_mem": "_symmetric_memory",
}


class _Ops(types.ModuleType):
    """See the module."""

    def __init__(self):
        super().__init__(f"{_C.TensorBase.__module__.split('.')[0]}.ops")
        self.loaded_libraries = set()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "higher_order":
            namespace = _HigherOrderNamespace()
        elif name == "quantized":
            namespace = sys.modules["tessera"].ao.nn._quantized_ops.operators
        else:
            namespace = _OpNamespace(name)
        setattr(self, name, namespace)
        if name in _WITH_DISTRIBUTED:
            getattr(sys.modules["tessera"].distributed, _WITH_DISTRIBUTED[name])
        return namespace

    def __dir__(self):
        return sorted({name.split("::")[0] for name in _C._op_names()} | {"load_library", "loaded_libraries"})

    def load_library(self, path):
        """Loads a shared library that registers operators. Raises: OSError if it can't be loaded."""
        import ctypes
        import os

        path = os.path.realpath(path)
        if path not in self.loaded_libraries:
            ctypes.CDLL(path)
            self.loaded_libraries.add(path)


ops = _Ops()


def _packet_of(name):
    """The OpOverloadPacket of "aten::add"."""
    namespace, _, short = name.partition("::")
    return getattr(getattr(ops, namespace), short)


def _overload_of(name, overload):
    """The OpOverload of ("aten::add", "Tensor"); the extension asks for it."""
    return _packet_of(name)._get(overload)


def _resolve(op):
    """An OpOverload from itself, from a packet with one overload, or from its qualified name. Raises: RuntimeError,
    ValueError.
    """
    if isinstance(op, OpOverload):
        return op
    if isinstance(op, OpOverloadPacket):
        names = op.overloads()
        if len(names) != 1:
            raise ValueError(f"{op} has the overloads {names}: name one of them")
        return getattr(op, names[0])
    name, _, overload = op.partition(".")
    if overload not in _C._op_overloads(name):
        raise RuntimeError(f"there is no operator {op}")
    return _overload_of(name, overload)


def _forget(qualified_name):
    """Drops the objects of an operator that was undefined."""
    name, _, overload = qualified_name.partition(".")
    namespace, _, short = name.partition("::")
    holder = ops.__dict__.get(namespace)
    packet = holder.__dict__.get(short) if holder is not None else None
    if packet is not None:
        packet._overloads.pop(overload, None)
        if not _C._op_overloads(name):
            del holder.__dict__[short]


_rules = {}  # (qualified name, class) -> what register_torch_dispatch was given


def _dispatch_rule(func, cls):
    """The rule for an operator under a mode or subclass, or None; the extension asks for it."""
    if _rules:
        for base in cls.__mro__:
            rule = _rules.get((func._name, base))
            if rule is not None:
                return rule
    return None


_COMPARED = frozenset("eq ne lt le gt ge remainder fmod rsub".split())


def _documented_call(func, args, kwargs, cls):
    """(func, args, kwargs) as a class of a program is to see a call of an operator that only this library has, or of
    one for tensors with a number in a tensor's place; None where it is as documented, or for classes of the library.
    """
    if cls.__module__.partition(".")[0] == "tessera" or not func._name.startswith("aten::"):
        return None
    name = func._name[6:].partition(".")[0]
    plain = name.rstrip("_") if not name.startswith("__") else name
    written = name[len(plain) :]  # "_" of the in-place form
    number = len(args) > 1 and not isinstance(args[1], tessera.Tensor)
    overload = ""
    if plain in _COMPARED and number:
        overload = "Scalar"
    elif plain == "pow" and func._overloadname == "Tensor_Tensor":
        overload = "Scalar" if written or not isinstance(args[0], tessera.Tensor) else "Tensor_Scalar" if number else ""
    elif plain in ("clamp_min", "clamp_max") and number:
        overload = "default"
    elif plain == "_square":
        plain, overload, args = "pow", "Scalar" if written else "Tensor_Scalar", (*args, 2)
    elif plain == "_clamp_scalar":
        low, high = (None if abs(v) == math.inf else v for v in args[1:])
        plain, overload, args = "clamp", "default", (args[0], low) if high is None else (args[0], low, high)
    elif plain == "_where":
        tensors = [isinstance(v, tessera.Tensor) for v in args[1:]]
        plain, overload = "where", "self" if all(tensors) else "ScalarOther" if tensors[0] else "ScalarSelf"
    elif plain == "_masked_fill":
        plain, overload = "masked_fill", "Scalar"
    elif plain == "_native_layer_norm":
        plain, overload = "native_layer_norm", "default"
    elif plain == "_batch_norm" and (args[3] is None or not args[7]):  # its own statistics, or those that were kept
        kept = args[5:7] if args[3] is None else args[3:5]
        plain, overload, args = "native_batch_norm", "default", args[:3] + kept + args[7:]
    if not overload:
        return None
    return getattr(getattr(ops.aten, plain + written), overload), args, kwargs
