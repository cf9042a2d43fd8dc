"""What the capture knows of Python's own functions, types and methods."""

import collections
import functools
import inspect
import itertools
import operator
import os
import types

import tessera

from . import _objects
from ._raising import Observed, fail
from ._tracer import BY_IDENTITY, CONSTANTS, is_named_tuple, kind_of
from ._values import (
    NONE, NULL, Bound, Closure, Const, Context, Iter, Map, Method, New, NumberV, Obj, Partial, Raised, Seq, Slice,
    Super, TensorV, View, contents,
)  # fmt: skip
from .exc import Unsupported, UserError, UserErrorType

FOLDED = ("math", "cmath", "_operator", "unicodedata", "_struct", "re")
LOOKED_INTO = (
    "tessera.nn.modules", "tessera.nn.utils", "tessera.utils._contextlib", "tessera._higher_order_ops",
)  # fmt: skip
SPECIAL: dict = {}  # function or class -> how it is called: (tracer, args, kwargs) -> Var


def _call(tracer, function, *args):
    return tracer.run_call(tracer, function, list(args), {})


def fold(function, args, kwargs, tracer=None):
    """A call of a function without side effects, on constants."""
    what = f"an argument of {getattr(function, '__name__', function)}"
    values = [_objects.constant(a, what) for a in args]
    named = {k: _objects.constant(v, what) for k, v in kwargs.items()}
    try:
        result = function(*values, **named)
    except Exception as error:
        raise Observed(Raised(type(error), [Const(a) for a in error.args if isinstance(a, CONSTANTS)])) from None
    if isinstance(result, int) and result.bit_length() > 1 << 14 or isinstance(result, str) and len(result) > 1 << 20:
        raise Unsupported(f"a result of {getattr(function, '__name__', function)} that is too large")
    if isinstance(result, tessera.Tensor):
        raise Unsupported(f"a tensor that {getattr(function, '__name__', function)} makes")
    return result_constant(_NoTracer if tracer is None else tracer, result)


def result_constant(tracer, value):
    """The Var of a result that Python computed while capturing."""
    if type(value) in (tuple, list):
        return Seq([result_constant(tracer, v) for v in value], type(value))
    if type(value) is dict:
        return Map({k: result_constant(tracer, v) for k, v in value.items()})
    if type(value) in CONSTANTS:
        return Const(value)
    if isinstance(value, BY_IDENTITY):
        return tracer.trusted(value)
    raise Unsupported(f"a function with a constant result, which is of type {type(value).__name__}")


class _NoTracer:
    @staticmethod
    def trusted(value):
        from ._sources import Source

        return Obj(value, Source("object", None, value))


def _special(*functions):
    def note(handler):
        for function in functions:
            SPECIAL[function] = handler
        return handler

    return note


def _simple(function):
    """A handler that takes positional arguments only."""

    @functools.wraps(function)
    def run(tracer, args, kwargs):
        if kwargs:
            raise Unsupported(f"{function.__name__.strip('_')} with the keyword arguments {', '.join(kwargs)}")
        return function(tracer, *args)

    return run


# --- questions --------------------------------------------------------------------------------------------------------


def class_of(var):
    """The class of a Var's value."""
    if isinstance(var, (Const, Obj)):
        return type(var.value)
    if isinstance(var, (Seq, Map, New, TensorV)):
        return var.cls
    kinds = {
        Closure: types.FunctionType, Bound: types.MethodType, Slice: slice, NumberV: int, Partial: functools.partial,
    }  # fmt: skip
    found = kinds.get(type(var))
    if found is None and isinstance(var, Raised):
        return var.cls
    if found is None:
        raise Unsupported(f"the class of a {kind_of(var)}")
    if isinstance(var, NumberV):
        return {"SymFloat": float, "SymBool": bool}.get(type(var.example).__name__, int)
    return found


def _classes(var):
    if isinstance(var, Seq):
        return tuple(c for v in var.items for c in _classes(v))
    if isinstance(var, Obj):
        value = var.value
        return tuple(value.__args__) if isinstance(value, types.UnionType) else (value,)
    raise Unsupported("isinstance of something that is no class")


