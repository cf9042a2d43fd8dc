"""Modules that hold other modules or parameters: Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict."""

import itertools
import operator
from collections import OrderedDict
from collections import abc as container_abcs

import tessera
from tessera.nn.parameter import Parameter

from .module import Module, _addindent

__all__ = ["Container", "Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"]


class Container(Module):
    """Deprecated: use Module."""

    def __init__(self, **kwargs):
        super().__init__()
        import warnings

        warnings.warn(
            "nn.Container is deprecated. All of it's functionality is now implemented in nn.Module. Subclass that "
            "instead.",
            DeprecationWarning,
            stacklevel=2,
        )
        for key, value in kwargs.items():
            self.add_module(key, value)


def _position(index, size):
    """`index` as a number in [0, size). IndexError if it is outside [-size, size)."""
    index = operator.index(index)
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of range")
    return index % size


def _each(values, kind, refused=()):
    """The values of an iterable. TypeError for what is none, or is refused."""
    if not isinstance(values, container_abcs.Iterable) or isinstance(values, refused):
        raise TypeError(f"{kind}.extend should be called with an iterable, but got {type(values).__name__}")
    return values


class _Numbered(Module):
    """Modules in an order, by default under the names "0", "1" ..."""

    def _key_at(self, index):
        return next(itertools.islice(self._modules, _position(index, len(self)), None))

    def __setitem__(self, idx, module):
        setattr(self, self._key_at(idx), module)

    def __delitem__(self, idx):
        keys = list(self._modules)[idx] if isinstance(idx, slice) else [self._key_at(idx)]
        for key in keys:
            delattr(self, key)
        self._renumber(self._modules.values())

    def _renumber(self, modules):
        self._modules = {str(i): m for i, m in enumerate(modules)}

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __dir__(self):
        return [k for k in super().__dir__() if not k.isdigit()]

    def append(self, module):
        """Adds a module at the end. Returns self."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key):
        """Removes and returns the module at an index."""
        module = self[key]
        del self[key]
        return module


class Sequential(_Numbered):
    """Applies modules one after the other: `Sequential(a, b, c)` or `Sequential(OrderedDict(name=module, ...))`."""

    def __init__(self, *args):
        super().__init__()
        named = (
            args[0]
            if len(args) == 1 and isinstance(args[0], OrderedDict)
            else {str(i): module for i, module in enumerate(args)}
        )
        for name in named:
            self.add_module(name, named[name])

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            return type(self)(OrderedDict(list(self._modules.items())[idx]))
        return self._modules[self._key_at(idx)]

    def __add__(self, other):
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return Sequential(*self, *other)

    def __iadd__(self, other):
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        for module in list(other):
            self.append(module)
        return self

    @staticmethod
    def _check_times(other):
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {Sequential} and {type(other)}")
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {Sequential}")

    def __mul__(self, other):
        self._check_times(other)
        return Sequential(*(list(self) * other))

    def __rmul__(self, other):
        return self * other

    def __imul__(self, other):
        self._check_times(other)
        for module in list(self) * (other - 1):
            self.append(module)
        return self

    def forward(self, input):
        for module in self._modules.values():
            input = module(input)
        return input

    def insert(self, index, module):
        """Puts a module before the given index. Returns self."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        n = len(self)
        if not -n <= index <= n:
            raise IndexError(f"Index out of range: {index}")
        modules = list(self)
        modules.insert(index + n if index < 0 else index, module)
        self._renumber(modules)
        return self

    def extend(self, sequential):
        """Adds the modules of an iterable at the end. Returns self."""
        for module in sequential:
            self.append(module)
        return self


