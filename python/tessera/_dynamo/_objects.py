"""Attributes, items, truth and identity of captured values."""

import collections
import enum
import functools
import inspect
import types

import tessera
from tessera.nn.modules._declared import _Pending as Pending

from ._raising import fail
from ._tracer import BY_IDENTITY, CONSTANTS, is_named_tuple, kind_of
from ._values import (
    Bound, Closure, Const, Context, Endless, Iter, ListIter, Loose, Map, Method, New, NumberV, Obj, Partial, Raised,
    Seq, Slice, Super, TensorV, View, contents,
)  # fmt: skip
from .exc import FUNDAMENTAL, Unsupported

_missing = object()


class NoAttribute(Unsupported):
    """An object has no such attribute."""


def is_ours(space):
    """Whether globals are of a module of this library."""
    name = space.get("__name__") or ""
    return name == "tessera" or name.startswith("tessera.")


def describe(var):
    """A Var for people."""
    if isinstance(var, Raised):
        return var.cls.__name__
    if isinstance(var, (Const, Obj)):
        return f"{var.value!r:.80}" if isinstance(var, Const) else getattr(var.value, "__qualname__", kind_of(var))
    return kind_of(var)


def constant(var, what):
    """The value of a Var that has to be known while capturing."""
    if isinstance(var, Const):
        return var.value
    if isinstance(var, NumberV):
        return var.tracer.specialize(var)
    if isinstance(var, Seq) and var.cls in (tuple, list, tessera.Size, set, frozenset):
        return var.cls([constant(v, what) for v in var.items])
    if isinstance(var, Obj) and not isinstance(var, Loose) and isinstance(var.value, (*BY_IDENTITY, enum.Enum)):
        return var.value
    raise Unsupported(f"{what} that is no constant: a {kind_of(var)}")


def key(var):
    """What a dict has as key for a Var."""
    if isinstance(var, Const):
        return var.value
    if isinstance(var, Obj) and not isinstance(var, Loose) and type(var.value).__hash__ is not None:
        if not isinstance(var.value, BY_IDENTITY) and type(var.value).__hash__ is not object.__hash__:
            raise Unsupported(f"a {kind_of(var)} as key of a dict")
        return var.value
    if isinstance(var, Seq) and var.cls in (tuple, tessera.Size):
        return tuple(key(v) for v in var.items)
    if isinstance(var, NumberV):
        return constant(var, "a key")
    if isinstance(var, TensorV):
        return var  # by identity, as tensors are; there is one Var for each
    raise Unsupported(f"a {kind_of(var)} as key of a dict")


def key_var(tracer, value):
    """The Var of a key of a dict."""
    if isinstance(value, TensorV):
        return value
    if isinstance(value, tuple):
        return Seq([key_var(tracer, v) for v in value], tuple)
    return Const(value) if type(value) in CONSTANTS else tracer.trusted(value)


def unique(items):
    """Vars of a set without those that are there twice."""
    return list({key(v): v for v in items}.values())


def truth(tracer, var):
    """Whether a Var is true."""
    if isinstance(var, Const):
        return bool(var.value)
    if isinstance(var, (Seq, Map)):
        return bool(var.items)
    if isinstance(var, View):
        return bool(var.of.items)
    if isinstance(var, TensorV):
        if var.example.numel() != 1:
            raise Unsupported("the truth of a tensor with several elements")
        raise Unsupported(
            "Data-dependent branching", case_name="branch", context="attempted to jump with TensorVariable()",
            explanation="Detected data-dependent branching (e.g. `if my_tensor.sum() > 0:`). Dynamo does not support "
            "tracing dynamic control flow.",
            hints=[FUNDAMENTAL, "Use `torch.cond` to express dynamic control flow."],
        )  # fmt: skip
    if isinstance(var, NumberV):
        return tracer.decide(var)
    if isinstance(var, (Closure, Bound, Method, Partial, Context, Slice, Super, Iter, Raised)):
        return True
    cls = var.cls if isinstance(var, New) else type(var.value)
    for name in ("__bool__", "__len__"):
        if getattr(cls, name, None) is not None:
            return truth(tracer, _call_method(tracer, var, name))
    return True


def is_open(var):
    """Whether the truth of a tensor of one element, or of a number, is not known while capturing."""
    if isinstance(var, TensorV):
        return var.example.numel() == 1
    return isinstance(var.example, tessera.SymBool) and not var.example.node.has_hint()