@_special(isinstance)
@_simple
def _isinstance(tracer, var, classes):
    wanted = _classes(classes)
    if isinstance(var, (Const, Obj)) and not isinstance(var.value, tessera.Tensor):
        return Const(isinstance(var.value, wanted))
    cls = class_of(var)
    if isinstance(var, TensorV):
        own = tuple(
            c for c in wanted if c in (tessera.nn.Parameter, tessera.nn.Buffer) or not issubclass(c, tessera.Tensor)
        )
        rest = tuple(c for c in wanted if c not in own)
        hit = any(c is cls or (type(c) in (type, types.GenericAlias) and issubclass(cls, c)) for c in own)
        legacy = any(c is not tessera.Tensor and isinstance(var.example, c) for c in rest if not issubclass(cls, c))
        return Const(hit or legacy or any(issubclass(cls, c) for c in rest))
    return Const(issubclass(cls, wanted))


@_special(issubclass)
@_simple
def _issubclass(tracer, var, classes):
    return Const(issubclass(_objects.constant(var, "a class"), _classes(classes)))


@_special(type)
@_simple
def _type(tracer, *args):
    if len(args) != 1:
        raise Unsupported("a class that is made while capturing")
    return tracer.trusted(class_of(args[0]))


@_special(callable)
@_simple
def _callable(tracer, var):
    if isinstance(var, (Closure, Bound, Method, Partial)):
        return Const(True)
    return Const(callable(var.value) if isinstance(var, (Obj, Const)) else "__call__" in dir(class_of(var)))


@_special(len)
@_simple
def _len(tracer, var):
    if isinstance(var, (Seq, Map)):
        return Const(len(var.items))
    if isinstance(var, View):
        return Const(len(var.of.items))
    if isinstance(var, Const):
        return fold(len, [var], {}, tracer)
    if isinstance(var, TensorV):
        if not var.example.dim():
            fail(tracer, TypeError, "len() of a 0-d tensor")
        return tracer.number(var.example.shape[0], var, 0)
    return _call(tracer, _objects.attribute(tracer, var, "__len__"))


@_special(bool)
@_simple
def _bool(tracer, *args):
    return Const(_objects.truth(tracer, args[0]) if args else False)


@_special(getattr)
@_simple
def _getattr(tracer, owner, name, *default):
    try:
        return _objects.attribute(tracer, owner, _objects.constant(name, "the name of an attribute"))
    except _objects.NoAttribute as error:
        if default:
            return default[0]
        fail(tracer, AttributeError, str(error.msg))
    except Observed as error:
        if default and issubclass(error.raised.cls, AttributeError):
            return default[0]
        raise


@_special(hasattr)
@_simple
def _hasattr(tracer, owner, name):
    return Const(_getattr(tracer, [owner, name, NULL], {}) is not NULL)


@_special(setattr)
@_simple
def _setattr(tracer, owner, name, value):
    _objects.set_attribute(tracer, owner, _objects.constant(name, "the name of an attribute"), value)
    return NONE


@_special(delattr)
@_simple
def _delattr(tracer, owner, name):
    _objects.delete_attribute(tracer, owner, _objects.constant(name, "the name of an attribute"))
    return NONE


@_special(object.__setattr__, tessera.nn.Module.__setattr__)
@_simple
def _store_attribute(tracer, owner, name, value):
    _objects.store_attribute(tracer, owner, name.value, value)
    return NONE


@_special(object.__getattribute__, dict.__getattribute__)
@_simple
def _own_attribute(tracer, owner, name):
    return _objects.own_attribute(tracer, owner, _objects.constant(name, "the name of an attribute"))


@_special(object.__init__)
@_simple
def _object_init(tracer, *args):
    return NONE


@_special(super)
@_simple
def _super(tracer, *args):
    if args:
        return Super(_objects.constant(args[0], "the class of super()"), args[1])
    frame = tracer.stack[-1]
    name = frame.code.code.co_varnames[0]
    owner = frame.cells[name].contents if name in frame.cells else frame.load_local(name)
    if isinstance(owner, tuple):
        owner = tracer.wrap(*owner)
    cls = _objects.read_cell(tracer, frame.cells["__class__"], "__class__")
    return Super(cls.value, owner)


def _outside(function):
    """A builtin that looks at or changes what is outside of the graph."""
    name = function.__name__

    def run(tracer, args, kwargs):
        if function in tracer.settings.left_out:
            return NONE
        kinds = [type(a.value).__name__ if isinstance(a, Const) else type(a).__name__ for a in args]
        hints = [
            f"Avoid calling builtin `{name}` with argument types {kinds}. Consider using an equivalent alternative "
            f"function/method to `{name}`.",
        ]  # fmt: skip
        raise Unsupported(
            "Failed to trace builtin operator", case_name="builtin", hints=hints,
            explanation=f"Dynamo does not know how to trace builtin operator `{name}` with argument types {kinds} "
            f"(has_kwargs {bool(kwargs)})",
            context=f"builtin {name} {kinds} {bool(kwargs)}",
        )  # fmt: skip

    SPECIAL[function] = run


