"""Layers as data: what a layer is stands in its decorator, and the class is made from it.

    @layer("dim=-1", "F.glu(input, dim)", "dim=")
    class GLU(Module):

    @layer(
        "in_features, out_features, bias=True, device=None, dtype=None",
        "F.linear(input, weight, bias)",
        "in_features= out_features= bias=",
        weight="(out_features, in_features) ~ fan_in",
        bias="(out_features,) if bias ~ weight_fan_in",
    )
    class Linear(Module):

`layer(options, computes, shows, base=, sets=, then=, reset=, **parameters)`:

options     the constructor's arguments as Python writes them. Each is kept as an attribute of its name, but for
            `device` and `dtype`, parameters (`bias`), and those that `base` or `then` take.
computes    forward: an expression of its arguments (`input`, or those before an arrow: "input, target -> ...") and of
            the layer's attributes, which stand there by their bare names.
shows       extra_repr: names of attributes. `name` shows the value, `name=` with its name, `name=!r` quoted, `name=?`
            only where it is not the default (`name=?0`: where it is not 0); of a parameter, whether there is one.
base        what super().__init__() gets, nothing by default.
sets        attribute -> expression of the options, besides the option of that name or in its place; None: not kept.
then        a statement of the constructor after the attributes and before the parameters: checks, derived state.
parameters  "SHAPE if CONDITION ~ FIRST VALUES" (the last two are optional): SHAPE an expression of attributes,
            CONDITION one of options, FIRST VALUES a name in `_parts.FIRST_VALUES`, which make reset_parameters().
reset       the method that gives first values, if it has another name; the class body defines it (`first_values`).

What is left out is inherited, and what the class body defines itself stays. Expressions see the globals of the class's
file. LAYERS has all declared classes by name.
"""

import sys

from tessera import Tensor

from ._parts import FIRST_VALUES, new_parameters
from .module import Module

LAYERS = {}

_NEVER_KEPT = {"device", "dtype"}
_PLAIN = frozenset({bool, int, float, str, tuple, list, type(None)})
_SPACES = str.maketrans(dict.fromkeys("()[]{}*,.;:=+-/'\"", " "))
_NAMES = r"""(?<![\w.'"])[A-Za-z_]\w*\b(?!\s*=(?!=))"""  # but attributes, texts and names of arguments
_WORD = r"(\w+)(=?)(!r)?(\??)(\d*)"  # of a description


class Declared:
    """What a declaration says: the texts `options`, `computes`, `shows`, `base`, `then`; `shapes`, `conditions` and
    `first_values` by parameter; `kept`: attribute -> expression of the options.
    """

    def __init__(self, options, computes, shows, base, sets, then, reset, parameters):
        self.options, self.computes, self.shows, self.base, self.then = options, computes, shows, base, then
        self.reset, self.kept = reset, {}
        self.shapes, self.conditions, self.first_values = {}, {}, {}
        for name, text in parameters.items():
            text, _, first = text.partition(" ~ ")
            self.shapes[name], _, self.conditions[name] = text.partition(" if ")
            if first:
                self.first_values[name] = first
        if options:
            names = [text.partition("=")[0].strip() for text in options.split(",")]
            taken = {*_NEVER_KEPT, *parameters, *f"{base} {then}".translate(_SPACES).split()}
            kept = {name: name for name in names if name not in taken and name[0] != "*"} | (sets or {})
            self.kept = {name: value for name, value in kept.items() if value is not None}

    def constructor(self, attributes=frozenset()):
        """The text of __init__ of a class with these attributes, or None."""
        if self.options is None:
            return None
        steps = [f"super().__init__({self.base})"]
        if self.kept:
            steps.append("_keep(self, {%s})" % ", ".join(f"{name!r}: {value}" for name, value in self.kept.items()))
        if self.then:
            steps.append(self.then)
        if self.shapes:
            shapes = {name: _of_self(shape, attributes) for name, shape in self.shapes.items()}
            given = [
                f"{n}={shape}" + f" if {self.conditions[n]} else None" * bool(self.conditions[n])
                for n, shape in shapes.items()
            ]
            steps += [f"_new_parameters(self, device, dtype, {', '.join(given)})", f"self.{self.reset}()"]
        return f"def __init__(self, {self.options}): " + "; ".join(steps)

    def functions(self, attributes):
        """Name -> text of the functions of a class with these attributes."""
        texts = {} if self.options is None else {"__init__": self.constructor(attributes)}
        if self.computes is not None:
            arguments, arrow, expression = self.computes.rpartition(" -> ")
            arguments = arguments if arrow else "input"
            own = attributes - {text.partition("=")[0].strip() for text in arguments.split(",")}
            texts["forward"] = f"def forward(self, {arguments}): return {_of_self(expression, own)}"
        if self.shapes:
            items = ", ".join(f"{name!r}: {_of_self(text, attributes)}" for name, text in self.shapes.items())
            texts["_shapes"] = f"def _shapes(self): return {{{items}}}"
        return texts