def _call_method(tracer, var, name, *args):
    return tracer.run_call(tracer, attribute(tracer, var, name), list(args), {})


def same(tracer, a, b):
    """`a is b`."""
    if a is b:
        return True
    if isinstance(a, Const) and isinstance(b, Const):
        return a.value is b.value
    if isinstance(a, Obj) and isinstance(b, Obj) and a.value is b.value and not isinstance(a, Loose):
        return True
    if isinstance(a, Const) or isinstance(b, Const):
        return False
    if a.source is not None and b.source is not None and type(a) is type(b):
        if not (isinstance(a, Obj) and isinstance(a.value, BY_IDENTITY)):
            tracer.guard(a.source, "SAME", (b.source, False))
    if isinstance(a, (Bound, Method, Loose)) or isinstance(b, (Bound, Method, Loose)):
        raise Unsupported("`is` of methods")
    return False


def read_cell(tracer, cell, name):
    """The value of a variable that functions share."""
    if cell.unread:
        try:
            value = cell.value.cell_contents
        except ValueError:
            raise Unsupported(f"the variable {name!r} has no value") from None
        cell.unread, cell.contents = False, tracer.wrap(value, cell.source.attr("cell_contents"))
    if cell.contents is None:
        raise Unsupported(f"the variable {name!r} has no value")
    if isinstance(cell.contents, tuple):
        cell.contents = tracer.wrap(*cell.contents)
    return cell.contents


# --- attributes -------------------------------------------------------------------------------------------------------

# Attributes of tensors that are facts of the example.
_FACTS = frozenset(
    "dtype device layout ndim requires_grad is_cuda is_cpu is_sparse is_quantized is_meta is_mkldnn is_mps is_xpu "
    "is_leaf itemsize nbytes is_nested is_sparse_csr names is_ipu is_maia is_mtia is_vulkan is_xla".split()
)
_VIEWS = frozenset("T H mT mH real imag data".split())
_TENSOR_REFUSED = frozenset(
    "item tolist numpy backward register_hook register_post_accumulate_grad_hook retain_grad requires_grad_ detach_ "
    "set_ resize_ resize_as_ data_ptr storage "
    "untyped_storage share_memory_ pin_memory rename_ rename refine_names align_to names nonzero unique "
    "unique_consecutive _backward_hooks __array__ __dlpack__ grad_fn __len__ __iter__ __cuda_array_interface__ "
    "__reduce_ex__ __deepcopy__ __setstate__ __hash__ _version is_shared stft".split()
)


_BY_NUMBERS, _BY_SIZE = ("item", "tolist"), ("nonzero", "unique", "unique_consecutive")


def is_refused(tracer, name):
    """Whether a tensor's attribute, or method, ends a graph."""
    if name in _BY_NUMBERS and tracer.captures_numbers():
        return False
    return name in _TENSOR_REFUSED and not (name in _BY_SIZE and tracer.captures_sizes())


def attribute(tracer, owner, name):
    """`owner.name`. Raises: NoAttribute, Unsupported."""
    written = tracer.written(owner, name)
    if written is not None:
        return written
    if isinstance(owner, Obj):
        return _of_object(tracer, owner, name)
    if isinstance(owner, TensorV):
        return _of_tensor(tracer, owner, name)
    if isinstance(owner, New):
        return _through_getattribute(tracer, owner, owner.cls, name) or _of_new(tracer, owner, name)
    if isinstance(owner, (Seq, Map, NumberV, Iter, View)) or (isinstance(owner, Const)):
        return _of_container(tracer, owner, name)
    if isinstance(owner, Super):
        return _of_super(tracer, owner, name)
    if isinstance(owner, Closure) and name in ("__name__", "__qualname__"):
        return Const(owner.name)
    if isinstance(owner, Closure) and name in owner.attributes:
        return owner.attributes[name]
    if isinstance(owner, Bound) and name == "__self__":
        return owner.owner
    if isinstance(owner, Bound) and name == "__func__":
        return owner.function
    if isinstance(owner, Bound):
        return attribute(tracer, owner.function, name)
    if isinstance(owner, Partial) and name in ("func", "args", "keywords"):
        return {"func": owner.function, "args": Seq(owner.args, tuple), "keywords": Map(owner.kwargs)}[name]
    if isinstance(owner, Partial) and owner.source is None:
        if not hasattr(functools.partial(len), name):
            raise NoAttribute(f"'functools.partial' object has no attribute {name!r}")
        return Method(owner, name)
    if isinstance(owner, Slice) and name in ("start", "stop", "step"):
        return owner.parts[("start", "stop", "step").index(name)]
    raise Unsupported(f"the attribute {name!r} of a {kind_of(owner)}")