for _builtin in (id, hash, globals, locals, vars, dir, eval, exec, open, input, print, breakpoint):
    _outside(_builtin)
del _builtin


# --- numbers and texts ------------------------------------------------------------------------------------------------


def _number(cls):
    def run(tracer, args, kwargs):
        if args and isinstance(args[0], TensorV):
            if _objects.is_refused(tracer, "item") or cls not in (int, float):
                raise Unsupported(f"{cls.__name__}() of a tensor, which needs its number", case_name="item")
            args = [_objects.numbers(tracer, args[0], "item"), *args[1:]]
        if args and isinstance(args[0], NumberV):
            if type(args[0].example).__name__ == {int: "SymInt", float: "SymFloat"}.get(cls):
                return args[0]
            function = {int: tessera.sym_int, float: tessera.sym_float}.get(cls)
            if function is not None:
                return tracer.call("call_function", function, args, {})
        if args and isinstance(args[0], (Obj, New)) and not isinstance(getattr(args[0], "value", None), BY_IDENTITY):
            return _call(tracer, _objects.attribute(tracer, args[0], f"__{cls.__name__}__"))
        return fold(cls, args, kwargs, tracer)

    return run


for _cls in (int, float, complex, str, bytes):
    SPECIAL[_cls] = _number(_cls)


def _folded(function):
    return lambda tracer, args, kwargs: fold(function, args, kwargs, tracer)


@_special(inspect.signature)
@_simple
def _signature(tracer, function):
    """The signature of a function or method of Python, which is known by its identity."""
    bound = isinstance(function, Bound)
    value = getattr(function.function if bound else function, "value", None)
    if not isinstance(value, types.FunctionType):
        raise Unsupported(f"inspect.signature of a {kind_of(function)}")
    return Const(inspect.signature(types.MethodType(value, tracer) if bound else value))


def _constant_object(cls):
    """A class of objects that don't change, made of constants."""
    return lambda tracer, args, kwargs: Const(
        cls(*(_objects.constant(a, cls.__name__) for a in args),
            **{k: _objects.constant(v, cls.__name__) for k, v in kwargs.items()})
    )  # fmt: skip


for _cls in (tessera.finfo, tessera.iinfo):
    SPECIAL[_cls] = _constant_object(_cls)


def _variable(tracer, source, name):
    """A variable of the environment, or None; it has to be the same at later calls."""
    name = _objects.constant(name, "the name of a variable of the environment")
    value = os.environ.get(name)
    tracer.guard(source, "CALL", (operator.methodcaller("get", name), value))
    return value


@_special(type(os.environ).__getitem__)
@_simple
def _environment(tracer, owner, name):
    value = _variable(tracer, owner.source, name)
    return fail(tracer, KeyError, name.value) if value is None else Const(value)


@_special(os.getenv)
def _getenv(tracer, args, kwargs):
    name, default = [*args, *kwargs.values(), NONE][:2]
    value = _variable(tracer, tracer.trusted(os).source.attr("environ"), name)
    return default if value is None else Const(value)


for _function in (repr, ord, chr, ascii, bin, hex, oct, format, slice.indices):
    SPECIAL[_function] = _folded(_function)


SPECIAL[divmod] = _folded(divmod)


@_special(round)
def _round_number(tracer, args, kwargs):
    if args and isinstance(args[0], TensorV):
        return method(tracer, args[0], "round", args[1:], kwargs)
    if len(args) == 1 and isinstance(args[0], NumberV):
        return tracer.call("call_function", round, args, {})
    return fold(round, args, kwargs, tracer)


@_special(abs)
@_simple
def _abs(tracer, var):
    if isinstance(var, (TensorV, NumberV)):
        return tracer.call("call_function", abs, [var], {})
    return fold(abs, [var], {}, tracer)


@_special(pow)
@_simple
def _pow(tracer, *args):
    return tracer.run_binary(tracer, "pow", False, *args) if len(args) == 2 else fold(pow, args, {}, tracer)


