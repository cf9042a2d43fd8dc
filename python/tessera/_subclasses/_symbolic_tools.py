"""What calls with symbolic sizes have in common: trees of arguments, shape rules at many sizes."""

import math

import tessera
from tessera import SymBool, SymFloat, SymInt, Tensor, _C
from tessera.fx.experimental._expressions import constant
from tessera.fx.experimental._probing import Fitted, Problem, solve, specialize

__all__ = [
    "BelowPython", "Rule", "Without", "env_of", "exprs_of", "guarded", "is_fake", "leaves", "mapped", "plain", "solved",
    "solved_rule", "with_arguments",
]  # fmt: skip

SYMBOLIC = (SymInt, SymFloat, SymBool)


def leaves(value):
    """Everything in tuples, lists and dictionaries."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if not isinstance(value, (tuple, list)):
        return [value]
    return [leaf for part in value for leaf in leaves(part)]


def mapped(value, change):
    """The same tree with change(leaf) for the leaves; torch.Size and named tuples become tuples, lists and dicts of
    other classes (those of fx) plain ones.
    """
    if isinstance(value, list):
        return [mapped(part, change) for part in value]
    if type(value) in (tuple, tessera.Size) or (isinstance(value, tuple) and hasattr(value, "n_fields")):
        return tuple([mapped(part, change) for part in value])
    if isinstance(value, dict):
        return {k: mapped(part, change) for k, part in value.items()}
    return change(value)


def plain(value):
    """A plain number for a symbolic one; other objects as they are."""
    return value._stand_in() if isinstance(value, SYMBOLIC) else value


def guarded(value):
    """The number of a symbolic one, from now on always this; other objects as they are."""
    return value._guard() if isinstance(value, SYMBOLIC) else value


def is_fake(value):
    """Whether it is a tensor of a FakeTensorMode."""
    return isinstance(value, Tensor) and _C._fake_mode_of(value) is not None


def exprs_of(env, t):
    """(sizes, strides, offset) of a fake tensor as expressions."""
    shape = _C._symbolic_shape(t)
    if shape is None:
        return [constant(s) for s in t.shape], [constant(s) for s in t.stride()], constant(t.storage_offset())
    replace = env.replace
    return [replace(e) for e in shape.sizes], [replace(e) for e in shape.strides], replace(shape.offset)


def with_arguments(func, args, kwargs):
    """Yields what is given to an operator, each with its argument of the schema."""
    for i, argument in enumerate(func._schema.arguments):
        if i < len(args):
            yield argument, args[i]
        elif argument.name in kwargs:
            yield argument, kwargs[argument.name]


def env_of(values):
    """The ShapeEnv of the first symbolic number or tensor in a tree."""
    for value in leaves(values):
        if isinstance(value, SYMBOLIC):
            return value.node.shape_env
        if isinstance(value, Tensor) and _C._symbolic_shape(value) is not None:
            return _C._symbolic_shape(value).env
    raise RuntimeError("there is no symbolic number among the arguments")


class Without:
    """Inside the block tensors have plain sizes: their symbols are put aside."""

    def __init__(self, tensors):
        self.tensors = list({id(t): t for t in tensors}.values())

    def __enter__(self):
        self.shapes = [_C._symbolic_shape(t) for t in self.tensors]
        for t, shape in zip(self.tensors, self.shapes):
            _C._set_symbolic_shape(t, None)
            if shape is not None and shape.env._stand_ins_changed:
                _resize(t, shape)

    def __exit__(self, *error):
        for t, shape in zip(self.tensors, self.shapes):
            _C._set_symbolic_shape(t, shape)


def _resize(t, shape):
    """Gives a fake tensor the sizes that its symbols stand for by now."""
    sizes, strides = ([shape.env._stand_in(e) for e in part] for part in (shape.sizes, shape.strides))
    if list(t.shape) == sizes and list(t.stride()) == strides:
        return
    offset = shape.env._stand_in(shape.offset)
    extent = 1 + offset + sum(max(n - 1, 0) * s for n, s in zip(sizes, strides))
    with BelowPython():
        storage = t.untyped_storage()
        storage.resize_(max(storage.nbytes(), extent * t.element_size()))
        t.as_strided_(sizes, strides, offset)


class BelowPython:
    """Inside the block no mode and no fake tensor's rule is asked."""

    def __enter__(self):
        self.keys = _C._tls_keys()
        python = _C._key_bits("Python")
        _C._set_tls_keys(self.keys[0] & ~python, self.keys[1] | python | _C._autograd_key_bits())

    def __exit__(self, *error):
        _C._set_tls_keys(*self.keys)