def _of_container(tracer, owner, name):
    if isinstance(owner, Seq) and is_named_tuple(owner.cls):
        fields = getattr(owner.cls, "_fields", None) or _result_fields(owner.cls)
        if name in fields:
            return owner.items[fields.index(name)]
    cls = type(owner.value) if isinstance(owner, Const) else getattr(owner, "cls", None)
    if name == "__class__" and cls is not None:
        return tracer.trusted(cls)
    raw = inspect.getattr_static(cls, name, None) if isinstance(cls, type) else None
    if isinstance(owner, Const) and (isinstance(raw, property) or not callable(getattr(owner.value, name, None))):
        found = getattr(owner.value, name, _missing)
        if found is _missing:
            raise NoAttribute(f"'{cls.__name__}' object has no attribute {name!r}")
        if isinstance(found, types.MappingProxyType):  # the parameters of a signature
            return Map({k: Const(v) for k, v in found.items()}, type(found))
        return Const(found) if isinstance(found, CONSTANTS) else tracer.trusted(found)
    if isinstance(cls, type) and not hasattr(cls, name):
        raise NoAttribute(f"'{cls.__name__}' object has no attribute {name!r}")
    if isinstance(raw, types.FunctionType):  # a method of a named tuple
        return Bound(tracer.trusted(raw), owner)
    if isinstance(raw, staticmethod) and isinstance(raw.__func__, types.FunctionType):
        return tracer.trusted(raw.__func__)
    if isinstance(raw, classmethod) and isinstance(raw.__func__, types.FunctionType):
        return Bound(tracer.trusted(raw.__func__), tracer.trusted(cls))
    if isinstance(raw, property) and isinstance(raw.fget, types.FunctionType):
        return tracer.run_call(tracer, tracer.trusted(raw.fget), [owner], {})
    return Method(owner, name)


@functools.lru_cache(None)
def _result_fields(cls):
    made = cls(range(cls.n_fields))
    names = [n for n in dir(cls) if type(getattr(cls, n)).__name__ == "member_descriptor"]
    return sorted(names, key=lambda n: getattr(made, n))


def _of_tensor(tracer, owner, name):
    example = owner.example
    if name == "shape":
        return Seq([tracer.number(n, owner, d) for d, n in enumerate(example.shape)], tessera.Size)
    if name in _FACTS:
        value = getattr(example, name)
        return Const(value) if isinstance(value, CONSTANTS) else Seq([Const(v) for v in value], tuple)
    if name in _VIEWS:
        return tracer.call("call_function", getattr, [owner, Const(name)], {})
    if name == "grad":
        return _gradient(tracer, owner)
    if name == "__class__":
        return tracer.trusted(owner.cls)
    if name == "is_inference":
        known = tessera.is_inference_mode_enabled() if owner.real is None else owner.real.is_inference()
        if owner.source is not None:
            tracer.guard(owner.source, "CALL", (tessera.Tensor.is_inference, known))
        return Const(functools.partial(bool, known))
    if is_refused(tracer, name):
        raise Unsupported(f"Tensor.{name}", case_name="tensor method")
    real = owner.real
    if real is not None and name in getattr(real, "__dict__", ()):
        return tracer.wrap(getattr(real, name), owner.source.attr(name))
    raw = getattr(owner.cls, name, _missing)
    if raw is _missing:
        tracer.guard(owner.source, "HASATTR", (name, False))
        raise NoAttribute(f"'{owner.cls.__name__}' object has no attribute {name!r}")
    if callable(raw):
        return Method(owner, name)
    raise Unsupported(f"Tensor.{name}", case_name="tensor attribute")


def numbers(tracer, owner, name):
    """A tensor's number, or the list of them, as symbols."""
    if name == "tolist" and owner.example.dim() > 0:
        length = owner.example.shape[0]
        if not isinstance(length, int):
            raise Unsupported("Tensor.tolist of a tensor whose size is a symbol")
        parts = [item(tracer, owner, Const(i)) for i in range(length)]
        return Seq([numbers(tracer, part, name) for part in parts], list)
    tracer.symbols()
    return tracer.call("call_method", "item", [owner], {})


