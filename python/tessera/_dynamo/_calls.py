"""Calls of captured values: operators go into the graph, the program's functions are looked into."""

import collections
import copy
import functools
import inspect
import operator
import sys
import types

import tessera
from tessera._library.custom_ops import CustomOpDef
from tessera._ops import OpOverload, OpOverloadPacket

from . import _bodies, _builtins, _collectives, _objects, _registry, _transforms
from ._raising import fail
from ._tracer import BY_IDENTITY, CONSTANTS, Tracer, is_named_tuple, kind_of
from ._values import (
    NONE, Bound, Closure, Const, Context, Exit, Iter, Map, Method, New, NumberV, Obj, Partial, Raised, Seq,
    TensorV,
)  # fmt: skip
from .exc import Unsupported, skipped

# Modules of this library whose functions are one node each.
_LEAVES = (
    "tessera.nn.functional", "tessera.functional", "tessera.fft", "tessera.linalg", "tessera.special",
    "tessera.signal", "tessera.nn._recurrent", "tessera._tensor",
    "tessera._linalg_utils", "tessera._lowrank", "tessera.nn.init",
)  # fmt: skip
# Modules of Python whose functions are looked into; those of its other modules are not.
_OPEN = ("contextlib", "functools", "collections", "dataclasses", "typing", "abc", "enum", "copy", "_collections_abc")


def _standard_library():
    import sysconfig

    return sysconfig.get_paths()["stdlib"]


_STDLIB = _standard_library()


def call(tracer, function, args, kwargs):
    """`function(*args, **kwargs)`. Raises: Unsupported; Observed for what the program raises."""
    if isinstance(function, Obj):
        return _call_object(tracer, function, args, kwargs)
    if isinstance(function, Bound):
        return call(tracer, function.function, [function.owner, *args], kwargs)
    if isinstance(function, Method):
        return _builtins.method(tracer, function.owner, function.name, args, kwargs)
    if isinstance(function, Closure):
        return inline(tracer, function.code, function.space, function.defaults, function.kwdefaults, function.cells,
                      args, kwargs)  # fmt: skip
    if isinstance(function, Partial):
        return call(tracer, function.function, [*function.args, *args], {**function.kwargs, **kwargs})
    if isinstance(function, Exit):
        return leave(tracer, function, args)
    if isinstance(function, Const) and callable(function.value):
        return _builtins.fold(function.value, args, kwargs)
    if isinstance(function, New):
        return call(tracer, _objects.attribute(tracer, function, "__call__"), args, kwargs)
    if isinstance(function, (_transforms.Transformed, _transforms.Handle)):
        return function.call(tracer, args, kwargs)
    if isinstance(function, Context):
        raise Unsupported("a context manager as a decorator of a function that is made here")
    raise Unsupported(f"a call of a {kind_of(function)}")


def _call_object(tracer, function, args, kwargs):
    value = function.value
    reason = getattr(value, "_torchdynamo_disable", None)
    if reason is not None and not isinstance(value, type):
        why = getattr(value, "_torchdynamo_disable_msg", None)
        raise Unsupported(
            "Skip calling `torch.compiler.disable()`d function", case_name="disabled", context=repr(value),
            explanation=f"Skip calling function `{value}` since it was wrapped with `torch.compiler.disable` (reason: "
            f"{why})",
            hints=["Remove the `torch.compiler.disable` call"],
        )  # fmt: skip
    try:
        special = _builtins.SPECIAL.get(value)
    except TypeError:
        special = None
    if special is not None:
        return special(tracer, args, kwargs)
    if scripted(value):
        return _call_scripted(tracer, function, args, kwargs)
    if isinstance(value, tessera.nn.Module):
        return _call_module(tracer, function, args, kwargs)
    if isinstance(value, type):
        return construct(tracer, function, args, kwargs)
    if isinstance(value, types.FunctionType):
        return _call_function(tracer, function, args, kwargs)
    if isinstance(value, functools._lru_cache_wrapper):
        return _call_cached(tracer, function, args, kwargs)
    if isinstance(value, BY_IDENTITY):
        return _call_builtin(tracer, value, args, kwargs)
    if _bodies.is_loop(value):
        return _bodies.loop(tracer, value, args)
    if isinstance(value, (OpOverload, OpOverloadPacket, CustomOpDef)):
        if function.source is not None:
            tracer.guard(function.source, "ID_MATCH", value, value)
        return tracer.call("call_function", getattr(value, "_opoverload", value), args, kwargs)
    return call(tracer, _objects.attribute(tracer, function, "__call__"), args, kwargs)


