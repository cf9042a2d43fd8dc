"""Composite operators of symbolic sizes as the operators that they are made of.

Below a composite operator C++ sees plain numbers. It is run at many sizes on fake tensors, each time noting the
operators that it calls; where these are the same, expressions are found for their numbers, and they are called with
those.
"""

import contextlib

import tessera
from tessera import SymBool, SymFloat, Tensor, _C
from tessera._subclasses._symbolic_tools import Rule, env_of, key_of, leaves, mapped, solved_rule, with_arguments
from tessera.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

__all__ = ["lifted"]


class _Recorder(TorchDispatchMode):
    """Notes what is called, and with which of the tensors seen before."""

    def __init__(self, inputs, symbols):
        super().__init__()
        self.symbols = symbols  # the plain number that stands for a symbolic one -> its place
        self.names = {id(t): ("input", place) for place, t in inputs.items()}
        self.kept = list(inputs.values())
        self.calls, self.numbers = [], []

    def name(self, value):
        """What stands for a value: tensors by where they came from, integers by their place among the numbers."""
        if isinstance(value, Tensor):
            if id(value) not in self.names:
                self.names[id(value)] = ("other", len(self.kept))
            self.kept.append(value)
            return self.names[id(value)]
        if type(value) is int:
            self.numbers.append(value)
            return ("number", len(self.numbers) - 1)
        if type(value) in (float, bool) and value in self.symbols:
            return ("symbol", self.symbols[value])
        return ("plain", value)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        entry = (func, _named(list(args), self.name), _named(kwargs, self.name))
        result = func(*args, **kwargs)
        self.calls.append(entry)
        for i, value in enumerate(result if isinstance(result, (tuple, list)) else [result]):
            if isinstance(value, Tensor) and id(value) not in self.names:
                self.names[id(value)] = ("made", (len(self.calls) - 1, i))
                self.kept.append(value)
        return result


@contextlib.contextmanager
def _unseen():
    """Context manager: an export that is under way does not see what is called."""
    included, excluded = _C._tls_keys()
    bit = _C._key_bits("PreDispatch")
    _C._set_tls_keys(included & ~bit, excluded | bit)
    try:
        yield
    finally:
        _C._set_tls_keys(included, excluded)


def _named(tree, name):
    return mapped(tree, lambda v: _Name(name(v)))


class _Name(tuple):
    """A leaf of a recorded tree."""


class _Composite(Rule):
    """What a composite operator calls."""

    def __init__(self, mode, env, func, args, kwargs):
        super().__init__(env, func, args, kwargs, on_meta=False)
        self.mode, self.places = mode, _places((args, kwargs))
        given = with_arguments(func, args, kwargs) if hasattr(func, "_schema") else ()  # none of a vmap
        self.written = {id(v) for a, v in given if a.alias_info is not None and a.alias_info.is_write}

    def outcome(self, point):
        made, symbols = {}, {}

        def at(value):
            if isinstance(value, (SymFloat, SymBool)):
                # A number that nothing else is; another one at other sizes, so that what is computed of it shows.
                if isinstance(value, SymBool):
                    raise NotImplementedError(f"{self.func}: a symbolic bool as an argument is not supported")
                number = 1.2345678 + 0.0137 * len(symbols) + 0.00091 * sum(point.values())
                symbols[number] = self.places[id(value)]
                return number
            if isinstance(value, Tensor):
                if id(value) not in made:
                    made[id(value)] = self._twin(value, self.tensor(value, point))
                return made[id(value)]
            return self.number(value, point)

        with _disable_current_modes(), _unseen():
            args, kwargs = mapped(self.args, at), mapped(self.kwargs, at)
            recorder = _Recorder({self.places[key]: fake for key, fake in made.items()}, symbols)
            with self.mode, recorder:
                result = self.func(*args, **kwargs)
            shown = _named(result, recorder.name)
        return (recorder.calls, shown), recorder.numbers

    def _twin(self, value, meta):
        """A fake tensor of other sizes in place of an argument; no leaf where one may not be written to."""
        twin = _C._make_fake(self.mode, meta, value.device, None)
        if id(value) in self.written and value.requires_grad and not value.is_leaf:
            one = tessera.empty((), dtype=value.dtype, device="meta")
            return twin.mul_(_C._make_fake(self.mode, one, value.device, None).requires_grad_())
        return twin.requires_grad_(value.requires_grad)


def _places(tree):
    """{id of a tensor or symbolic number among the arguments: its place among them, if it is there twice the first}."""
    found = {}
    for v in _given(tree):
        found.setdefault(id(v), len(found))
    return found


def _settings():
    """What decides, apart from the arguments, which operators a composite one calls, as something to compare."""
    whole = _C._func._keep_whole(None)
    _C._func._keep_whole(whole)
    return _C._tls_keys(), _C.is_grad_enabled(), whole


def _solved(mode, env, func, args, kwargs):
    """((calls, result), expressions) of a composite operator. Remembered as those of operators are (`solved`)."""
    places = _places((args, kwargs))
    given = tuple(
        (places[id(v)], getattr(v, "requires_grad", False), getattr(v, "is_leaf", None)) for v in _given((args, kwargs))
    )

    def key():
        return func, key_of(args), key_of(kwargs), given, *_settings(), env._facts.version

    if key() not in env._calls:
        found = solved_rule(env, lambda: _Composite(mode, env, func, args, kwargs))
        env._calls[key()] = found  # with what is known now: there may be new guards
    return env._calls[key()]


def lifted(mode, func, args, kwargs):
    """The result of a composite operator, by what it calls."""
    env = mode.shape_env or env_of((args, kwargs))
    (calls, shown), exprs = _solved(mode, env, func, args, kwargs)
    inputs = list({id(v): v for v in _given((args, kwargs))}.values())
    results = []

    def value(name):
        kind, what = name
        if kind in ("input", "symbol"):
            return inputs[what]
        if kind == "made":
            result = results[what[0]]
            return result[what[1]] if isinstance(result, (tuple, list)) else result
        if kind == "number":
            return env._number(exprs[what])
        if kind == "other":
            raise NotImplementedError(f"{func} uses a tensor of its own, which can't be traced with symbolic sizes")
        return what

    for called, names, keywords in calls:
        results.append(called(*_values(names, value), **_values(keywords, value)))
    return _values(shown, value)


def _values(tree, value):
    return mapped(tree, lambda leaf: value(leaf) if isinstance(leaf, _Name) else leaf)


def _given(tree):
    return [v for v in leaves(tree) if isinstance(v, (Tensor, SymFloat))]