def _gradient(tracer, owner):
    real = owner.real
    if real is None:
        raise Unsupported("Tensor.grad of a result")
    return tracer.wrap(real.grad, owner.source.attr("grad"))


def own_attribute(tracer, owner, name):
    """`object.__getattribute__(owner, name)`."""
    written = tracer.written(owner, name)
    if written is not None:
        return written
    if isinstance(owner, New):
        return _of_new(tracer, owner, name)
    if isinstance(owner, Obj) and owner.source is not None and not isinstance(owner.value, BY_IDENTITY):
        return _of_instance(tracer, owner, name)
    raise Unsupported(f"object.__getattribute__ of a {kind_of(owner)}")


def _through_getattribute(tracer, owner, cls, name):
    """`owner.name` as a `__getattribute__` of its class gives it; None where the class has none of its own."""
    raw = _in_class(cls, "__getattribute__")
    if raw in _PLAIN_GETTERS:
        return None
    if not isinstance(raw, types.FunctionType):
        raise Unsupported(f"an attribute of {cls.__name__}, which has a __getattribute__ of its own")
    getter = tracer.wrap(raw, tracer.class_source(cls).attr("__getattribute__"))
    return tracer.run_call(tracer, getter, [owner, Const(name)], {})


def _of_new(tracer, owner, name):
    raw = _in_class(owner.cls, name)
    if isinstance(raw, property):
        tracer.guard(tracer.class_source(owner.cls).attr(name), "ID_MATCH", raw, raw)
        return _inline_property(tracer, raw, owner)
    if name in owner.attributes:
        return owner.attributes[name]
    if name == "__class__":
        return tracer.trusted(owner.cls)
    if name == "__dict__":
        return Map(owner.attributes, dict)
    if raw is _missing:
        return _through_getattr(tracer, owner, owner.cls, name)
    return _bind(tracer, raw, owner, owner.cls, tracer.class_source(owner.cls), name)


def _in_class(cls, name):
    for base in cls.__mro__:
        if name in base.__dict__:
            raw = base.__dict__[name]
            if isinstance(raw, Pending):  # written when it is first asked for
                getattr(base, name)
                raw = base.__dict__[name]
            return raw
    return _missing


def _inline_property(tracer, raw, owner):
    if raw.fget is None:
        raise NoAttribute("a property that can't be read")
    return tracer.run_call(tracer, tracer.trusted(raw.fget), [owner], {})


def _through_getattr(tracer, owner, cls, name):
    if cls in _OPERATOR_TREE:  # `torch.ops.mine.add.default`: operators are found, or made, when they are asked for
        try:
            return tracer.wrap(getattr(owner.value, name), owner.source.attr(name))
        except AttributeError as error:
            raise NoAttribute(str(error)) from None
    raw = _in_class(cls, "__getattr__")
    if raw is _missing or raw is tessera.nn.Module.__getattr__:
        raise NoAttribute(f"'{cls.__name__}' object has no attribute {name!r}")
    found = tracer.wrap(raw, tracer.class_source(cls).attr("__getattr__"))
    return tracer.run_call(tracer, found, [owner, Const(name)], {})


def _bind(tracer, raw, owner, cls, cls_source, name):
    """What an attribute of a class is on an instance. `owner`: Var, or None on the class itself."""
    source = cls_source.attr(name)
    ours = is_ours(vars(types.SimpleNamespace(__name__=getattr(raw, "__module__", None) or "")))
    if isinstance(raw, (types.FunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)) or (
        type(raw) is type(tessera.Tensor.add)
    ):
        function = tracer.trusted(raw) if ours or not isinstance(raw, types.FunctionType) else tracer.wrap(raw, source)
        return function if owner is None else Bound(function, owner)
    if isinstance(raw, staticmethod):
        return tracer.wrap(raw.__func__, source)
    if isinstance(raw, classmethod):
        function = tracer.trusted(raw.__func__) if ours else tracer.wrap(raw.__func__, source.attr("__func__"))
        return Bound(function, tracer.trusted(cls))
    if isinstance(raw, functools.partialmethod) or (hasattr(type(raw), "__get__") and not isinstance(raw, type)):
        if hasattr(type(raw), "__set__") or not isinstance(raw, BY_IDENTITY):
            raise Unsupported(f"the attribute {name!r}, a {type(raw).__name__} of {cls.__name__}")
    return tracer.wrap(raw, source)