class _Pending:
    """A function of a declared class that is made when somebody first asks for it."""

    def __init__(self, cls, declared, name, line):
        self.of = cls, declared, name, line

    def __get__(self, module, _owner=None):
        cls, declared, name, line = self.of
        function = _make(cls, declared, line)[name]
        return function if module is None else function.__get__(module)

    def __call__(self, *args, **kwargs):
        return self.__get__(None)(*args, **kwargs)


def layer(
    options=None, computes=None, shows=None, *, base="", sets=None, then="", reset="reset_parameters", **parameters
):
    """The decorator; see above."""
    declared = Declared(options, computes, shows, base, sets, then, reset, parameters)
    line = sys._getframe(1).f_lineno

    def declare(cls):
        own = vars(cls)
        cls._declared = declared
        LAYERS[cls.__name__] = cls
        there = {"__init__": options, "forward": computes, "_shapes": declared.shapes or None}
        for name, text in there.items():
            if text is not None and name not in own:
                setattr(cls, name, _Pending(cls, declared, name, line))
        if options is not None and "__constants__" not in own:
            cls.__constants__ = [*getattr(cls, "__constants__", ()), *declared.kept]
        if declared.first_values:
            cls._first_values = {name: FIRST_VALUES[how] for name, how in declared.first_values.items()}
        if declared.first_values and reset == "reset_parameters" and reset not in own:
            cls.reset_parameters = _reset_parameters
        if shows is not None:
            cls.extra_repr = _extra_repr
        return cls

    return declare


def declarations(cls):
    """What a class and its bases declare, the nearest first."""
    return [vars(one)["_declared"] for one in cls.__mro__ if "_declared" in vars(one)]


def _make(cls, declared, line):
    """The functions of a class, put into it; in its file and, as far as lines go, at the line of its declaration."""
    attributes = {"training"}.union(*((*d.kept, *d.shapes) for d in declarations(cls)))
    texts = declared.functions(attributes)
    heads = ["def make(__class__, _keep, _new_parameters):", *(" " + text for text in texts.values())]
    heads.append(f" return [{', '.join(texts)}]")
    where = sys.modules[cls.__module__]
    code = compile("\n" * max(0, line - len(heads)) + "\n".join(heads), where.__file__, "exec")
    made = {}
    exec(code, vars(where), made)
    functions = dict(zip(texts, made["make"](cls, _keep, new_parameters)))
    for name, function in functions.items():
        function.__qualname__ = f"{cls.__qualname__}.{name}"
        if isinstance(vars(cls).get(name), _Pending):
            setattr(cls, name, function)
    return functions


def _of_self(expression, names):
    """The expression with `self.` before each of the names, but where a name says which argument of a call follows."""
    import re

    return re.sub(_NAMES, lambda found: f"self.{found[0]}" if found[0] in names else found[0], expression)


def _keep(module, options):
    """Sets attributes: tensors and modules as assignments do, the rest at once."""
    vars(module).update(options)
    for name, value in options.items():
        if type(value) not in _PLAIN and isinstance(value, (Tensor, Module)):
            del vars(module)[name]
            setattr(module, name, value)


def first_values(module):
    """Gives the declared parameters of a layer new first values, in the order of the declaration."""
    for name, draw in module._first_values.items():
        tensor = getattr(module, name)
        if tensor is not None:
            draw(tensor, module)


def _reset_parameters(self):
    """Gives the parameters new first values."""
    first_values(self)


def _defaults(cls):
    """Option -> default of the declared constructors of a class, the nearest one's."""
    found = {}
    for one in reversed(cls.__mro__):
        if "_declared" in vars(one) and "__init__" in vars(one):
            code, values = one.__init__.__code__, one.__init__.__defaults__ or ()
            found.update(zip(code.co_varnames[code.co_argcount - len(values) : code.co_argcount], values))
    return found


def _is_usual(value, default):
    return value == default or (isinstance(value, tuple) and value == (default,) * len(value))


def _extra_repr(self):
    import re

    defaults, parts = _defaults(type(self)), []
    shows = next(declared.shows for declared in declarations(type(self)) if declared.shows is not None)
    for name, named, quoted, optional, usual in re.findall(_WORD, shows):
        value = self._parameters[name] if name in self._parameters else getattr(self, name)
        # A parameter, also one that is computed (pruned, parametrized) or that a wrapper keeps elsewhere.
        if name in self._parameters or hasattr(value, "requires_grad"):
            value = value is not None
        elif optional and name == "inplace":
            value = bool(value)
        if not (optional and _is_usual(value, int(usual) if usual else defaults.get(name))):
            parts.append((f"{name}=" if named else "") + (repr(value) if quoted else str(value)))
    return ", ".join(parts)


_extra_repr.__name__ = "extra_repr"
_reset_parameters.__name__ = "reset_parameters"