def _call_cached(tracer, function, args, kwargs):
    """A call of a function with a cache: what is cached for constants, or what the function in it does."""
    inner, source = function.value.__wrapped__, function.source and function.source.attr("__wrapped__")
    try:
        constants = [_objects.constant(a, "") for a in args], {k: _objects.constant(v, "") for k, v in kwargs.items()}
    except Unsupported:
        constants = None
    if constants:
        found = function.value(*constants[0], **constants[1])
        if isinstance(found, CONSTANTS):
            return Const(found)
        if not isinstance(found, (list, dict, set, tuple, tessera.Tensor)):
            return tracer.trusted(found)
    return call(tracer, tracer.wrap(inner, source) if source else tracer.trusted(inner), args, kwargs)


def _name(value):
    return getattr(value, "__qualname__", None) or type(value).__name__


def has_tensors(vars_, kinds=(TensorV, NumberV)):
    """Whether tensors or numbers of the graph are among Vars, also in containers. kinds: those that count."""
    for var in vars_:
        if isinstance(var, kinds):
            return True
        parts = var.items if isinstance(var, Seq) else var.items.values() if isinstance(var, Map) else ()
        if has_tensors(parts, kinds) or hasattr(var, "parts") and has_tensors(var.parts, kinds):
            return True
    return False


# --- functions --------------------------------------------------------------------------------------------------------


def is_leaf(value):
    """Whether calls of a function are nodes of the graph."""
    if getattr(value, "_torchdynamo_allow_in_graph", False) or value in _registry.ALLOWED:
        return True
    module = getattr(value, "__module__", None) or ""
    return any(module == m or module.startswith(m + ".") for m in _LEAVES)


def home(function):
    """The module whose text a function is in; wrappers have its name, too."""
    return function.__globals__.get("__name__") or ""


def _call_function(tracer, function, args, kwargs):
    value = function.value
    original = getattr(value, "_torchdynamo_orig_callable", None)
    if original is not None:  # compiled by itself: looked into like any other
        return call(tracer, tracer.wrap(original, function.source.attr("_torchdynamo_orig_callable")), args, kwargs)
    polyfill = _registry.POLYFILLS.get(value)
    if polyfill is not None:
        return call(tracer, tracer.trusted(polyfill), args, kwargs)
    if getattr(value, "_dynamo_marked_constant", False):
        return _constant_result(tracer, function, args, kwargs)
    if is_leaf(value):
        return tracer.call("call_function", value, args, kwargs)
    if _transforms.is_transformed(value):
        return _transforms.from_outside(tracer, function).call(tracer, args, kwargs)
    where = value.__code__.co_filename
    module = home(value)
    if module == "tessera._higher_order_ops.cond" and value.__name__ == "cond":
        return _bodies.cond(tracer, args, kwargs)
    if value is tessera.utils.checkpoint.checkpoint:
        return _bodies.checkpointed(tracer, args, kwargs)
    generated = where.startswith("<eval_with_key>")  # the text of a graph
    if module.startswith(_collectives.HOMES):
        found = _collectives.call(tracer, value, args, kwargs)
        if found is not None:
            return found
    if module.startswith("tessera.") and not generated and not module.startswith(_builtins.LOOKED_INTO):
        return _our_function(value, args, kwargs)
    if where.startswith(_STDLIB) and "site-packages" not in where and module.partition(".")[0] not in _OPEN:
        raise skipped(module, _name(value))
    if where.startswith("<frozen") and module.partition(".")[0] not in _OPEN:
        raise skipped(module, _name(value))
    if function.source is None:
        function = tracer.trusted(value)
    cells = [tracer.wrap(c, function.source.attr("__closure__").item(i)) for i, c in enumerate(value.__closure__ or ())]
    defaults = _defaults(value.__defaults__, function.source)
    kwdefaults = {
        k: (v, function.source.attr("__kwdefaults__").item(k)) for k, v in (value.__kwdefaults__ or {}).items()
    }
    return inline(tracer, value.__code__, value.__globals__, defaults, kwdefaults, cells, args, kwargs)