def _of_object(tracer, owner, name):
    value, source = owner.value, owner.source
    if isinstance(value, types.ModuleType):
        return _of_module(tracer, owner, name)
    if isinstance(value, type):
        return _of_class(tracer, owner, name)
    if isinstance(value, BY_IDENTITY) and not isinstance(value, enum.Enum):
        return _of_function(tracer, owner, name)
    if name == "__class__":
        return tracer.trusted(type(value))
    if source is None:
        raise Unsupported(f"the attribute {name!r} of a {kind_of(owner)}")
    return _through_getattribute(tracer, owner, type(value), name) or _of_instance(tracer, owner, name)


def _of_module(tracer, owner, name):
    try:
        found = getattr(owner.value, name)
    except AttributeError:
        tracer.guard(owner.source, "HASATTR", (name, False))
        raise NoAttribute(f"module {owner.value.__name__!r} has no attribute {name!r}") from None
    if isinstance(found, BY_IDENTITY) and is_ours(vars(owner.value)):
        return tracer.trusted(found)
    if isinstance(found, types.ModuleType) and is_ours(vars(found)):
        return tracer.trusted(found)
    if (
        owner.source is None
        or owner.source.kind == "object"
        and isinstance(found, CONSTANTS)
        and not is_ours(vars(owner.value))
    ):
        return tracer.wrap(found, tracer.trusted(owner.value).source.attr(name))
    return tracer.wrap(found, owner.source.attr(name))


def _of_class(tracer, owner, name):
    cls = owner.value
    raw = _in_class(cls, name)
    source = owner.source or tracer.class_source(cls)
    if raw is _missing or name in ("__name__", "__qualname__", "__module__", "__mro__", "__dict__", "__doc__"):
        found = getattr(cls, name, _missing)
        if found is _missing:
            tracer.guard(source, "HASATTR", (name, False))
            raise NoAttribute(f"type object {cls.__name__!r} has no attribute {name!r}")
        if isinstance(found, (CONSTANTS)):
            return Const(found)
        return tracer.wrap(found, source.attr(name))
    if name == "apply" and issubclass(cls, tessera.autograd.Function):
        return Method(owner, name)
    if isinstance(cls, enum.EnumMeta) and isinstance(getattr(cls, name, None), cls):
        return tracer.trusted(getattr(cls, name))
    return _bind(tracer, raw, None, cls, source, name)


def _of_function(tracer, owner, name):
    found = getattr(owner.value, name, _missing)
    if found is _missing:
        tracer.guard(owner.source, "HASATTR", (name, False))
        raise NoAttribute(f"{kind_of(owner)!r} object has no attribute {name!r}")
    source = owner.source or tracer.trusted(owner.value).source
    if name in ("__get__", "__call__"):
        raise Unsupported(f"{name} of a function")
    if isinstance(found, (types.MethodWrapperType, types.BuiltinMethodType)) and found.__self__ is owner.value:
        return Method(owner, name)
    return tracer.wrap(found, source.attr(name))


def _of_instance(tracer, owner, name):
    value, source, cls = owner.value, owner.source, type(owner.value)
    raw = _in_class(cls, name)
    if isinstance(raw, property):
        tracer.guard(source.type().attr(name), "ID_MATCH", raw, raw)
        return _inline_property(tracer, raw, owner)
    space = getattr(value, "__dict__", {})
    if type(raw) in (types.MemberDescriptorType, types.GetSetDescriptorType) and name != "__dict__":
        try:
            return tracer.wrap(getattr(value, name), source.attr(name))
        except AttributeError as error:
            raise NoAttribute(str(error)) from None
    if name == "__dict__":
        if tracer.has_effects(owner):
            raise Unsupported("__dict__ of an object that was written to")
        return tracer.wrap(space, source.attr("__dict__"))
    written = tracer.changed(space)
    if written is not None:
        if name in written:
            return written[name]
    elif name in space:
        if isinstance(value, tessera.nn.Module) and name in _TABLES and tracer.has_effects(owner):
            raise Unsupported(f"{name} of a module that was written to")
        return tracer.wrap(space[name], source.attr(name))
    if raw is not _missing:
        if hasattr(value, "__dict__") and not (isinstance(value, tessera.nn.Module) and name == "__call__"):
            tracer.guard(source.attr("__dict__"), "NOT_IN", name)
        return _bind(tracer, raw, owner, cls, source.type(), name)
    if isinstance(value, tessera.nn.Module) and cls.__getattr__ is tessera.nn.Module.__getattr__:
        for table in _TABLES:
            found = space.get(table, {})
            written = tracer.changed(found)
            if written is not None:
                if name in written:
                    return written[name]
            elif name in found:
                return tracer.wrap(found[name], source.attr(table).item(name))
    if _in_class(cls, "__getattr__") in (_missing, tessera.nn.Module.__getattr__):
        tracer.guard(source, "HASATTR", (name, False))
    elif space:
        tracer.guard(source.attr("__dict__"), "NOT_IN", name)
    return _through_getattr(tracer, owner, cls, name)


