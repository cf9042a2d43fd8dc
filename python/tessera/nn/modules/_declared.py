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

import re
import sys
from collections import namedtuple

from tessera import Tensor

from ._parts import FIRST_VALUES, new_parameters
from .module import Module

LAYERS = {}

# What a declaration says: texts, and dicts of texts by parameter; the attributes that options become, and the text of
# the constructor.
Declared = namedtuple("Declared", "options computes shows shapes conditions first_values kept constructor")

_NEVER_KEPT = {"device", "dtype"}
_PLAIN = frozenset({bool, int, float, str, tuple, list, type(None)})
_WORDS = re.compile(r"[A-Za-z_]\w*")


def layer(
    options=None, computes=None, shows=None, *, base="", sets=None, then="", reset="reset_parameters", **parameters
):
    """The decorator; see above."""
    line = sys._getframe(1).f_lineno

    def make(cls):
        known = {name: text.partition(" ~ ") for name, text in parameters.items()}
        shapes = {name: text.partition(" if ")[0] for name, (text, _, _) in known.items()}
        conditions = {name: text.partition(" if ")[2] for name, (text, _, _) in known.items()}
        first = {name: values for name, (_, _, values) in known.items() if values}
        names, functions = [], []
        if options is not None:
            names = [text.partition("=")[0].strip() for text in options.split(",") if text.strip()]
            taken = {*_NEVER_KEPT, *shapes, *_WORDS.findall(base), *_WORDS.findall(then)}
            kept = {n: n for n in names if n not in taken and not n.startswith("*")} | (sets or {})
            kept = {name: value for name, value in kept.items() if value is not None}
            constructor = _constructor(options, base, kept, then, conditions, reset)
            functions.append(constructor)
            cls.__constants__ = vars(cls).get("__constants__", [*getattr(cls, "__constants__", ()), *kept])
        else:
            kept, constructor = {}, None
        attributes = cls._attributes = getattr(cls, "_attributes", frozenset({"training"})).union(kept, shapes)
        if computes is not None:
            arguments, arrow, expression = computes.rpartition(" -> ")
            arguments = arguments if arrow else "input"
            own = attributes - {text.partition("=")[0].strip() for text in arguments.split(",")}
            functions.append(f"def forward(self, {arguments}): return {_of_self(expression, own)}")
        if shapes:
            items = ", ".join(f"{name!r}: {_of_self(text, attributes)}" for name, text in shapes.items())
            functions.append(f"def _shapes(self): return {{{items}}}")
        _compile(cls, functions, line)
        if first:
            cls._first_values = first
            if "reset_parameters" not in vars(cls) and reset == "reset_parameters":
                cls.reset_parameters = _reset_parameters
        if shows is not None:
            cls.extra_repr = _shower(shows)
        cls._declared = Declared(options, computes, shows, shapes, conditions, first, kept, constructor)
        LAYERS[cls.__name__] = cls
        return cls

    return make


def _constructor(options, base, kept, then, conditions, reset):
    body = [f"super().__init__({base})"]
    if kept:
        body.append("_keep(self, {%s})" % ", ".join(f"{name!r}: {value}" for name, value in kept.items()))
    if then:
        body.append(then)
    if conditions:
        given = ", ".join(f"{name}={condition or True}" for name, condition in conditions.items())
        body += [f"_new_parameters(self, device, dtype, {given})", f"self.{reset}()"]
    return f"def __init__(self, {options}): " + "; ".join(body)


def _compile(cls, functions, line):
    """Makes the functions, in the file of the class and (as far as lines go) at the line of its declaration."""
    if not functions:
        return
    heads = ["def make(__class__, _keep, _new_parameters):", *(" " + f for f in functions), " return locals()"]
    where = sys.modules[cls.__module__]
    code = compile("\n" * max(0, line - len(heads)) + "\n".join(heads), where.__file__, "exec")
    made = {}
    exec(code, where.__dict__, made)
    for name, function in made["make"](cls, _keep, _new_parameters).items():
        if getattr(function, "__code__", None) is not None and name not in ("_keep", "_new_parameters"):
            function.__qualname__ = f"{cls.__qualname__}.{name}"
            setattr(cls, name, function)


def _of_self(expression, names):
    """The expression with `self.` before each of the names, but where a name says which argument of a call follows."""
    return re.sub(
        rf"(?<![\w.'\"])({'|'.join(sorted(names, key=len, reverse=True))})\b(?!\s*=(?!=))", r"self.\1", expression
    )


def _keep(module, options):
    """Sets attributes: tensors and modules as assignments do, the rest at once."""
    vars(module).update(options)
    for name, value in options.items():
        if type(value) not in _PLAIN and isinstance(value, (Tensor, Module)):
            del vars(module)[name]
            setattr(module, name, value)


def _new_parameters(module, device, dtype, **there):
    shapes = module._shapes()
    new_parameters(module, device, dtype, **{name: shapes[name] if on else None for name, on in there.items()})


def first_values(module):
    """Gives the declared parameters of a layer new first values, in the order of the declaration."""
    for name, how in module._first_values.items():
        tensor = getattr(module, name)
        if tensor is not None:
            FIRST_VALUES[how](tensor, module)


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


def _shower(spec):
    fields = [re.fullmatch(r"(\w+)(=?)(!r)?(\??)(\d*)", word).groups() for word in spec.split()]

    def is_usual(value, default):
        return value == default or (isinstance(value, tuple) and value == (default,) * len(value))

    def extra_repr(self):
        defaults, parts = _defaults(type(self)), []
        for name, named, quoted, optional, usual in fields:
            value = self._parameters[name] is not None if name in self._parameters else getattr(self, name)
            if not (optional and is_usual(value, int(usual) if usual else defaults.get(name))):
                parts.append((f"{name}=" if named else "") + (repr(value) if quoted else str(value)))
        return ", ".join(parts)

    return extra_repr