def _defaults(values, source):
    return [(v, source.attr("__defaults__").item(i)) for i, v in enumerate(values or ())]


def _our_function(value, args, kwargs):
    if value.__name__.startswith(("is_", "get_", "are_", "has_")) and not has_tensors([*args, *kwargs.values()]):
        result = _builtins.fold(value, args, kwargs)
        return result
    raise skipped(value.__module__.replace("tessera", "torch", 1), _name(value))


def _constant_result(tracer, function, args, kwargs):
    constants = [_objects.constant(a, "an argument of a function with a constant result") for a in args]
    named = {k: _objects.constant(v, "an argument of a function with a constant result") for k, v in kwargs.items()}
    result = function.value(*constants, **named)
    return (
        tracer.constant_tensor(result)
        if isinstance(result, tessera.Tensor)
        else _builtins.result_constant(tracer, result)
    )


def inline(tracer, code, space, defaults, kwdefaults, cells, args, kwargs):
    """Runs a function of the program on Vars."""
    if code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        raise Unsupported(f"the coroutine {code.co_name}")
    locals_ = bind(tracer, code, defaults, kwdefaults, args, kwargs)
    frame = tracer.frame_class(tracer, code, space, locals_, cells)
    if code.co_flags & inspect.CO_GENERATOR:
        return Iter(_generated(frame))
    return frame.run()


def _generated(frame):
    while True:
        frame.run()
        if frame.returned:
            if not (isinstance(frame.result, Const) and frame.result.value is None):
                raise Unsupported("a generator that returns a value")
            return
        yield frame.yielded


def bind(tracer, code, defaults, kwdefaults, args, kwargs):
    """{name: Var or (value, source)} of a function's parameters. Raises: Observed(TypeError)."""
    names = code.co_varnames
    count, only = code.co_argcount, code.co_kwonlyargcount
    positional, keyword = names[:count], names[count : count + only]
    found = dict(zip(positional, args))
    kwargs = dict(kwargs)
    at = count + only
    if code.co_flags & inspect.CO_VARARGS:
        found[names[at]] = Seq(list(args[count:]), tuple)
        at += 1
    elif len(args) > count:
        fail(tracer, TypeError, f"{code.co_name}() takes {count} positional arguments but {len(args)} were given")
    rest = {}
    for name, var in kwargs.items():
        if name in positional[code.co_posonlyargcount :] or name in keyword:
            if name in found:
                fail(tracer, TypeError, f"{code.co_name}() got multiple values for argument {name!r}")
            found[name] = var
        else:
            rest[name] = var
    if code.co_flags & inspect.CO_VARKEYWORDS:
        found[names[at]] = Map(rest)
    elif rest:
        fail(tracer, TypeError, f"{code.co_name}() got an unexpected keyword argument {next(iter(rest))!r}")
    for name, default in zip(positional[count - len(defaults) :], defaults):
        found.setdefault(name, default)
    for name in (*positional, *keyword):
        if name not in found:
            if name not in kwdefaults:
                fail(tracer, TypeError, f"{code.co_name}() missing a required argument: {name!r}")
            found[name] = kwdefaults[name]
    return found


# --- builtins and operators ---


def check_later(tracer, var, wanted, message):
    """An assertion about a tensor or number that is not known yet, as a node; its truth, which holds from here on."""
    if isinstance(var, NumberV):
        cond = var if wanted else tracer.call("call_function", tessera.sym_not, [var], {})
        call(tracer, tracer.trusted(tessera._check), [cond], {})
    else:
        cond = var if wanted else tracer.call("call_method", "logical_not", [var], {})
        tracer.call("call_function", tessera._assert_async, [cond, Const(message)], {})
    return wanted


_METHODS = (types.MethodDescriptorType, types.WrapperDescriptorType, type(tessera.Tensor.add))
_ASKS = ("is_", "get_", "_is_", "_get_", "are_", "can_cast", "promote_types", "result_type", "numel", "_len_")