_PLAIN_GETTERS = (object.__getattribute__, dict.__getattribute__, tessera.nn.Module.__getattribute__)
_TABLES = ("_parameters", "_buffers", "_modules")
_OPERATOR_TREE = (tessera._ops._Ops, tessera._ops._OpNamespace, tessera._ops.OpOverloadPacket)


def super_attribute(tracer, cls, owner, name):
    """`super(cls, owner).name`."""
    return _of_super(tracer, Super(cls.value, owner), name)


def _of_super(tracer, var, name):
    owner = var.owner
    if isinstance(owner, Obj) and isinstance(owner.value, type):
        start, instance = owner.value, None
    else:
        start, instance = (owner.cls if isinstance(owner, New) else type(owner.value)), owner
    mro = start.__mro__
    for base in mro[mro.index(var.cls) + 1 :]:
        if name in base.__dict__:
            raw = base.__dict__[name]
            if isinstance(raw, property):
                return _inline_property(tracer, raw, owner)
            if isinstance(raw, classmethod):
                return Bound(tracer.trusted(raw.__func__), tracer.trusted(start))
            return _bind(tracer, raw, instance, base, tracer.class_source(base), name)
    raise NoAttribute(f"'super' object has no attribute {name!r}")


def set_attribute(tracer, owner, name, value):
    """`owner.name = value`."""
    cls = owner.cls if isinstance(owner, New) else type(getattr(owner, "value", None))
    if isinstance(owner, TensorV):
        raise Unsupported(f"an attribute of a tensor is set: {name!r}")
    if not isinstance(owner, (New, Obj, Closure)) or isinstance(getattr(owner, "value", None), BY_IDENTITY):
        raise Unsupported(f"an attribute of a {kind_of(owner)} is set: {name!r}")
    if isinstance(owner, Closure):
        owner.attributes[name] = value
        return
    raw = _in_class(cls, name)
    if isinstance(raw, property):
        if raw.fset is None:
            raise Unsupported(f"the property {name!r} can't be set")
        tracer.run_call(tracer, tracer.trusted(raw.fset), [owner, value], {})
        return
    setter = cls.__setattr__
    if setter is not object.__setattr__ and setter is not tessera.nn.Module.__setattr__:
        if not isinstance(setter, types.FunctionType):
            raise Unsupported(f"an attribute of {cls.__name__} is set, which has a __setattr__ of its own")
        tracer.run_call(tracer, tracer.trusted(setter), [owner, Const(name), value], {})
        return
    store_attribute(tracer, owner, name, value)


def delete_attribute(tracer, owner, name):
    """`del owner.name`."""
    if not isinstance(owner, New) or owner.cls.__delattr__ is not object.__delattr__:
        raise Unsupported(f"del of the attribute {name!r} of a {kind_of(owner)}")
    if name not in owner.attributes:
        fail(tracer, AttributeError, f"{owner.cls.__name__!r} object has no attribute {name!r}")
    del owner.attributes[name]


def store_attribute(tracer, owner, name, value):
    """object.__setattr__, and that of modules."""
    if isinstance(owner, New):
        owner.attributes[name] = value
        return
    real = owner.value
    if isinstance(real, tessera.nn.Module):
        if name in real._parameters and not isinstance(value, Const):
            raise Unsupported(f"the parameter {name!r} of a module is set")
        if isinstance(value, TensorV) and value.cls is not tessera.Tensor and name not in real._buffers:
            raise Unsupported(f"a parameter {name!r} is registered")
    if owner.source is None:
        raise Unsupported(f"an attribute of a {kind_of(owner)} is set")
    tracer.effect(owner, name, value)


