"""copy.copy and copy.deepcopy of captured values."""

import copy
import types

import tessera

from . import _objects
from ._builtins import SPECIAL, class_of
from ._raising import fail
from ._tracer import BY_IDENTITY, kind_of
from ._values import NONE, Bound, Closure, Const, Map, New, NumberV, Obj, Partial, Seq, Slice, TensorV, contents
from .exc import Unsupported


class _Copier:
    def __init__(self, tracer, deep):
        self.tracer, self.deep = tracer, deep
        self.made = {}  # id of a Var -> (the Var, its copy)
        self.memo = Map({})  # for methods of the program

    def part(self, var):
        """What stands in a copy for a part of the original."""
        return self.copy(var) if self.deep else var

    def copy(self, var):
        """The copy of a Var."""
        found = self.made.get(id(var))
        if found is not None:
            return found[1]
        if isinstance(var, (Const, NumberV, Closure, Bound, Partial, Slice)):
            return var
        if isinstance(var, Obj) and isinstance(var.value, (*BY_IDENTITY, type)):
            return var
        if isinstance(var, (Seq, Map)):
            made = Seq([], var.cls) if isinstance(var, Seq) else Map({}, var.cls)
            self.made[id(var)] = (var, made)
            self._fill(made, var)
            return made
        if isinstance(var, TensorV) and self.deep and not var.example.requires_grad:
            return self.tracer.call("call_method", "clone", [var], {})
        return self._instance(var)

    def _fill(self, made, var):
        if isinstance(var, Seq):
            made.items += [self.part(v) for v in var.items]
        else:
            made.items.update({key: self.part(v) for key, v in var.items.items()})
            made.factory = var.factory

    def _instance(self, var):
        name, cls = "__deepcopy__" if self.deep else "__copy__", class_of(var)
        if isinstance(getattr(cls, name, None), types.FunctionType) and not issubclass(cls, tessera.nn.Module):
            method = _objects.attribute(self.tracer, var, name)
            return self.tracer.run_call(self.tracer, method, [self.memo] if self.deep else [], {})
        own = "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__"
        plain = dict if contents(var) is not None else object
        if (
            not isinstance(var, (Obj, New))
            or issubclass(cls, (tessera.nn.Module, tessera.Tensor))
            or hasattr(cls, name)
            or any(getattr(cls, n, None) is not getattr(plain, n, None) for n in own)
            or not hasattr(cls, "__dict__")
        ):
            raise Unsupported(f"copy.{'deep' * self.deep}copy of a {kind_of(var)}")
        made = New(cls)
        self.made[id(var)] = (var, made)
        if contents(var) is not None:
            made.base = Map({})
            self._fill(made.base, contents(var))
        attributes = var.attributes if isinstance(var, New) else _objects.attribute(self.tracer, var, "__dict__").items
        made.attributes.update({key: self.part(v) for key, v in attributes.items()})
        return made


def _copying(function, deep):
    def run(tracer, args, kwargs):
        if kwargs or len(args) != 1 and (not deep or args[1:] != [NONE]):
            fail(tracer, TypeError, f"{function.__name__}() takes one value while capturing")
        return _Copier(tracer, deep).copy(args[0])

    return run


def install():
    """Lets programs copy what they hold."""
    SPECIAL[copy.copy], SPECIAL[copy.deepcopy] = _copying(copy.copy, False), _copying(copy.deepcopy, True)