def _call_builtin(tracer, value, args, kwargs):
    if value in _registry.ALLOWED:
        return tracer.call("call_function", value, args, kwargs)
    module = getattr(value, "__module__", None) or ""
    owner = getattr(value, "__self__", None)
    name = getattr(value, "__name__", "")
    if owner is tessera._C and (name in _MAKERS or name in _BY_SIZE):
        return _operator(tracer, value, name, args, kwargs)
    if module.partition(".")[0] in ("tessera", "torch") and isinstance(
        value, (types.BuiltinFunctionType, type(tessera.relu))
    ):
        if owner is None:
            return _operator(tracer, value, name, args, kwargs)
        if name.startswith(_ASKS):
            return (
                tracer.call("call_function", value, args, kwargs)
                if has_tensors(args)
                else _builtins.fold(value, args, kwargs)
            )
        raise Unsupported(f"a call of torch.{name}")
    if isinstance(value, _METHODS) and args:
        return _builtins.method(tracer, args[0], name, args[1:], kwargs, unbound=value)
    if isinstance(owner, (frozenset, str, bytes, int, float, complex)):  # keyword.iskeyword
        return _builtins.fold(value, args, kwargs)
    if isinstance(value, types.MethodWrapperType):
        raise Unsupported(f"a call of {name} of a {type(owner).__name__}")
    if getattr(operator, name, None) is value:
        return _operator_module(tracer, name, args, kwargs)
    if module in _builtins.FOLDED:
        return _builtins.fold(value, args, kwargs)
    raise skipped(module, _name(value))


_MAKERS = ("tensor", "as_tensor", "asarray", "scalar_tensor")
_BY_SIZE = frozenset("nonzero unique unique_consecutive masked_select argwhere bincount".split())
_REFUSED = frozenset(
    "nonzero unique unique_consecutive unique_dim masked_select item equal is_nonzero allclose argwhere bincount "
    "from_numpy tensor as_tensor from_dlpack frombuffer from_file histogram".split()
)


def _operator(tracer, value, name, args, kwargs):
    if name in _MAKERS and not has_tensors([*args, *kwargs.values()], TensorV):
        return tracer.call("call_function", value, args, kwargs)
    if name in _BY_SIZE and tracer.captures_sizes() or name == "item" and tracer.captures_numbers():
        tracer.symbols()
    elif name in _REFUSED:
        raise Unsupported(f"torch.{name}, whose result depends on numbers of tensors", case_name="operator")
    return tracer.call("call_function", value, args, kwargs)


def _operator_module(tracer, name, args, kwargs):
    plain = name.strip("_")
    if plain in ("lt", "le", "eq", "ne", "gt", "ge"):
        return compare(tracer, plain, *args)
    if plain in ("getitem",):
        return _objects.item(tracer, *args)
    if plain in ("neg", "pos", "invert", "inv"):
        return unary(tracer, "invert" if plain == "inv" else plain, *args)
    if plain == "not":
        return Const(not _objects.truth(tracer, args[0]))
    if plain == "truth":
        return Const(_objects.truth(tracer, args[0]))
    if plain in ("is", "is_not"):
        return Const(_objects.same(tracer, *args) == (plain == "is"))
    if plain == "contains":
        return Const(_objects.contains(tracer, *args))
    for way in (plain, plain + "_"):
        if way in ("add", "sub", "mul", "truediv", "floordiv", "mod", "matmul", "pow", "lshift", "rshift", "and_",
                   "or_", "xor"):  # fmt: skip
            return binary(tracer, way, False, *args)
        if way in ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "imatmul", "ipow", "iand", "ior", "ixor"):
            return binary(tracer, way[1:] + ("_" if way in ("iand", "ior") else ""), True, *args)
    return _builtins.fold(getattr(operator, name), args, kwargs)


def binary(tracer, name, inplace, left, right):
    """`left <op> right`; name of a function of `operator`."""
    function = getattr(operator, "i" + name.rstrip("_") if inplace else name)
    graph = (TensorV, NumberV)
    if isinstance(left, graph) or isinstance(right, graph):
        known = isinstance(left, (*graph, Const)) and isinstance(right, (*graph, Const))
        if known:
            return tracer.call("call_function", function, [left, right], {})
        if not (isinstance(left, Seq) or isinstance(right, Seq)):
            return _dunder(tracer, name, inplace, left, right)
    if isinstance(left, Const) and isinstance(right, Const):
        return _builtins.fold(function, [left, right], {}, tracer)
    if isinstance(left, Const) and type(left.value) is str and name == "mod":
        return _builtins.fold(function, [left, right], {}, tracer)
    done = _builtins.combine(tracer, name, inplace, left, right)
    return _dunder(tracer, name, inplace, left, right) if done is None else done