# --- items ------------------------------------------------------------------------------------------------------------


def items_of(tracer, var):
    """All values that iterating gives: a list of Vars."""
    if isinstance(var, Seq):
        return list(var.items)
    if isinstance(var, Map):
        return [key_var(tracer, k) for k in var.items]
    if isinstance(var, View):
        pairs = {
            "keys": lambda: [key_var(tracer, k) for k in var.of.items],
            "values": lambda: list(var.of.items.values()),
            "items": lambda: [Seq([key_var(tracer, k), v], tuple) for k, v in var.of.items.items()],
        }
        return pairs[var.kind]()
    if isinstance(var, Const) and isinstance(var.value, (str, bytes, range)):
        return [Const(v) for v in var.value]
    if isinstance(var, TensorV):
        if not var.example.dim():
            raise Unsupported("iteration over a 0-d tensor")
        return tracer.call("call_function", tessera.unbind, [var], {}).items
    if isinstance(var, Endless):
        raise Unsupported("all values of an iterator without an end")
    if isinstance(var, (Iter, Obj, New)):
        at = var if isinstance(var, Iter) else iterate(tracer, var)
        found = []
        while isinstance(at, Iter):
            one = at.next()
            if one is None:
                return found
            found.append(one)
    raise Unsupported(f"iteration over a {kind_of(var)}")


def unpack(tracer, var, count):
    """As items_of, for an assignment to `count` names."""
    if isinstance(var, TensorV) and var.example.dim() and var.example.shape[0] != count:
        raise Unsupported(f"{var.example.shape[0]} rows for {count} names")
    return items_of(tracer, var)


def iterate(tracer, var):
    """`iter(var)`."""
    if isinstance(var, Iter):
        return var
    if isinstance(var, Seq) and var.cls is list:
        return ListIter(var)
    if isinstance(var, Const) and isinstance(var.value, range):
        return Iter(map(Const, var.value))
    if isinstance(var, (Obj, New)) and not isinstance(getattr(var, "value", None), BY_IDENTITY):
        cls = var.cls if isinstance(var, New) else type(var.value)
        if isinstance(_in_class(cls, "__iter__"), types.FunctionType):
            return _call_method(tracer, var, "__iter__")
        if isinstance(_in_class(cls, "__next__"), types.FunctionType):
            return var
        if contents(var) is not None:
            return iterate(tracer, contents(var))
        raise Unsupported(f"iteration over a {kind_of(var)}")
    if isinstance(var, Obj) and isinstance(var.value, enum.EnumMeta):
        return Iter([tracer.trusted(v) for v in var.value])
    return Iter(items_of(tracer, var))


def _index(key_):
    if isinstance(key_, Slice):
        return slice(*(constant(p, "a bound of a slice") for p in key_.parts))
    return constant(key_, "an index of a sequence")


def item(tracer, owner, key_):
    """`owner[key]`."""
    if isinstance(owner, TensorV):
        _reject_mask(tracer, key_)
        import operator

        return tracer.call("call_function", operator.getitem, [owner, key_], {})
    if isinstance(owner, Seq):
        at = _index(key_)
        try:
            found = owner.items[at]
        except (IndexError, TypeError) as error:
            fail(tracer, type(error), str(error))
        if not isinstance(at, slice):
            return found
        return Seq(found, tuple if is_named_tuple(owner.cls) else owner.cls)
    if isinstance(owner, Map):
        at = key(key_)
        if at in owner.items:
            return owner.items[at]
        if owner.factory is not None and not isinstance(owner.factory, Const):
            tracer.change(owner)
            owner.items[at] = made = tracer.run_call(tracer, owner.factory, [], {})
            return made
        fail(tracer, KeyError, at)
    if isinstance(owner, Const) and isinstance(owner.value, (str, bytes, range)):
        try:
            return Const(owner.value[_index(key_)])
        except IndexError as error:
            fail(tracer, IndexError, str(error))
    if isinstance(owner, Obj) and isinstance(owner.value, type):
        raise Unsupported(f"{owner.value.__name__}[...]")
    if isinstance(owner, Obj) and isinstance(key_, Slice) and _is_module_list(type(owner.value)):
        return Seq(items_of(tracer, owner)[_index(key_)], type(owner.value))
    if isinstance(owner, (Obj, New)):
        return _call_method(tracer, owner, "__getitem__", key_)
    raise Unsupported(f"an item of a {kind_of(owner)}")