class ModuleList(_Numbered):
    """A list of modules whose parameters are registered. It has no forward."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self += modules

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            return type(self)(list(self)[idx])
        return self._modules[str(_position(idx, len(self)))]

    def __iadd__(self, modules):
        return self.extend(modules)

    def __add__(self, other):
        return ModuleList(itertools.chain(self, other))

    def __repr__(self):
        """Equal neighbours are shown once: `(0-2): 3 x Linear(...)`."""
        reprs = [repr(item) for item in self]
        if not reprs:
            return self._get_name() + "()"
        lines, start = [], 0
        for text, run in itertools.groupby(reprs):
            count = len(list(run))
            name = f"({start})" if count == 1 else f"({start}-{start + count - 1})"
            lines.append(_addindent(f"{name}: " + ("" if count == 1 else f"{count} x ") + text, 2))
            start += count
        return self._get_name() + "(\n  " + "\n  ".join(lines) + "\n)"

    def insert(self, index, module):
        """Inserts a module before the given index."""
        n = len(self)
        index = max(0, index + n) if index < 0 else min(index, n)
        for i in range(n, index, -1):
            self._modules[str(i)] = self._modules[str(i - 1)]
        self.add_module(str(index), module) if index == n else self._modules.__setitem__(str(index), module)

    def extend(self, modules):
        """Adds the modules of an iterable at the end. Returns self. TypeError if it is no iterable."""
        for module in _each(modules, "ModuleList"):
            self.append(module)
        return self


def _pairs(values, kind):
    """Yields the (key, value) pairs of an iterable of pairs. TypeError or ValueError names the bad element."""
    for j, item in enumerate(values):
        if not isinstance(item, container_abcs.Iterable):
            raise TypeError(f"{kind} update sequence element #{j} should be Iterable; is {type(item).__name__}")
        item = tuple(item)
        if len(item) != 2:
            raise ValueError(f"{kind} update sequence element #{j} has length {len(item)}; 2 is required")
        yield item


class ModuleDict(Module):
    """A dictionary of modules, in insertion order, whose parameters are registered. It has no forward."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key):
        return self._modules[key]

    def __setitem__(self, key, module):
        self.add_module(key, module)

    def __delitem__(self, key):
        del self._modules[key]

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, key):
        return key in self._modules

    def clear(self):
        """Removes all items."""
        self._modules.clear()

    def pop(self, key):
        """Removes a key and returns its module."""
        module = self[key]
        del self[key]
        return module

    def keys(self):
        """The keys."""
        return self._modules.keys()

    def items(self):
        """(key, module) pairs."""
        return self._modules.items()

    def values(self):
        """The modules."""
        return self._modules.values()

    def update(self, modules):
        """Adds the modules of a mapping or of an iterable of pairs, in their order."""
        if not isinstance(modules, container_abcs.Iterable):
            raise TypeError(
                "ModuleDict.update should be called with an iterable of key/value pairs, but got "
                + type(modules).__name__
            )
        pairs = (
            modules.items()
            if isinstance(modules, (ModuleDict, container_abcs.Mapping))
            else _pairs(modules, "ModuleDict")
        )
        for key, module in pairs:
            self[key] = module


def _tensor_text(value, elements=tessera.typename):
    """`Parameter containing: [torch.FloatTensor of size 2x3]`, as the parameter containers print their entries; with
    the dtype where `elements` is str.
    """
    size = "x".join(str(n) for n in value.size())
    device = f" (GPU {value.get_device()})" if value.is_cuda else ""
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"{kind} containing: [{elements(value)} of size {size}{device}]"


def _as_parameter(value):
    if isinstance(value, tessera.Tensor) and not isinstance(value, Parameter):
        return Parameter(value)
    return value


