"""Numbers that are symbols in a capture: sizes of tensors, and ints among a function's arguments, that have differed or
are said to differ.
"""

import functools
import math
import re

import tessera

from . import config
from .exc import UserError, UserErrorType


class NeedSymbols(Exception):
    """A capture has met the first number that is to be a symbol: it starts again with a ShapeEnv."""


@functools.cache
def _violation_type():
    from tessera.fx.experimental.symbolic_shapes import ConstraintViolationError

    class Violation(UserError, ConstraintViolationError):
        """A size that was to be a symbol is a number."""

    return Violation


class History:
    """What a place has seen of its arguments, and what differs from call to call."""

    def __init__(self):
        self._seen = {}  # name of a source -> its last shape, (type, name) -> its last number
        self._varying = {}  # name -> dimensions that have differed (None: their number), (type, name) -> True

    def dimensions(self, tensor, source, dynamic):
        """{dimension: whether it may not become a number} of the sizes that are symbols."""
        unknown = {d: strict for d, (strict, _) in getattr(tensor, "_dynamo_unbacked_indices", {}).items()}
        marked = set(getattr(tensor, "_dynamo_dynamic_indices", ()))
        found = marked | set(getattr(tensor, "_dynamo_weak_dynamic_indices", ()))
        own = not isinstance(tensor, (tessera.nn.Parameter, tessera.nn.Buffer))
        if own and (dynamic is True or dynamic is None and not config.assume_static_by_default):
            found.update(range(tensor.dim()))
        elif own and dynamic is None and config.automatic_dynamic_shapes:
            found |= self._differing(source.name(), tuple(tensor.shape))
        if dynamic is False or not config.dynamic_shapes:
            found = set(marked)
        found -= set(getattr(tensor, "_dynamo_static_indices", ()))
        return {d: d in marked for d in sorted(found) if tensor.shape[d] > 1 and d not in unknown} | unknown

    def _differing(self, name, shape):
        before, varying = self._seen.get(name), self._varying.setdefault(name, set())
        if before is not None and len(before) == len(shape):
            varying.update(d for d, (a, b) in enumerate(zip(before, shape)) if a != b)
        elif before is not None:
            varying.add(None)  # the number of dimensions: any of them may differ
        self._seen[name] = shape
        return set(range(len(shape))) if None in varying else varying

    def number(self, value, source, dynamic):
        """Whether a number is a symbol: an int that is part of an argument, but no attribute of a module; any float."""
        real = type(value) is float
        if real and not math.isfinite(value) or dynamic is False:
            return False
        if not real and (not source.is_local() or source.base is not None and source.base.of_module):
            return False
        fixed = config.specialize_float if real else config.specialize_int
        if dynamic is True or not config.dynamic_shapes or fixed:
            return dynamic is True and config.dynamic_shapes and not fixed
        name = type(value), source.name()  # a tensor may have been there, too
        before = self._seen.get(name, value)
        if before != value and config.automatic_dynamic_shapes:
            self._varying[name] = True
        self._seen[name] = value
        return self._varying.get(name) is True


class Symbols:
    """The symbols of one capture."""

    def __init__(self, fake):
        from tessera.fx.experimental import symbolic_shapes

        self._module, self.fake = symbolic_shapes, fake
        self.env = fake.shape_env
        self.inputs = []  # (fake tensor or SymInt, source)

    def tensor(self, value, source, dimensions):
        """A fake tensor with symbols for some sizes."""
        shapes, unknown = self._module, getattr(value, "_dynamo_unbacked_indices", {})
        kinds = [shapes.DimDynamic.DYNAMIC if d in dimensions else shapes.DimDynamic.STATIC for d in range(value.dim())]
        for d in unknown:
            kinds[d] = shapes.DimDynamic.UNBACKED
        ids = {d: shape_id for d, (_, shape_id) in unknown.items() if shape_id is not None}
        limits = [shapes.RelaxedUnspecConstraint(False) if dimensions.get(d) else None for d in range(value.dim())]
        for bounds in getattr(value, "_dynamo_dynamic_range", ()):
            limits[bounds.dim] = self._bounds(bounds, value.shape[bounds.dim], f"{source.name()}.size()[{bounds.dim}]")
        context = shapes.StatelessSymbolicContext(kinds, constraint_sizes=limits, shape_ids=ids)
        made = self.fake.from_tensor(value, static_shapes=False, source=source.name(), symbolic_context=context)
        self.inputs.append((made, source))
        return made

    def _bounds(self, bounds, size, name):
        """What mark_dynamic says of a size."""
        low, high = (bounds.min or 0), (math.inf if bounds.max is None else bounds.max)
        if not low <= size <= high:
            text = f"{name} = {size} not in range [{low}, {high}], as mark_dynamic was told"
            raise _violation_type()(UserErrorType.CONSTRAINT_VIOLATION, text)
        return self._module.StrictMinMaxConstraint(False, self._module.ValueRanges(low, high))

    def number(self, value, source):
        """A SymInt or SymFloat."""
        symbol = self.env.create_unspecified_symbol(value, source.name(), self._module.DimDynamic.DYNAMIC)
        make = self.env.create_symintnode if type(value) is int else self.env.create_symfloatnode
        made = make(symbol, hint=value, source=source.name())
        if not isinstance(made, (int, float)):
            self.inputs.append((made, source))
        return made

    def guard(self):
        """What has to hold of the symbols: (function of the inputs, their sources), or None.

        Raises: ConstraintViolationError if a size that was to be a symbol is a number.
        """
        names = [f"p{i}" for i in range(len(self.inputs))]
        try:
            texts = self.env.produce_guards([v for v, _ in self.inputs], names, ignore_static=False)
        except self._module.ConstraintViolationError as error:
            by_name = {name: source.name() for name, (_, source) in zip(names, self.inputs)}
            text = re.sub(r"\bp\d+\b", lambda m: by_name.get(m[0], m[0]), str(error))
            raise _violation_type()(UserErrorType.CONSTRAINT_VIOLATION, text) from None
        if not texts:
            return None
        holds = eval(f"lambda {', '.join(names)}: {' and '.join(texts)}", {"math": math})
        return holds, [source for _, source in self.inputs]