def _is_module_list(cls):
    """True if slices of the class are lists of modules which the class makes of their modules alone."""
    plain = tessera.nn.ModuleList
    return issubclass(cls, plain) and all(getattr(cls, n) is getattr(plain, n) for n in ("__getitem__", "__init__"))


def _reject_mask(tracer, key_):
    parts = key_.items if isinstance(key_, Seq) else [key_]
    for part in parts:
        if isinstance(part, TensorV) and part.example.dtype in (tessera.bool, tessera.uint8):
            if not tracer.captures_sizes():
                raise Unsupported("an index that is a mask: the size of the result depends on numbers")
            tracer.symbols()


def set_item(tracer, owner, key_, value):
    """`owner[key] = value`."""
    if isinstance(owner, TensorV):
        import operator

        tracer.call("call_function", operator.setitem, [owner, key_, value], {})
    elif isinstance(owner, Seq) and owner.cls in (list, collections.deque):
        at = _index(key_)
        tracer.change(owner)
        try:
            owner.items[at] = items_of(tracer, value) if isinstance(at, slice) else value
        except (IndexError, ValueError) as error:
            fail(tracer, type(error), str(error))
    elif isinstance(owner, Map):
        at = key(key_)
        tracer.change(owner)
        owner.items[at] = value
    elif isinstance(owner, (Obj, New)) and not isinstance(getattr(owner, "value", None), BY_IDENTITY):
        _call_method(tracer, owner, "__setitem__", key_, value)
    else:
        raise Unsupported(f"an item of a {kind_of(owner)} is set")


def delete_item(tracer, owner, key_):
    """`del owner[key]`."""
    at = _index(key_) if isinstance(owner, Seq) else key(key_)
    if not isinstance(owner, (Seq, Map)) or (isinstance(owner, Seq) and owner.cls is not list):
        raise Unsupported(f"an item of a {kind_of(owner)} is deleted")
    tracer.change(owner)
    try:
        del owner.items[at]
    except (IndexError, KeyError) as error:
        fail(tracer, type(error), at)


def contains(tracer, owner, var):
    """`var in owner`."""
    if isinstance(owner, (Map, View)) and getattr(owner, "kind", "keys") == "keys":
        return key(var) in (owner.items if isinstance(owner, Map) else owner.of.items)
    if isinstance(owner, Const):
        return constant(var, "what is looked for") in owner.value
    if isinstance(owner, Seq) and owner.cls in (set, frozenset):
        return key(var) in {key(v) for v in owner.items}
    if isinstance(owner, (Seq, View, Iter)):
        return next(places(tracer, items_of(tracer, owner), var), None) is not None
    if isinstance(owner, (Obj, New)):
        cls = owner.cls if isinstance(owner, New) else type(owner.value)
        if isinstance(_in_class(cls, "__contains__"), types.FunctionType):
            return truth(tracer, _call_method(tracer, owner, "__contains__", var))
        if contents(owner) is not None:
            return contains(tracer, contents(owner), var)
        if isinstance(owner, Obj) and isinstance(owner.value, enum.EnumMeta):
            return constant(var, "what is looked for") in owner.value
    raise Unsupported(f"`in` of a {kind_of(owner)}")


def places(tracer, items, var, start=None, end=None):
    """Yields where in a list of Vars, between two constants, a value stands."""
    bounds = slice(*(None if at is None else constant(at, "an index") for at in (start, end)))
    for i in range(len(items))[bounds]:
        if items[i] is var or same_value(tracer, items[i], var):
            yield i


def same_value(tracer, a, b):
    """Whether `a == b`, known while capturing."""
    if isinstance(a, TensorV) or isinstance(b, TensorV):
        if type(a) is not type(b):
            return False if isinstance(a, (Const, Seq, Map)) or isinstance(b, (Const, Seq, Map)) else _refuse_equal()
        return True if a is b else _refuse_equal()
    return truth(tracer, tracer.run_compare(tracer, "eq", a, b))


def _refuse_equal():
    raise Unsupported("a comparison of tensors that decides what runs")
