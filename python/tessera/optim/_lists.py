"""Many tensors as one operand: what a formula does to it is done to each of them, by one call of a list operator where
there is one. So the formula of a parameter's step is the formula of all, and a device gets few launches.
"""

import tessera
from tessera import Tensor

__all__ = ["Together", "joined", "of_numbers"]

# Methods of Tensor -> operators of lists, with the same arguments: numbers, tensors of one element, other lists.
_OPERATORS = {
    name: getattr(tessera, f"_foreach_{name}")
    for base in (
        "add sub mul div lerp addcmul addcdiv clamp_max clamp_min maximum minimum pow abs neg sqrt reciprocal sign"
    ).split()
    for name in (base, base + "_")
}
_OPERATORS["copy_"] = tessera._foreach_copy_
_FUNCTIONS = {tessera.maximum: "maximum", tessera.minimum: "minimum"}


class Together:
    """A list of tensors of one dtype and device with the methods and operators of a tensor."""

    __slots__ = ("tensors",)

    def __init__(self, tensors):
        self.tensors = tensors

    @property
    def device(self):
        return self.tensors[0].device

    def is_complex(self):
        return False

    def item(self):
        """The number of the first tensor: of those that `joined` has found equal."""
        return self.tensors[0].item()

    def clone(self):
        return self + 0

    def _call(self, name, *arguments, **options):
        operator = _OPERATORS.get(name)
        scaled = name in ("add", "add_", "sub", "sub_") and "alpha" in options
        if scaled and not isinstance(arguments[0], (Together, Tensor)):
            arguments, options = (arguments[0] * options["alpha"],), {}
        if operator is None or (name == "copy_" and not isinstance(arguments[0], Together)):
            method = getattr(Tensor, name)
            return _each(lambda *a, **k: method(*a, **k), (self, *arguments), options)
        lists = [a.tensors if isinstance(a, Together) else a for a in arguments]
        results = operator(self.tensors, *lists, **options)
        return self if name.endswith("_") else Together(list(results))

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *arguments, **options: self._call(name, *arguments, **options)

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name, out = _FUNCTIONS.get(function), kwargs.get("out")
        if name and isinstance(args[0], Together) and (out is None or out is args[0]):
            return args[0]._call(name + "_" if out is not None else name, *args[1:])
        return _each(function, args, kwargs)

    def __neg__(self):
        return self._call("neg")

    def __add__(self, other):
        return self._call("add", other)

    __radd__ = __add__

    def __sub__(self, other):
        return self._call("sub", other)

    def __rsub__(self, other):
        return self._call("neg")._call("add_", other)

    def __mul__(self, other):
        if isinstance(other, Together) and other.tensors[0].dim() > self.tensors[0].dim() == 0:
            return other * self  # numbers go with larger tensors, not the other way round
        return self._call("mul", other)

    __rmul__ = __mul__

    def __truediv__(self, other):
        return self._call("div", other)

    def __rtruediv__(self, other):
        return self._call("reciprocal")._call("mul_", other)

    def __pow__(self, exponent):
        return self._call("pow", exponent)

    def __rpow__(self, base):
        return Together(list(tessera._foreach_pow(base, self.tensors)))

    def __iadd__(self, other):
        return self._call("add_", other)

    def __isub__(self, other):
        return self._call("sub_", other)

    def __imul__(self, other):
        return self._call("mul_", other)

    def __gt__(self, other):
        return self._call("gt", other)

    def __lt__(self, other):
        return self._call("lt", other)

    def __eq__(self, other):
        return self._call("eq", other)

    __hash__ = None


def _each(function, args, kwargs):
    """The function for one tensor after the other."""

    def of(value, i):
        return value.tensors[i] if isinstance(value, Together) else value

    count = next(len(a.tensors) for a in (*args, *kwargs.values()) if isinstance(a, Together))
    results = [
        function(*(of(a, i) for a in args), **{name: of(a, i) for name, a in kwargs.items()}) for i in range(count)
    ]
    return Together(results)


def of_numbers(function, number):
    """The numbers that a function makes of one, which is a tensor; of a list's all at once."""
    if not isinstance(number, Together):
        return function(number)
    return tuple(Together(list(row.unbind())) for row in function(tessera.stack(number.tensors)))


def _number(value):
    """A number of a parameter's state that lies in host memory; None for anything else."""
    return value.item() if isinstance(value, Tensor) and value.dim() == 0 and value.is_cpu else None


def joined(entries, group):
    """(parameter, gradient, state) of each entry, those that a device takes as lists as one: `Together`s and a state of
    them. Such are plain real tensors of one dtype whose numbers in host memory (counts of steps) are equal. What a
    formula puts into a joined state in place of a tensor is lost: it changes the tensors.
    """
    if group.get("differentiable") or group.get("foreach") is False:
        yield from entries
        return
    buckets, seen = {}, set()
    for p, grad, state in entries:
        key = object()  # by itself
        if p.is_cuda and id(p) not in seen and tessera._C._lists_fit([p], [grad]) and grad.dtype == p.dtype:
            numbers = tuple((name, _number(value)) for name, value in state.items())
            key = (p.device, p.dtype, grad.is_contiguous(), numbers)
        seen.add(id(p))
        buckets.setdefault(key, []).append((p, grad, state))
    for bucket in buckets.values():
        if len(bucket) == 1:
            yield bucket[0]
            continue
        params, grads, states = (list(column) for column in zip(*bucket))
        state = {
            name: Together([s[name] for s in states]) if isinstance(value, Tensor) else value
            for name, value in states[0].items()
        }
        yield Together(params), Together(grads), state