def _extreme(function, name):
    def run(tracer, args, kwargs):
        items = list(args) if len(args) > 1 else _objects.items_of(tracer, args[0])
        key_ = kwargs.pop("key", NONE)
        if kwargs or not items:
            return fold(function, [*args], kwargs, tracer)
        best = items[0]
        rank = (lambda v: v) if isinstance(key_, Const) else (lambda v: _call(tracer, key_, v))
        if any(isinstance(v, (TensorV, NumberV)) for v in items) and len(items) == 2 and isinstance(key_, Const):
            if not any(isinstance(v, TensorV) for v in items):
                symbolic = tessera.sym_min if function is min else tessera.sym_max
                return tracer.call("call_function", symbolic, items, {})
            limit = next((v for v in items if isinstance(v, Const)), None)
            one = next(v for v in items if isinstance(v, TensorV))
            if limit is not None and one.example.numel() == 1 and type(limit.value) in (int, float):
                side = "max" if function is min else "min"
                return method(tracer, one, "clamp", [], {side: limit})
            if all(isinstance(v, TensorV) and v.example.numel() == 1 for v in items):
                extreme = tessera.minimum if function is min else tessera.maximum
                return tracer.call("call_function", extreme, items, {})
        for one in items[1:]:
            if _objects.truth(tracer, tracer.run_compare(tracer, name, rank(one), rank(best))):
                best = one
        return best

    return run


SPECIAL[min], SPECIAL[max] = _extreme(min, "lt"), _extreme(max, "gt")


@_special(sum)
@_simple
def _sum(tracer, items, start=Const(0)):
    for one in _objects.items_of(tracer, items):
        start = tracer.run_binary(tracer, "add", False, start, one)
    return start


def _quantifier(stop):
    @_simple
    def run(tracer, items):
        at = _objects.iterate(tracer, items)
        while isinstance(at, Iter):
            one = at.next()
            if one is None:
                return Const(not stop)
            if _objects.truth(tracer, one) is stop:
                return Const(stop)
        raise Unsupported(f"any() or all() of a {kind_of(items)}")

    return run


SPECIAL[any], SPECIAL[all] = _quantifier(True), _quantifier(False)


# --- containers and iterators -----------------------------------------------------------------------------------------


def _sequence(cls):
    @_simple
    def run(tracer, *args):
        if len(args) > 1 or cls is collections.deque and len(args) > 1:
            raise Unsupported(f"{cls.__name__} of several arguments")
        items = _objects.items_of(tracer, args[0]) if args else []
        if args and cls is tuple and isinstance(args[0], Seq) and args[0].cls is tuple:
            return args[0]
        return Seq(_objects.unique(items) if cls in (set, frozenset) else items, cls)

    return run


for _cls in (list, tuple, set, frozenset, collections.deque, tessera.Size):
    SPECIAL[_cls] = _sequence(_cls)


def _mapping(cls):
    def run(tracer, args, kwargs):
        made = Map({}, cls)
        args = list(args)
        if cls is collections.defaultdict:
            made.factory = args.pop(0) if args else NONE
        if args:
            update(tracer, made, args[0])
        made.items.update(kwargs)
        return made

    return run


for _cls in (dict, collections.OrderedDict, collections.defaultdict):
    SPECIAL[_cls] = _mapping(_cls)


def update(tracer, into, more):
    """dict.update."""
    if isinstance(more, Map):
        into.items.update(more.items)
        return
    if contents(more) is not None and class_of(more).__iter__ is dict.__iter__:
        return update(tracer, into, contents(more))
    if isinstance(more, (Obj, New)) and hasattr(class_of(more), "keys"):
        for key_ in _objects.items_of(tracer, _call(tracer, _objects.attribute(tracer, more, "keys"))):
            into.items[_objects.key(key_)] = _objects.item(tracer, more, key_)
        return
    for pair in _objects.items_of(tracer, more):
        first, second = _objects.items_of(tracer, pair)
        into.items[_objects.key(first)] = second


@_special(slice)
@_simple
def _slice(tracer, *args):
    parts = list(args)
    return Slice([NONE, *parts, NONE] if len(parts) == 1 else parts + [NONE] * (3 - len(parts)))


@_special(range)
@_simple
def _range(tracer, *args):
    return Const(range(*(_objects.constant(a, "an argument of range") for a in args)))


@_special(iter)
@_simple
def _iter(tracer, *args):
    if len(args) != 1:
        raise Unsupported("iter() of two arguments")
    return _objects.iterate(tracer, args[0])