class Rule:
    """The shape rule of one call: what it makes of sizes.

    Args:
        env: ShapeEnv.
        func: the operator. args, kwargs: its arguments.
        on_meta: devices among the arguments are taken for the meta device.
    """

    def __init__(self, env, func, args, kwargs, on_meta=True):
        self.env, self.func = env, func
        self.args, self.kwargs = list(args), dict(kwargs)
        self.tensors = {id(v): (v, exprs_of(env, v)) for v in leaves((args, kwargs)) if isinstance(v, Tensor)}
        if on_meta:
            names = {a.name for a in func._schema.arguments}
            if "device" in names and (self.kwargs.get("device") is not None or not self.tensors):
                self.kwargs["device"] = "meta"
            self.kwargs.pop("pin_memory", None)
            meta = tessera.device("meta")
            self.args = [mapped(a, lambda v: meta if isinstance(v, tessera.device) else v) for a in args]

    def inputs(self):
        """Expressions among the arguments."""
        found, products = [], []
        for _, (sizes, strides, offset) in self.tensors.values():
            total = constant(1)
            for size in sizes:
                total = total * size
            found += sizes
            products += [total, offset, *strides]
        found += [v.node.expr for v in leaves((self.args, self.kwargs)) if isinstance(v, SymInt)]
        return [*found, *products]

    def numbers(self):
        """Plain integers among the arguments, and sizes that are such."""
        found = [abs(v) for v in leaves((self.args, self.kwargs)) if type(v) is int]
        for _, (sizes, _, _) in self.tensors.values():
            found += [s.value() for s in sizes if s.is_number]
            if sizes and all(s.is_number for s in sizes):
                found.append(math.prod(s.value() for s in sizes))
        return [n for n in found if n < 1 << 40]

    def number(self, value, point):
        """An argument that is no tensor at these sizes."""
        if isinstance(value, SymInt):
            return value.node.expr.evaluate(point)
        return plain(value)

    def tensor(self, t, point):
        """A meta tensor as t would be at these sizes."""
        sizes, strides, offset = self.tensors[id(t)][1]
        sizes, strides = ([e.evaluate(point) for e in part] for part in (sizes, strides))
        offset = offset.evaluate(point)
        with BelowPython():
            if not offset:
                return tessera.empty_strided(sizes, strides, dtype=t.dtype, device="meta")
            extent = 1 + offset + sum((n - 1) * s for n, s in zip(sizes, strides))
            return tessera.empty(max(extent, 0), dtype=t.dtype, device="meta").as_strided(sizes, strides, offset)

    def outcome(self, point):
        """(structure, numbers) of the result at these sizes. Raises what the operator raises."""
        made = {}

        def at(value):
            if not isinstance(value, Tensor):
                return self.number(value, point)
            if id(value) not in made:
                made[id(value)] = self.tensor(value, point)
            return made[id(value)]

        args, kwargs = mapped(self.args, at), mapped(self.kwargs, at)
        with BelowPython():
            return _described(self.func(*args, **kwargs))

    def run(self, point):
        """The outcome, or None where the operator raises."""
        try:
            return self.outcome(point)
        except (RuntimeError, ValueError, IndexError, TypeError):
            return None


def _described(result):
    """(structure, numbers): dtypes and ranks of tensors, and their sizes, strides and offsets; integers as they are."""
    structure, numbers = [], []
    for value in leaves(result):
        if isinstance(value, Tensor):
            structure.append((value.dtype, value.dim()))
            numbers += [*value.shape, *value.stride(), value.storage_offset()]
        elif type(value) is int:
            structure.append(int)
            numbers.append(value)
        else:
            structure.append(value)
    return structure, numbers


_MOST_GUARDS = 20


def _other_stand_ins(env, problem):
    """Whether the rule holds for other numbers in place of one that is not known, which stands for it from then on."""
    base = problem.base()
    known = sorted({n for n in (*problem.numbers, *(e.evaluate(base) for e in problem.inputs)) if n > 1})
    # Multiples first: a size that has to be one is not taken for the number itself.
    values = dict.fromkeys((*(k * n for k in (3, 2) for n in known), *range(2, 65), 1, *known))
    for s in problem.symbols:
        limits = env.var_to_range[s]
        before = env._stand_ins.get(s)
        for value in values if before is not None and s not in env.var_to_val else ():
            env._stand_ins[s] = value
            if limits.lower <= value <= limits.upper and problem.run(problem.base()) is not None:
                env._stand_ins_changed = True
                return True
        if before is not None:
            env._stand_ins[s] = before
    return False


def solved_rule(env, make_rule):
    """(structure, expressions of the numbers) of a rule, which is made anew after each guard."""
    for count in range(_MOST_GUARDS + 2):
        rule = make_rule()
        problem = Problem(env, rule.inputs(), rule.numbers(), rule.run)
        base = problem.base()
        if not problem.symbols:
            structure, numbers = rule.outcome(base)
            return structure, [constant(n) for n in numbers]
        if problem.run(base) is None and not _other_stand_ins(env, problem):
            rule.outcome(base)  # raises
        if count >= _MOST_GUARDS:
            specialize(problem)
            continue
        try:
            return solve(problem)
        except Fitted:
            continue
    raise RuntimeError(f"{rule.func}: no expressions were found for the sizes of its results")


def key_of(value):
    """What makes two calls equal."""
    if isinstance(value, Tensor):
        shape = _C._symbolic_shape(value)
        sizes = (tuple(value.shape), value.stride()) if shape is None else (shape.sizes, shape.strides, shape.offset)
        return ("t", value.dtype, *sizes)
    if isinstance(value, SYMBOLIC):
        return ("s", value.node.expr)
    if isinstance(value, (tuple, list)):
        return tuple(map(key_of, value))
    if isinstance(value, dict):
        return tuple((k, key_of(v)) for k, v in value.items())
    return (type(value), value)


def solved(env, func, args, kwargs):
    """The expressions of the numbers that the result of an operator has. Remembered: a rule is asked once for the same
    expressions, as long as nothing new is known of their symbols.
    """
    key = (func, key_of(args), key_of(kwargs), env._facts.version)
    if key not in env._calls:
        found = solved_rule(env, lambda: Rule(env, func, args, kwargs))[1]
        key = (func, key_of(args), key_of(kwargs), env._facts.version)
        env._calls[key] = found
    return env._calls[key]