class ParameterList(Module):
    """A list of parameters; tensors put into it become parameters, other values are kept as they are."""

    def __init__(self, values=None):
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def _index(self, index):
        return str(_position(index, len(self)))

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            out = self.__class__()
            for i in range(*idx.indices(len(self))):
                out.append(self[i])
            return out
        return getattr(self, self._index(idx))

    def __setitem__(self, idx, param):
        setattr(self, self._index(idx), _as_parameter(param))

    def __len__(self):
        return self._size

    def __iter__(self):
        return iter(self[i] for i in range(len(self)))

    def __iadd__(self, parameters):
        return self.extend(parameters)

    def __dir__(self):
        return [k for k in super().__dir__() if not k.isdigit()]

    def append(self, value):
        """Adds a value at the end. Returns self."""
        self._size += 1
        self[len(self) - 1] = value
        return self

    def extend(self, values):
        """Adds the values of an iterable at the end. Returns self. TypeError for a tensor or what is no iterable."""
        for value in _each(values, "ParameterList", tessera.Tensor):
            self.append(value)
        return self

    def extra_repr(self):
        lines = []
        for k, p in enumerate(self):
            if isinstance(p, tessera.Tensor):
                lines.append(f"  ({k}): {_tensor_text(p, lambda value: value.dtype)}")
            else:
                lines.append(f"  ({k}): Object of type: {type(p).__name__}")
        return "\n".join(lines)

    def __call__(self, *args, **kwargs):
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dictionary of parameters; tensors put into it become parameters, other values are kept as they are. Keys are
    strings.
    """

    def __init__(self, parameters=None):
        super().__init__()
        self._keys = {}
        if parameters is not None:
            self.update(parameters)

    def _key_to_attr(self, key):
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string (type is '"
                + type(key).__name__
                + "'). Open an issue on github if you need non-string keys."
            )
        return key

    def __getitem__(self, key):
        return getattr(self, self._key_to_attr(key))

    def __setitem__(self, key, value):
        self._keys[key] = None
        setattr(self, self._key_to_attr(key), _as_parameter(value))

    def __delitem__(self, key):
        del self._keys[key]
        delattr(self, self._key_to_attr(key))

    def __len__(self):
        return len(self._keys)

    def __iter__(self):
        return iter(self._keys)

    def __reversed__(self):
        return reversed(list(self._keys))

    def copy(self):
        """A new ParameterDict with the same parameters."""
        return ParameterDict(OrderedDict((k, self[k]) for k in self._keys))

    def __contains__(self, key):
        return key in self._keys

    def setdefault(self, key, default=None):
        """The value of `key`, which becomes `default` if it was not there."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self):
        """Removes all items."""
        for k in list(self._keys):
            del self[k]

    def pop(self, key):
        """Removes a key and returns its value."""
        v = self[key]
        del self[key]
        return v

    def popitem(self):
        """Removes and returns the last (key, value) pair."""
        k, _ = self._keys.popitem()
        self._keys[k] = None
        value = self[k]
        del self[k]
        return k, value

    def get(self, key, default=None):
        """The value of `key`, or `default`."""
        return self[key] if key in self else default

    def fromkeys(self, keys, default=None):
        """A new ParameterDict with the given keys, all with the same value."""
        return ParameterDict((k, default) for k in keys)

    def keys(self):
        """The keys."""
        return self._keys.keys()

    def items(self):
        """(key, value) pairs."""
        return ((k, self[k]) for k in self._keys)

    def values(self):
        """The values."""
        return (self[k] for k in self._keys)

    def update(self, parameters):
        """Adds the values of a mapping or of an iterable of pairs. An unordered mapping is taken in the order of its
        sorted keys.
        """
        if not isinstance(parameters, container_abcs.Iterable):
            raise TypeError(
                "ParametersDict.update should be called with an iterable of key/value pairs, but got "
                + type(parameters).__name__
            )
        if isinstance(parameters, (OrderedDict, ParameterDict)):
            pairs = parameters.items()
        elif isinstance(parameters, container_abcs.Mapping):
            pairs = sorted(parameters.items())
        else:
            pairs = _pairs(parameters, "ParameterDict")
        for key, parameter in pairs:
            self[key] = parameter

    def extra_repr(self):
        lines = []
        for k, p in self.items():
            if isinstance(p, tessera.Tensor):
                lines.append(f"  ({k}): {_tensor_text(p)}")
            else:
                lines.append(f"  ({k}): Object of type: {type(p).__name__}")
        return "\n".join(lines)

    def __call__(self, input):
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other):
        copy = self.copy()
        copy.update(other)
        return copy

    def __ror__(self, other):
        copy = other.copy()
        copy.update(self)
        return copy

    def __ior__(self, other):
        self.update(other)
        return self