@_special(next)
@_simple
def _next(tracer, at, *default):
    if isinstance(at, (Obj, New)):
        return _call(tracer, _objects.attribute(tracer, at, "__next__"))
    if not isinstance(at, Iter):
        raise Unsupported(f"next() of a {kind_of(at)}")
    found = at.next()
    if found is None and not default:
        raise Observed(Raised(StopIteration, []))
    return default[0] if found is None else found


def lazily(tracer, sources):
    """Python iterators of Vars."""
    made = [_objects.iterate(tracer, s) for s in sources]
    if not all(isinstance(m, Iter) for m in made):
        raise Unsupported("iteration over an object with a __next__ of its own, together with others")
    return [iter(m.next, None) for m in made]


@_special(enumerate)
def _enumerate(tracer, args, kwargs):
    start = _objects.constant([*args[1:], *kwargs.values(), Const(0)][0], "where enumerate starts")
    return Iter(Seq([Const(n), v], tuple) for n, v in enumerate(lazily(tracer, args[:1])[0], start))


@_special(zip)
def _zip(tracer, args, kwargs):
    strict = _objects.constant(kwargs.get("strict", Const(False)), "strict")
    if strict and len({len(_objects.items_of(tracer, a)) for a in args if not isinstance(a, Iter)}) > 1:
        fail(tracer, ValueError, "zip() arguments have different lengths")
    return Iter(Seq(list(parts), tuple) for parts in zip(*lazily(tracer, args)))


@_special(reversed)
@_simple
def _reversed(tracer, items):
    if isinstance(items, (Obj, New)):
        return _call(tracer, _objects.attribute(tracer, items, "__reversed__"))
    return Iter(list(reversed(_objects.items_of(tracer, items))))


@_special(sorted)
def _sorted(tracer, args, kwargs):
    return Seq(_order(tracer, _objects.items_of(tracer, args[0]), kwargs), list)


def _order(tracer, items, kwargs):
    key_ = kwargs.get("key", NONE)
    reverse = _objects.constant(kwargs.get("reverse", Const(False)), "reverse")
    ranks = [v if isinstance(key_, Const) else _call(tracer, key_, v) for v in items]
    values = [_objects.constant(r, "what is sorted by") for r in ranks]
    places = sorted(range(len(items)), key=values.__getitem__, reverse=reverse)
    return [items[i] for i in places]


@_special(functools.partial)
def _partial(tracer, args, kwargs):
    return Partial(args[0], list(args[1:]), kwargs)


@_special(functools.reduce)
@_simple
def _reduce(tracer, function, items, *start):
    rest = [*start, *_objects.items_of(tracer, items)]
    found = rest[0]
    for one in rest[1:]:
        found = _call(tracer, function, found, one)
    return found


@_special(itertools.chain)
@_simple
def _chain(tracer, *args):
    return Iter(itertools.chain(*lazily(tracer, args)))


@_special(itertools.chain.from_iterable)
@_simple
def _chain_from(tracer, items):
    return Iter(itertools.chain(*lazily(tracer, _objects.items_of(tracer, items))))


@_special(itertools.product)
def _product(tracer, args, kwargs):
    repeat = _objects.constant(kwargs.get("repeat", Const(1)), "repeat")
    parts = [_objects.items_of(tracer, a) for a in args]
    return Iter([Seq(list(p), tuple) for p in itertools.product(*parts, repeat=repeat)])


@_special(itertools.islice)
@_simple
def _islice(tracer, items, *bounds):
    values = [_objects.constant(b, "a bound of islice") for b in bounds]
    return Iter(itertools.islice(lazily(tracer, [items])[0], *values))


@_special(itertools.zip_longest)
def _zip_longest(tracer, args, kwargs):
    rows = itertools.zip_longest(*lazily(tracer, args), fillvalue=kwargs.get("fillvalue", NONE))
    return Iter(Seq(list(parts), tuple) for parts in rows)