def _dunder(tracer, name, inplace, left, right):
    plain = name.rstrip("_")
    ways = [(left, f"__{plain}__", right), (right, f"__r{plain}__", left)]
    if inplace:
        ways.insert(0, (left, f"__i{plain}__", right))
    for owner, method, other in ways:
        cls = owner.cls if isinstance(owner, New) else type(owner.value) if isinstance(owner, Obj) else None
        if cls is not None and isinstance(getattr(cls, method, None), types.FunctionType):
            found = call(tracer, _objects.attribute(tracer, owner, method), [other], {})
            if not (isinstance(found, Const) and found.value is NotImplemented):
                return found
    raise Unsupported(f"the operator {plain} of a {kind_of(left)} and a {kind_of(right)}")


def unary(tracer, name, var):
    """`-x`, `+x`, `~x`."""
    function = getattr(operator, name)
    if isinstance(var, (TensorV, NumberV)):
        return tracer.call("call_function", function, [var], {})
    if isinstance(var, Const):
        return _builtins.fold(function, [var], {}, tracer)
    return call(tracer, _objects.attribute(tracer, var, f"__{name}__"), [], {})


def compare(tracer, name, left, right):
    """`left <op> right` for comparisons."""
    graph = (TensorV, NumberV)
    if isinstance(left, graph) or isinstance(right, graph):
        if isinstance(left, (*graph, Const)) and isinstance(right, (*graph, Const)):
            if any(isinstance(v, Const) and not isinstance(v.value, (int, float, complex)) for v in (left, right)):
                return Const(name == "ne") if name in ("eq", "ne") else _refuse(left, right)
            return tracer.call("call_function", getattr(operator, name), [left, right], {})
        return Const(name == "ne") if name in ("eq", "ne") and isinstance(left, NumberV) else _refuse(left, right)
    if isinstance(left, Const) and isinstance(right, Const):
        return _builtins.fold(getattr(operator, name), [left, right], {}, tracer)
    return _builtins.compare_structures(tracer, name, left, right)


def _refuse(left, right):
    raise Unsupported(f"a comparison of a {kind_of(left)} and a {kind_of(right)}")


# --- modules, classes, contexts ---------------------------------------------------------------------------------------


def plain(module):
    """Whether calling a module is nothing but its forward."""
    return not (
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    )


_GLOBAL_HOOKS = ("_global_forward_hooks", "_global_forward_pre_hooks", "_global_backward_hooks",
                 "_global_backward_pre_hooks")  # fmt: skip


def global_hooks():
    """Whether there are hooks on all modules."""
    space = vars(tessera.nn.modules.module)
    return any(space[name] for name in _GLOBAL_HOOKS)


def called_as_modules_are(module):
    """Whether a module's class has the `__call__` of nn.Module; a GraphModule's differs in how errors are shown."""
    raw = type(module).__call__
    if getattr(raw, "__module__", None) == "tessera.fx.graph_module":
        module._ready()
        return True
    return raw is tessera.nn.Module.__call__


def scripted(value):
    """Whether something is a function, method or module of TorchScript."""
    jit = sys.modules.get("tessera.jit._modules")
    return jit is not None and isinstance(value, (jit.ScriptModule, jit.ScriptMethod, jit.ScriptFunction))


def run_scripted(function, *args, **kwargs):
    """The function in whose place TorchScript's are captured, and those of transforms."""
    return function(*args, **kwargs)


def _call_scripted(tracer, function, args, kwargs):
    value = function.value
    if function.source is not None:
        tracer.guard(function.source, "ID_MATCH", value, value)

    # On examples a copy runs: the numbers that a module counts are its own.
    runs = copy.deepcopy(value) if isinstance(value, tessera.nn.Module) else value

    def program(*args, **kwargs):
        return runs(*args, **kwargs)

    made = tracer.call("call_function", program, args, kwargs)
    runs = value
    return made


