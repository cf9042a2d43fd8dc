"""Calls while capturing: `torch._check` and its kin, what a program says of its numbers; map and filter, which run
as far as they are asked; operator.itemgetter and its kin; functions of the module math.
"""

import functools
import math
import operator

import tessera
from tessera import _symbolic

from . import _builtins, _objects
from ._raising import fail
from ._values import NONE, Const, Iter, Lazy, NumberV, Partial, Seq
from .exc import Unsupported

_KINDS = {
    "_check": RuntimeError, "_check_index": IndexError, "_check_value": ValueError, "_check_type": TypeError,
    "_check_not_implemented": NotImplementedError,
}  # fmt: skip


def _checked(function, error, tracer, args, kwargs):
    """A call on a bool, or on a symbolic one: that is assumed from now on, and checked again where the graph runs."""
    given = dict(zip(("cond", "message"), args)) | kwargs
    cond, message = given["cond"], given.get("message")
    if isinstance(cond, NumberV):
        holds = isinstance(cond.example, tessera.SymBool) and cond.example.node.expect_true()
        if holds:
            tracer.node("call_function", function, (cond.node,), {})
            return NONE
    elif isinstance(cond, Const) and cond.value is True:
        return NONE
    elif not isinstance(cond, Const) or cond.value is not False:
        fail(tracer, TypeError, f"cond must be a bool, but got {_builtins.class_of(cond)}")
    text = "Expected cond to be True, but got False."
    if message is not None and getattr(message, "value", message) is not None:
        made = _objects.constant(tracer.run_call(tracer, message, [], {}), "the message of a check")
        text = str(made)
    fail(tracer, error, text)


def _asserted(tracer, args, kwargs):
    """torch._assert of a number; what depends on values of tensors is not known yet."""
    given = dict(zip(("condition", "message"), args)) | kwargs
    if isinstance(given["condition"], Const) and not given["condition"].value:
        fail(tracer, AssertionError, str(_objects.constant(given["message"], "the message of an assertion")))
    if isinstance(given["condition"], Const):
        return NONE
    if not isinstance(given["condition"], NumberV):
        raise Unsupported("an assertion about a tensor: use torch._assert_async")
    return _checked(_symbolic._check, AssertionError, tracer, [given["condition"]], {})


def _is_size(tracer, args, kwargs):
    """As torch._check_is_size: of a symbolic number it is assumed."""
    given = dict(zip(("i", "message"), args)) | kwargs
    i, most = given["i"], kwargs.get("max", NONE)
    if isinstance(i, NumberV):
        named = {} if most is NONE else {"max": most}
        check = _symbolic._check_is_size
        check(i.example, **{k: tracer.argument(v, False) for k, v in named.items()})
        tracer.node("call_function", check, (i.node,), {k: tracer.argument(v, True) for k, v in named.items()})
        return NONE
    number, limit = _objects.constant(i, "a size"), _objects.constant(most, "the largest size")
    holds = number >= 0 and (limit is None or number <= limit)
    return _checked(None, RuntimeError, tracer, [Const(holds)], {k: v for k, v in given.items() if k == "message"})


def _iterators(tracer, sources):
    made = [_objects.iterate(tracer, s) for s in sources]
    if not all(isinstance(m, Iter) for m in made):
        raise Unsupported("iteration over an object with a __next__ of its own, together with others")
    return made


def _map(tracer, args, kwargs):
    """map(function, ...), not strict."""
    if len(args) < 2 or kwargs:
        raise Unsupported("map() without arguments, or with strict=")
    function, made = args[0], _iterators(tracer, args[1:])
    rests = [iter(m.next, None) for m in made]
    return Lazy(map, [function, *made], (tracer.run_call(tracer, function, list(p), {}) for p in zip(*rests)))


def _filter(tracer, args, kwargs):
    """filter(function, items)."""
    if len(args) != 2 or kwargs:
        raise Unsupported(f"filter() of {len(args)} arguments")
    function, made = args[0], _iterators(tracer, args[1:])

    def keeps(var):
        known = isinstance(function, Const)  # None
        return _objects.truth(tracer, var if known else tracer.run_call(tracer, function, [var], {}))

    return Lazy(filter, [function, *made], filter(keeps, iter(made[0].next, None)))


def _getter(cls):
    """Calls of operator.itemgetter and its kin: `made` is the function of their arguments and then the object."""

    def made(*args, **kwargs):
        return cls(*args[:-1], **kwargs)(args[-1])

    def construct(tracer, args, kwargs):
        return Partial(tracer.trusted(made), list(args), kwargs)

    def run(tracer, args, kwargs):
        *wanted, owner = args
        if cls is operator.methodcaller:
            method = _objects.attribute(tracer, owner, _objects.constant(wanted[0], "the name of a method"))
            return tracer.run_call(tracer, method, wanted[1:], kwargs)
        found = [_part(tracer, cls, owner, key) for key in wanted]
        return found[0] if len(found) == 1 else Seq(found, tuple)

    _builtins.SPECIAL.update({cls: construct, made: run})


def _part(tracer, cls, owner, key):
    if cls is operator.itemgetter:
        return _objects.item(tracer, owner, key)
    for name in _objects.constant(key, "the name of an attribute").split("."):
        owner = _objects.attribute(tracer, owner, name)
    return owner


def _of_math(function, symbolic, tracer, args, kwargs):
    """A function of the module math, of a number that may be symbolic."""
    if len(args) == 1 and not kwargs and isinstance(args[0], NumberV):
        return tracer.call("call_function", symbolic, args, {})
    return _builtins.fold(function, args, kwargs, tracer)


def _pow(tracer, args, kwargs):
    """math.pow, of numbers one of which may be symbolic."""
    if len(args) != 2 or kwargs or not any(isinstance(a, NumberV) for a in args):
        return _builtins.fold(math.pow, args, kwargs, tracer)
    floats = [tracer.run_call(tracer, tracer.trusted(float), [a], {}) for a in args]
    return tracer.run_binary(tracer, "pow", False, *floats)


_builtins.SPECIAL[math.pow] = _pow
for _name in ("_sym_sqrt", *_symbolic.OF_MATH):
    _function = getattr(math, _name.removeprefix("_sym_"))
    _builtins.SPECIAL[_function] = functools.partial(_of_math, _function, getattr(tessera, _name))
for _cls in (operator.itemgetter, operator.attrgetter, operator.methodcaller):
    _getter(_cls)
_builtins.SPECIAL.update({map: _map, filter: _filter})
for _name, _error in _KINDS.items():
    _function = getattr(_symbolic, _name)
    _builtins.SPECIAL[_function] = functools.partial(_checked, _function, _error)
_builtins.SPECIAL[_symbolic._check_is_size] = _is_size
_builtins.SPECIAL[tessera._assert] = _asserted