def combine(tracer, name, inplace, left, right):
    """Operators of containers: + * | & - %. None for others."""
    if isinstance(left, Seq) and isinstance(right, (Seq, Iter, View)) and name == "add":
        if inplace and left.cls is list:
            tracer.change(left)
            left.items += _objects.items_of(tracer, right)
            return left
        if isinstance(right, Seq) and (left.cls is right.cls or {left.cls, right.cls} <= {tuple, tessera.Size}):
            cls = tessera.Size if tessera.Size in (left.cls, right.cls) else left.cls
            return Seq(left.items + right.items, tuple if is_named_tuple(cls) else cls)
    if name == "mul" and (isinstance(left, Seq) or isinstance(right, Seq)):
        seq, count = (left, right) if isinstance(left, Seq) else (right, left)
        if not isinstance(count, (Const, NumberV)):
            return None
        if inplace and seq is left and seq.cls is list:
            tracer.change(seq)
            seq.items *= _objects.constant(count, "a count")
            return seq
        return Seq(seq.items * _objects.constant(count, "a count"), seq.cls)
    if isinstance(left, Map) and isinstance(right, Map) and name == "or_":
        into = left if inplace else Map(dict(left.items), left.cls)
        if inplace:
            tracer.change(left)
        into.items.update(right.items)
        return into
    sets = (set, frozenset)
    if isinstance(left, Seq) and isinstance(right, Seq) and left.cls in sets and right.cls in sets and not inplace:
        mine, others = ({_objects.key(v): v for v in s.items} for s in (left, right))
        kept = getattr(operator, name)(set(mine), set(others))
        return Seq(
            [{**others, **mine}[k] for k in [*mine, *(k for k in others if k not in mine)] if k in kept], left.cls
        )
    return None


def compare_structures(tracer, name, left, right):
    """Comparisons of containers and objects."""
    if name in ("eq", "ne"):
        return Const(_equal(tracer, left, right) == (name == "eq"))
    if isinstance(left, Seq) and isinstance(right, Seq):
        return fold(getattr(operator, name), [left, right], {}, tracer)
    owner = left
    if isinstance(owner, (New, Obj)):
        return _call(tracer, _objects.attribute(tracer, owner, f"__{name}__"), right)
    raise Unsupported(f"a comparison of a {kind_of(left)} and a {kind_of(right)}")


def _equal(tracer, left, right):
    if left is right:
        return True
    if isinstance(left, Seq) and isinstance(right, Seq):
        sets = (set, frozenset)
        if left.cls in sets and right.cls in sets:
            return {_objects.key(v) for v in left.items} == {_objects.key(v) for v in right.items}
        kinds = (
            list if issubclass(s.cls, list) else tuple if issubclass(s.cls, tuple) else s.cls for s in (left, right)
        )
        if len(set(kinds)) > 1 or len(left.items) != len(right.items):
            return False
        return all(_objects.same_value(tracer, a, b) for a, b in zip(left.items, right.items))
    if isinstance(left, Map) and isinstance(right, Map):
        if collections.OrderedDict in (left.cls, right.cls) and left.cls is right.cls:
            raise Unsupported("a comparison of ordered dicts")
        return left.items.keys() == right.items.keys() and all(
            _objects.same_value(tracer, v, right.items[k]) for k, v in left.items.items()
        )
    for a, b in ((left, right), (right, left)):
        cls = a.cls if isinstance(a, New) else type(a.value) if isinstance(a, Obj) else None
        if (
            cls is not None
            and cls.__eq__ is not object.__eq__
            and not isinstance(a.value if isinstance(a, Obj) else 0, BY_IDENTITY)
        ):
            if isinstance(cls.__eq__, types.FunctionType):
                return _objects.truth(tracer, _call(tracer, _objects.attribute(tracer, a, "__eq__"), b))
            raise Unsupported(f"a comparison of a {cls.__name__}")
    if isinstance(left, (Obj, New)) or isinstance(right, (Obj, New)):
        return _objects.same(tracer, left, right)
    if isinstance(left, Const) or isinstance(right, Const):
        return False
    raise Unsupported(f"a comparison of a {kind_of(left)} and a {kind_of(right)}")


# --- methods ----------------------------------------------------------------------------------------------------------