def _call_module(tracer, function, args, kwargs):
    value = function.value
    inner = value.__dict__.get("_modules", {}).get("_orig_mod")
    if inner is not None and getattr(type(value), "_is_optimized_module", False):
        return call(tracer, _objects.attribute(tracer, function, "_orig_mod"), args, kwargs)
    if not called_as_modules_are(value):
        raw = type(value).__call__
        if not isinstance(raw, types.FunctionType):
            raise Unsupported(f"a call of {type(value).__name__}")
        source = function.source.type().attr("__call__") if function.source else None
        return call(tracer, Bound(tracer.wrap(raw, source) if source else tracer.trusted(raw), function), args, kwargs)
    space = vars(tessera.nn.modules.module)
    for name in _GLOBAL_HOOKS:
        tracer.guard(tracer.space_source(space).item(name), "LENGTH", len(space[name]))
    alone = plain(value) and not global_hooks()
    if alone and function.source is not None:
        tracer.guard(function.source, "CALL", _PLAIN)
    with tracer.inside_of(function):
        return call(tracer, _objects.attribute(tracer, function, "forward" if alone else "_call_impl"), args, kwargs)


_PLAIN = (plain, True)


def construct(tracer, function, args, kwargs):
    """`cls(*args, **kwargs)`."""
    cls = function.value
    if issubclass(cls, BaseException):
        return Raised(cls, args)
    if cls in CONSTANTS and cls not in (type(None),):
        return _builtins.fold(cls, args, kwargs, tracer)
    if is_named_tuple(cls) and hasattr(cls, "_fields"):
        return _named_tuple(tracer, cls, args, kwargs)
    mapping = issubclass(cls, dict) and cls.__new__ in (dict.__new__, collections.OrderedDict.__new__)
    if issubclass(cls, (tessera.Tensor, tessera.nn.Module, list, tuple, set, str, int)) or (
        issubclass(cls, dict) and not mapping
    ):
        raise Unsupported(f"an object of class {cls.__name__} is made")
    if type(cls) is not type and type(cls).__call__ is not type.__call__:
        if hasattr(cls, "__members__"):
            return tracer.trusted(cls(*[_objects.constant(a, "the value of an enum") for a in args]))
        raise Unsupported(f"an object of class {cls.__name__} is made")
    if not (mapping or cls.__new__ is object.__new__) or cls is object or cls.__module__ in ("builtins", "weakref"):
        raise Unsupported(f"an object of class {cls.__name__} is made")
    made = New(cls)
    if mapping:
        made.base = Map({}, dict)
    if mapping and not isinstance(cls.__init__, types.FunctionType):
        _builtins.method(tracer, made.base, "update", args, kwargs)
    elif cls.__init__ is not object.__init__:
        if not isinstance(cls.__init__, types.FunctionType):
            raise Unsupported(f"an object of class {cls.__name__} is made")
        init = tracer.wrap(cls.__init__, tracer.class_source(cls).attr("__init__"))
        call(tracer, init, [made, *args], kwargs)
    elif args or kwargs:
        fail(tracer, TypeError, f"{cls.__name__}() takes no arguments")
    return made


def _named_tuple(tracer, cls, args, kwargs):
    found = dict(zip(cls._fields, args))
    found.update(kwargs)
    for name, default in cls._field_defaults.items():
        found.setdefault(name, _builtins.result_constant(tracer, default) if name not in found else None)
    if len(args) > len(cls._fields) or set(found) != set(cls._fields):
        fail(tracer, TypeError, f"{cls.__name__}() got other fields than {cls._fields}")
    return Seq([found[name] for name in cls._fields], cls)


def enter(tracer, manager):
    """The start of a `with` statement: (Exit, Var of what __enter__ gives)."""
    if isinstance(manager, Context):
        manager.entered = True
        manager.enter(tracer)
        return Exit(manager), NONE
    if isinstance(manager, (New, Obj, Iter)):
        method = _objects.attribute(tracer, manager, "__enter__")
        exit_ = _objects.attribute(tracer, manager, "__exit__")
        return Exit(exit_), call(tracer, method, [], {})
    raise Unsupported(f"`with` of a {kind_of(manager)}")


def leave(tracer, exit_, args):
    """The end of a `with` statement."""
    if isinstance(exit_.context, Context):
        exit_.context.entered = False
        exit_.context.leave(tracer)
        return Const(False)
    return call(tracer, exit_.context, args, {})


Tracer.run_call = staticmethod(call)
Tracer.run_binary = staticmethod(binary)
Tracer.run_compare = staticmethod(compare)