def method(tracer, owner, name, args, kwargs, unbound=None):
    """A call of a method of a tensor, number, text or container."""
    if isinstance(owner, TensorV):
        return _tensor_method(tracer, owner, name, args, kwargs, unbound)
    if isinstance(owner, (Const, NumberV)):
        known = owner if isinstance(owner, Const) else Const(tracer.specialize(owner))
        return _const_method(tracer, known, name, args, kwargs)
    if unbound is not object.__init__ and contents(owner) is not None:
        return _inherited(tracer, owner, "update" if name == "__init__" else name, args, kwargs)
    table = _MAP if isinstance(owner, (Map, View)) else _SEQ if isinstance(owner, Seq) else _ITER
    found = table.get(name) if isinstance(owner, (Map, View, Seq, Iter)) else None
    if found is not None:
        return found(tracer, owner, args, kwargs)
    if isinstance(owner, Seq) and not owner.changed and name in _SEQ_FOLDED:
        return fold(getattr(owner.cls, name), [owner, *args], kwargs, tracer)
    if isinstance(owner, Obj) and isinstance(owner.value, type) and name == "apply":
        return tracer.call("call_function", owner.value.apply, args, kwargs)
    if name == "__init__" and (unbound is object.__init__ or (isinstance(owner, Obj) and unbound is not None)):
        return NONE
    raise Unsupported(f"the method {name} of a {kind_of(owner)}")


def _inherited(tracer, owner, name, args, kwargs):
    """What a subclass of dict has of dict."""
    base, cls = contents(owner), class_of(owner)
    if name == "__getitem__" and hasattr(cls, "__missing__") and base.factory is None:
        if not _objects.contains(tracer, base, *args):
            return _call(tracer, _objects.attribute(tracer, owner, "__missing__"), *args)
    return method(tracer, base, name, args, kwargs)


def _const_method(tracer, owner, name, args, kwargs):
    if name == "join" and isinstance(owner.value, (str, bytes)):
        args = [Seq(_objects.items_of(tracer, args[0]), list)]
    if name == "format":
        for a in [*args, *kwargs.values()]:
            _objects.constant(a, "a value in a text")
    return fold(getattr(owner.value, name), args, kwargs, tracer)


def _tensor_method(tracer, owner, name, args, kwargs, unbound):
    if name in ("item", "tolist") and not args and not kwargs and not _objects.is_refused(tracer, name):
        return _objects.numbers(tracer, owner, name)
    if _objects.is_refused(tracer, name):
        raise Unsupported(
            f"Tensor.{name}, which needs numbers or what is outside of the graph", case_name="tensor method"
        )
    if name in ("__getitem__", "__setitem__"):
        return _objects.item(tracer, owner, *args) if name == "__getitem__" else _set(tracer, owner, *args)
    if name == "type" and not args and not kwargs:
        return Const(owner.example.type())
    if name in ("new", "apply_", "map_", "map2_"):
        raise Unsupported(f"Tensor.{name}")
    if name in ("new_tensor",) and any(isinstance(a, TensorV) for a in args):
        raise Unsupported(f"Tensor.{name} of a tensor")
    return tracer.call("call_method", name, [owner, *args], kwargs)


def _set(tracer, owner, key_, value):
    _objects.set_item(tracer, owner, key_, value)
    return NONE


_SEQ_FOLDED = ("numel", "issubset", "issuperset", "isdisjoint", "union", "intersection", "difference")


def _changing(function):
    def run(tracer, owner, args, kwargs):
        if kwargs:
            raise Unsupported(f"{function.__name__.strip('_')} with keyword arguments")
        if owner.cls in (tuple, frozenset, tessera.Size) or is_named_tuple(owner.cls):
            raise Unsupported(f"a method that changes a {owner.cls.__name__}")
        tracer.change(owner)
        found = function(tracer, owner, *args)
        return NONE if found is None else found

    return run


@_changing
def _append(tracer, owner, var):
    owner.items.append(var)


@_changing
def _add(tracer, owner, var):
    owner.items = _objects.unique([*owner.items, var])


@_changing
def _extend(tracer, owner, more):
    owner.items += _objects.items_of(tracer, more)


@_changing
def _insert(tracer, owner, at, var):
    owner.items.insert(_objects.constant(at, "an index"), var)


@_changing
def _pop(tracer, owner, *at):
    try:
        return owner.items.pop(*(_objects.constant(a, "an index") for a in at))
    except IndexError as error:
        fail(tracer, IndexError, str(error))


@_changing
def _popleft(tracer, owner):
    if not owner.items:
        fail(tracer, IndexError, "pop from an empty deque")
    return owner.items.pop(0)


@_changing
def _appendleft(tracer, owner, var):
    owner.items.insert(0, var)


@_changing
def _clear(tracer, owner):
    owner.items.clear()


@_changing
def _reverse(tracer, owner):
    owner.items.reverse()


@_changing
def _remove(tracer, owner, var):
    del owner.items[_index(tracer, owner, [var], {}).value]


@_changing
def _discard(tracer, owner, var):
    wanted = _objects.key(var)
    owner.items = [v for v in owner.items if _objects.key(v) != wanted]


@_changing
def _update_set(tracer, owner, *more):
    for one in more:
        owner.items = _objects.unique(owner.items + _objects.items_of(tracer, one))


def _index(tracer, owner, args, kwargs):
    at = next(_objects.places(tracer, owner.items, *args, **kwargs), None)
    if at is None:
        fail(tracer, KeyError if owner.cls is set else ValueError, f"the value is not in the {owner.cls.__name__}")
    return Const(at)


def _sort(tracer, owner, args, kwargs):
    tracer.change(owner)
    owner.items[:] = _order(tracer, owner.items, kwargs)
    return NONE


def _copy(tracer, owner, args, kwargs):
    made = Seq(list(owner.items), owner.cls) if isinstance(owner, Seq) else Map(dict(owner.items), owner.cls)
    if isinstance(owner, Map):
        made.factory = owner.factory
    return made


def _replace(tracer, owner, args, kwargs):
    fields = owner.cls._fields
    return Seq([kwargs.get(name, v) for name, v in zip(fields, owner.items)], owner.cls)


_SEQ = {
    "append": _append, "extend": _extend, "insert": _insert, "pop": _pop, "clear": _clear, "reverse": _reverse,
    "remove": _remove, "sort": _sort, "copy": _copy, "add": _add, "discard": _discard, "update": _update_set,
    "popleft": _popleft, "appendleft": _appendleft, "_replace": _replace, "index": _index,
    "count": lambda t, o, a, k: Const(len(list(_objects.places(t, o.items, *a)))),
    "__len__": lambda t, o, a, k: Const(len(o.items)),
    "__getitem__": lambda t, o, a, k: _objects.item(t, o, *a),
    "__setitem__": lambda t, o, a, k: _set(t, o, *a),
    "__contains__": lambda t, o, a, k: Const(_objects.contains(t, o, *a)),
    "__iter__": lambda t, o, a, k: _objects.iterate(t, o),
    "_asdict": lambda t, o, a, k: Map(dict(zip(o.cls._fields, o.items))),
}  # fmt: skip


def _get(tracer, owner, args, kwargs):
    at = _objects.key(args[0])
    return owner.items[at] if at in owner.items else [*args[1:], *kwargs.values(), NONE][0]


@_changing
def _dict_pop(tracer, owner, at, *default):
    at = _objects.key(at)
    if at not in owner.items and not default:
        fail(tracer, KeyError, at)
    return owner.items.pop(at, *default)


def _set_default(tracer, owner, args, kwargs):
    at = _objects.key(args[0])
    if at not in owner.items:
        tracer.change(owner)
        owner.items[at] = [*args[1:], NONE][0]
    return owner.items[at]


def _update_map(tracer, owner, args, kwargs):
    tracer.change(owner)
    for more in args:
        update(tracer, owner, more)
    owner.items.update(kwargs)
    return NONE


@_changing
def _popitem(tracer, owner, *last):
    if not owner.items:
        fail(tracer, KeyError, "popitem(): dictionary is empty")
    key_ = list(owner.items)[-1 if not last or _objects.truth(tracer, last[0]) else 0]
    return Seq([_objects.key_var(tracer, key_), owner.items.pop(key_)], tuple)


def _view(kind):
    return lambda tracer, owner, args, kwargs: View(owner, kind)


_MAP = {
    "get": _get, "pop": _dict_pop, "setdefault": _set_default, "update": _update_map, "popitem": _popitem,
    "copy": _copy, "clear": _clear, "keys": _view("keys"), "values": _view("values"), "items": _view("items"),
    "__len__": lambda t, o, a, k: Const(len(o.items if isinstance(o, Map) else o.of.items)),
    "__getitem__": lambda t, o, a, k: _objects.item(t, o, *a),
    "__setitem__": lambda t, o, a, k: _set(t, o, *a),
    "__contains__": lambda t, o, a, k: Const(_objects.contains(t, o, *a)),
    "__iter__": lambda t, o, a, k: _objects.iterate(t, o),
}  # fmt: skip
_ITER = {
    "__iter__": lambda t, o, a, k: o,
    "__next__": lambda t, o, a, k: _next(t, [o, *a], k),
    "close": lambda t, o, a, k: NONE,
}


del _cls, _function
