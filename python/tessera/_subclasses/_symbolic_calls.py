"""Operators on fake tensors with symbolic sizes, and on symbolic numbers."""

import functools

import tessera
from tessera import SymFloat, SymInt, Tensor, _C
from tessera._subclasses._lifting import lifted
from tessera._subclasses._symbolic_tools import (
    SYMBOLIC,
    BelowPython,
    Without,
    env_of,
    exprs_of,
    guarded,
    is_fake,
    leaves,
    mapped,
    plain,
    solved,
    with_arguments,
)
from tessera.fx.experimental._expressions import as_expr, condition, constant, int_oo, is_unbacked

__all__ = [
    "call",
    "call_with_symbols",
    "composite",
    "data_dependent",
    "getitem",
    "inner_call",
    "indices_of_repeats",
    "interleaved",
    "restrided",
    "scattered",
    "selected",
    "setitem",
    "sliced",
    "split_at",
    "unknown_twin",
]


def call(mode, func, args, kwargs):
    """An operator on fake tensors some of which have symbolic sizes: its result, with symbolic sizes."""
    env = mode.shape_env or env_of((args, kwargs))
    if any(isinstance(v, SymFloat) for v in leaves((args, kwargs))) and _sizes_by_floats(mode, func, args, kwargs):
        args, kwargs = (mapped(part, lambda v: guarded(v) if isinstance(v, SymFloat) else v) for part in (args, kwargs))
    tensors = [v for v in leaves((args, kwargs)) if is_fake(v)]
    exprs = solved(env, func, args, kwargs)
    with Without(tensors):
        plain_args, plain_kwargs = mapped(list(args), plain), mapped(kwargs, plain)
        with mode:
            result = func(*plain_args, **plain_kwargs)
    numbers = iter(exprs)
    return mapped(result, lambda value: _with_symbols(env, value, numbers))


def _sizes_by_floats(mode, func, args, kwargs):
    """Whether sizes of an operator's results are others for other floats, or these are none that it takes."""

    def other(value):
        return (plain(value) / 2 or 0.5) if isinstance(value, SymFloat) else plain(value)

    def sizes(change):
        with mode:
            made = func(*mapped(list(args), change), **mapped(kwargs, change))
        return [v.shape if isinstance(v, Tensor) else v for v in leaves(made)]

    with Without([v for v in leaves((args, kwargs)) if is_fake(v)]):
        known = sizes(plain)
        try:
            return known != sizes(other)
        except (RuntimeError, ValueError):
            return True


def sliced(mode, func, args, kwargs):
    """A slice: where it is not known that its bounds are inside of the dimension and in order, its size is unknown."""
    given = {argument.name: value for argument, value in with_arguments(func, args, kwargs)}
    x, dim, start, end = given["self"], given.get("dim", 0), given.get("start"), given.get("end")
    env = mode.shape_env or env_of((args, kwargs))
    sizes, strides, offset = exprs_of(env, x)
    size = sizes[dim]
    low = constant(0) if start is None else _expr(env, start)
    high = size if end is None or type(end) is int and end == _MOST else _expr(env, end)
    unknown = any(is_unbacked(s) for e in (low, high) for s in e.free_symbols)
    inside = (condition(">=", low), condition(">=", high - low), condition(">=", size - high))
    if not unknown or given.get("step", 1) != 1 or all(c is True or c is not False and env._static(c) for c in inside):
        return call(mode, func, args, kwargs)
    count = _unknown_size(env, env.bound_sympy(size).upper)
    if low.is_number and low.value() >= 0:
        offset = offset + strides[dim] * low
    else:
        offset = env.create_unbacked_symint().node._expr
        env.constrain_symbol_range(offset, 0, int_oo)
    with Without([x]), mode:
        result = func(x, dim, 0, env._stand_in(count))
    dim = dim % len(sizes)
    env._attach(result, [*sizes[:dim], count, *sizes[dim + 1 :]], strides, offset)
    return result


def selected(mode, func, args, kwargs):
    """A row: at an index that is not known it is anywhere in the tensor. The operator checks the index when it runs."""
    given = dict(zip([a.name for a in func._schema.arguments], args)) | kwargs
    x, dim, index = (given.get(name) for name in ("self", "dim", "index"))
    env = mode.shape_env or env_of((args, kwargs))
    if type(dim) is not int or not any(map(is_unbacked, _expr(env, index).free_symbols)):
        return call(mode, func, args, kwargs)
    sizes, strides, offset = exprs_of(env, x)
    with Without([x]), mode:
        result = func(x, dim, 0)
    if not strides[dim].is_number or strides[dim].value():
        offset = env.create_unbacked_symint().node._expr
        env.constrain_symbol_range(offset, 0, int_oo)
    at = dim % len(sizes)
    env._attach(result, [*sizes[:at], *sizes[at + 1 :]], [*strides[:at], *strides[at + 1 :]], offset)
    return result


def restrided(mode, func, args, kwargs):
    """as_strided: sizes and strides are those that are given. Where numbers are not known the memory is as large as
    what stands for them asks; the operator checks it when it runs.
    """
    given = {argument.name: value for argument, value in with_arguments(func, args, kwargs)}
    x, sizes, strides, offset = (given.get(name) for name in ("self", "size", "stride", "storage_offset"))
    env = mode.shape_env or env_of((args, kwargs))
    exprs = [[_expr(env, n) for n in part] for part in (sizes, strides)]
    start = exprs_of(env, x)[2] if offset is None else _expr(env, offset)
    unknown = any(is_unbacked(s) for e in (*exprs[0], *exprs[1], start) for s in e.free_symbols)
    with Without([x]):
        numbers = [[env._stand_in(e) for e in part] for part in exprs]
        if unknown:
            _enlarge(x, *numbers, env._stand_in(start))
        with mode:
            result = func(x, *numbers, env._stand_in(start))
    env._attach(result, *exprs, start)
    return result


def _enlarge(x, sizes, strides, offset):
    """Makes the memory of a fake tensor large enough for a view of it."""
    extent = 1 + offset + sum(max(n - 1, 0) * s for n, s in zip(sizes, strides))
    storage = x.untyped_storage()
    if storage.nbytes() < extent * x.element_size():
        with BelowPython():
            storage.resize_(extent * x.element_size())


def scattered(mode, func, args, kwargs):
    """A tensor with new values in a part: where that lies does not change its form."""
    env = mode.shape_env or env_of((args, kwargs))
    numbers = [v for v in leaves((args[2:], kwargs)) if isinstance(v, SYMBOLIC)]
    if not any(map(is_unbacked, (s for v in numbers for s in _expr(env, v).free_symbols))):
        return call(mode, func, args, kwargs)
    return call(mode, tessera.ops.aten.clone.default, (args[0],), {})


_MOST = 2**63 - 1


def _expr(env, number):
    """The expression of a number."""
    if not isinstance(number, SYMBOLIC):
        return constant(number)
    return (env or number.node.shape_env).replace(number.node._expr)


def _with_symbols(env, value, numbers):
    if isinstance(value, Tensor):
        sizes, strides = ([next(numbers) for _ in range(value.dim())] for _ in range(2))
        for size in sizes:
            if size.is_symbol and is_unbacked(size) and env.var_to_range[size].lower < 0:
                env._expect(condition(">=", size))  # an operator made a tensor of it
        env._attach(value, sizes, strides, next(numbers))
        return value
    return env._number(next(numbers)) if type(value) is int else value


def inner_call(mode, func, args, kwargs):
    """An operator that C++ called: whether its numbers are sizes is not known, so those that are equal to one make that
    one a number.
    """
    env = mode.shape_env or env_of((args, kwargs))
    given = {
        abs(v)
        for argument, value in with_arguments(func, args, kwargs)
        if "SymInt" in str(argument.type) or argument.name in _SIZES
        for v in leaves(value)
        if type(v) is int and abs(v) > 1
    }
    known = {e for v in leaves((args, kwargs)) if isinstance(v, Tensor) for e in exprs_of(env, v)[0]}
    for e in (*known, *env.var_to_val):
        e = env.replace(e)
        if not e.is_number and env.size_hint(e, allow_none=True) in given:
            env._assume(condition("==", e - env.size_hint(e)))
    return call(mode, func, args, kwargs)


_SIZES = frozenset(("size", "sizes", "shape", "stride", "length", "start", "end", "index", "split_size", "split_sizes"))


# --- composite operators ---


def composite(mode, func, args, kwargs):
    """A composite operator. Where nobody else watches and nothing is differentiated its shape rule is asked as a whole;
    otherwise it runs as the operators that it is made of, whose numbers are found by running it at other sizes, too.
    """
    if _C._len_torch_dispatch_stack() == 0 or _C._get_dispatch_stack_at(_C._len_torch_dispatch_stack() - 1) is mode:
        if not (
            _C.is_grad_enabled() and any(isinstance(v, Tensor) and v.requires_grad for v in leaves((args, kwargs)))
        ):
            return _as_a_whole(mode, func, args, kwargs)
    return lifted(mode, func, args, kwargs)


def _as_a_whole(mode, func, args, kwargs):
    try:
        return call(mode, func, args, kwargs)
    except (RuntimeError, ValueError, TypeError):
        # What depends on values has no rule as a whole: what it is made of has, or says what is wrong.
        args, kwargs = mapped(list(args), guarded), mapped(kwargs, guarded)
        return func._redispatch(_C._key_bits("Meta"), *args, **kwargs)


# --- numbers as arguments ---


def call_with_symbols(func, args, kwargs):
    """A function of the library that was given symbolic numbers."""
    fake = any(is_fake(v) for v in leaves((args, kwargs))) or _C._len_torch_dispatch_stack() > 0
    names = _names_of(func)
    indexed = {Tensor.__getitem__: getitem, Tensor.__setitem__: setitem}.get(func)
    if indexed is not None and fake:
        return indexed(*args)
    if func in (tessera.tensor, tessera.as_tensor):
        return _tensor_of(*args, **kwargs)
    body = getattr(func, "__wrapped__", None)
    if fake and names is None and body is not None:  # a function of operators: they take the symbols
        return body(*args, **kwargs)
    if not fake or names is None:
        return func(*mapped(args, guarded), **mapped(kwargs, guarded))
    plain_args, plain_kwargs = mapped(args, plain), mapped(kwargs, plain)
    # Integers are such where an overload takes them; x + size is the operator of two tensors, one of them a number.
    for way in ("int", "Tensor", "any"):
        for name in names:
            op = _operator(name)
            flat, numbers = _folded(op, args), _folded(op, plain_args)
            if numbers is None or not _fits(op, flat, numbers, plain_kwargs, way):
                continue
            if name in _SLICES and _is_cut_below(flat, kwargs):
                return _SLICES[name](*flat, **kwargs)
            symbols = {}
            for i, argument in enumerate(op._schema.arguments):
                value = flat[i] if i < len(flat) else kwargs.get(argument.name)
                if any(isinstance(v, SYMBOLIC) for v in leaves(value)):
                    symbols[i] = value
            return _named(op, _C._call_with_symbols(op, name, symbols, tuple(numbers), plain_kwargs))
    return func(*mapped(args, guarded), **mapped(kwargs, guarded))


def _names_of(func):
    """The operators that a function of the library may be; None for one of Python."""
    if isinstance(func, tessera._ops.OpOverload):
        return [func.name()]
    if isinstance(func, tessera._ops.OpOverloadPacket):
        return [getattr(func, overload).name() for overload in func.overloads()]
    return getattr(func, "_overloads", None)


def _is_functional(value):
    return isinstance(value, Tensor) and _C._func._is_functional_tensor(value)


def _is_cut_below(args, kwargs):
    """Whether a composite operator has to be slices at once: below the program its symbols would not be seen."""
    numbers = [v for v in leaves((args, kwargs)) if isinstance(v, SYMBOLIC)]
    if any(map(_is_functional, leaves((args, kwargs)))):
        return True
    return any(is_unbacked(s) for v in numbers for s in _expr(None, v).free_symbols)


def _narrowed(x, dim, start, length):
    return tessera.ops.aten.slice.Tensor(x, dim, start, start + length)


def _split(x, split_sizes, dim=0):
    parts, start = [], 0
    for size in split_sizes:
        parts.append(_narrowed(x, dim, start, size))
        start = start + size
    return tuple(parts)


_SLICES = {
    "aten::narrow": _narrowed, "aten::split.sizes": _split, "aten::split_with_sizes": _split,
}  # fmt: skip


def _tensor_of(data, dtype=None, device=None, requires_grad=False, **others):
    """torch.tensor of numbers some of which are symbolic, or of lists of such."""
    if others:
        raise NotImplementedError(f"torch.tensor of symbolic numbers with {', '.join(others)}: leave it out")
    numbers = leaves(data)
    if dtype is None:
        real = any(isinstance(v, (float, SymFloat)) for v in numbers)
        whole = tessera.bool if all(isinstance(v, (bool, tessera.SymBool)) for v in numbers) else tessera.int64
        dtype = tessera.get_default_dtype() if real else whole

    def made(part):
        if isinstance(part, (tuple, list)):
            return tessera.stack([made(p) for p in part]) if part else tessera.empty(0, dtype=dtype, device=device)
        return part.to(dtype) if isinstance(part, Tensor) else tessera.full((), part, dtype=dtype, device=device)

    return made(data).requires_grad_(requires_grad)


def _named(op, result):
    """Several results as the named tuple that the operator gives."""
    if type(result) is not tuple or not all(r.name for r in op._schema.returns):
        return result
    cls = getattr(tessera.return_types, op._schema.name.rpartition("::")[2], None)
    return result if cls is None else cls(result)


def _operator(name):
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    return getattr(getattr(getattr(tessera.ops, namespace), base), overload or "default")


def _fits(op, args, numbers, kwargs, way):
    """Whether the arguments fit an operator; way: what symbols among them may stand for there."""
    given = [(i, str(a.type)) for i, (a, v) in enumerate(zip(op._schema.arguments, args)) if isinstance(v, SYMBOLIC)]
    if way == "int" and not (given and all("int" in kind.lower() for _, kind in given)):
        return False
    if way == "Tensor":
        x = next((n for n in numbers if is_fake(n) or _is_functional(n)), None)
        places = [i for i, kind in given if kind == way]
        if x is None or not places:
            return False
        numbers = [x if i in places else n for i, n in enumerate(numbers)]
    return op._fits(*numbers, **kwargs)


def _folded(op, args):
    """view(2, 3) as view([2, 3]): numbers at the place of the last list of integers are one."""
    arguments = [a for a in op._schema.arguments if not a.kwarg_only]
    args = list(args)
    for i, argument in enumerate(arguments):
        is_list = "int[" in str(argument.type).lower()
        if is_list and i < len(args) and isinstance(args[i], (int, SymInt)) and not isinstance(args[i], bool):
            if len(args) > len(arguments) or i == len(arguments) - 1:
                return [*args[:i], list(args[i:])]
    return args if len(args) <= len(arguments) else None


# --- indices ---


def getitem(x, index):
    """x[index] where x is a fake tensor and sizes may be symbolic."""
    if not _is_symbolic(x, index):
        return _with_numbers(x, lambda: x[index])
    ops = tessera.ops.aten
    parts = list(index) if isinstance(index, tuple) else [index]
    if any(isinstance(p, bool) or (_is_mask(p) and p.dim() == 0) for p in parts):
        return _with_numbers(x, lambda: x[index])
    if any(isinstance(p, (list, Tensor)) for p in parts):
        return _advanced(x, parts)
    used = sum(p is not None and p is not Ellipsis for p in parts)
    if used > x.dim():
        raise IndexError(f"too many indices for tensor of dimension {x.dim()}")
    dim = 0
    for part in parts:
        if part is None:
            x, dim = ops.unsqueeze.default(x, dim), dim + 1
        elif part is Ellipsis:
            after = sum(p is not None and p is not Ellipsis for p in parts[parts.index(Ellipsis) + 1 :])
            dim = x.dim() - after
        elif isinstance(part, slice):
            if part != slice(None):
                x = ops.slice.Tensor(x, dim, part.start, part.stop, 1 if part.step is None else part.step)
            dim += 1
        else:
            x = ops.select.int(x, dim, part if isinstance(part, SymInt) else int(part))
    return ops.alias.default(x) if all(p is Ellipsis or p == slice(None) for p in parts) else x


def _is_symbolic(x, index):
    """Whether there are symbols in the sizes or in the index."""
    values = [x, *(v for p in leaves(index) for v in ((p.start, p.stop, p.step) if isinstance(p, slice) else (p,)))]
    return any(isinstance(v, SYMBOLIC) or (is_fake(v) and _C._symbolic_shape(v) is not None) for v in values)


def _with_numbers(x, action):
    """action() while the indices of x are read in C++, whose sizes are numbers from now on."""
    for size in x.shape:
        guarded(size)
    mode = _C._fake_mode_of(x)
    mode._symbolic = False
    try:
        return action()
    finally:
        mode._symbolic = True


def _is_mask(part):
    return isinstance(part, Tensor) and part.dtype is tessera.bool


def _advanced(x, parts):
    ops = tessera.ops.aten
    if parts.count(Ellipsis):
        taken = sum(p.dim() if _is_mask(p) else 1 for p in parts if p is not None and p is not Ellipsis)
        at = parts.index(Ellipsis)
        parts = [*parts[:at], *[slice(None)] * (x.dim() - taken), *parts[at + 1 :]]
    indices, dim = [], 0
    for part in parts:
        if isinstance(part, list):
            part = tessera.tensor(part, device=x.device)
        if isinstance(part, Tensor):
            indices += [None] * (dim - len(indices)) + [part]
            dim += part.dim() if _is_mask(part) else 1
        elif part is None:
            x, dim = ops.unsqueeze.default(x, dim), dim + 1
        elif isinstance(part, slice):
            if part != slice(None):
                x = ops.slice.Tensor(x, dim, part.start, part.stop, 1 if part.step is None else part.step)
            dim += 1
        else:
            x = ops.select.int(x, dim, part)
    return ops.index.Tensor(x, indices)


def setitem(x, index, value):
    """x[index] = value where x is a fake tensor and sizes may be symbolic."""
    parts = list(index) if isinstance(index, tuple) else [index]
    known = (Tensor, slice, int, SymInt, type(None), type(Ellipsis))
    mixed = any(isinstance(p, Tensor) for p in parts) and not all(isinstance(p, Tensor) for p in parts)
    if mixed or not _is_symbolic(x, index) or any(not isinstance(p, known) or isinstance(p, bool) for p in parts):
        _with_numbers(x, lambda: x.__setitem__(index, value))
        return
    if isinstance(parts[0], Tensor):
        indices = parts
        if not isinstance(value, Tensor):
            with _C._fake_mode_of(x):
                value = tessera.full((), value, dtype=x.dtype, device=x.device)
        tessera.ops.aten.index_put_.default(x, indices, value)
        return
    view = getitem(x, index)
    if isinstance(value, Tensor):
        view.copy_(value)
    else:
        view.fill_(value)


# --- what depends on values ---


def data_dependent(mode, func, args, kwargs):
    """An operator whose result depends on values: numbers and sizes that are not known are new symbols."""
    env = mode.shape_env
    name = func._schema.name.rpartition("::")[2]
    rule = _UNKNOWN.get(name)
    if rule is None:
        raise NotImplementedError(f"{func}: the size of its result depends on values, which has no rule for symbols")
    result = rule(mode, env, func, args, kwargs)
    if mode.values_found is not None:
        mode.values_found(func, args, kwargs, result)
    return result


def unknown_twin(mode, env, t):
    """A fake tensor of the dtype and device of a real one, of whose sizes nothing is known."""
    return _made(mode, env, [_unknown_size(env, int_oo) for _ in range(t.dim())], t.dtype, t.device)


def _unknown_number(mode, env, func, args, kwargs):
    (t,) = args
    memo = t.__dict__.get("_item")
    if memo is not None and memo[0] == t._version and memo[2] is env:
        return memo[1]
    if t.dtype is tessera.bool:
        value = env.create_unbacked_symbool()
    elif t.dtype.is_floating_point:
        value = env.create_unbacked_symfloat()
    else:
        value = env.create_unbacked_symint()
    t._item = (t._version, value, env)
    return value


def _unknown_size(env, upper):
    value = env.create_unbacked_symint()
    symbol = value.node._expr
    env.size_like.add(symbol)
    env.constrain_symbol_range(symbol, 0, upper)
    env._stand_ins[symbol] = min(env._stand_ins[symbol], upper)
    return symbol


def _made(mode, env, sizes, dtype, device, strides=None):
    """A fake tensor of these expressions as sizes."""
    sizes = [as_expr(s) for s in sizes]
    if strides is None:
        strides, total = [], constant(1)
        for s in reversed(sizes):
            strides.insert(0, total)
            total = total * s
    with BelowPython():
        like = tessera.empty_strided(
            [env._stand_in(s) for s in sizes], [env._stand_in(s) for s in strides], dtype=dtype, device="meta"
        )
    fake = _C._make_fake(mode, like, device, None)
    env._attach(fake, sizes, strides, constant(0))
    return fake


def _most(env, t):
    """An upper bound of the number of elements."""
    total = constant(1)
    for size in exprs_of(env, t)[0]:
        total = total * size
    return env.bound_sympy(total).upper


def _nonzero(mode, env, func, args, kwargs):
    t = args[0]
    return _made(mode, env, [_unknown_size(env, _most(env, t)), t.dim()], tessera.int64, t.device)


def _masked_select(mode, env, func, args, kwargs):
    t = args[0]
    return _made(
        mode, env, [_unknown_size(env, _most(env, tessera.broadcast_tensors(t, args[1])[0]))], t.dtype, t.device
    )


def _unique(mode, env, func, args, kwargs):
    t = args[0]
    count = _unknown_size(env, _most(env, t))
    names = [a.name for a in func._schema.arguments]
    asked = {name: args[i] if i < len(args) else kwargs.get(name) for i, name in enumerate(names)}
    dim = asked.get("dim")
    sizes = [count]
    if dim is not None:
        sizes = exprs_of(env, t)[0]
        at = dim % len(sizes)
        sizes = [*sizes[:at], count, *sizes[at + 1 :]]
    inverse = exprs_of(env, t)[0] if dim is None else [exprs_of(env, t)[0][dim]]
    empty = [constant(0)]
    return (
        _made(mode, env, sizes, t.dtype, t.device),
        _made(mode, env, inverse if asked.get("return_inverse") else empty, tessera.int64, t.device),
        _made(mode, env, [count] if asked.get("return_counts") else empty, tessera.int64, t.device),
    )[: len(func._schema.returns)]


def _masked_index(mode, env, func, args, kwargs):
    """x[mask]: a mask is the positions that it has."""
    x, indices = args[0], []
    for i in args[1]:
        if isinstance(i, Tensor) and i.dtype in (tessera.bool, tessera.uint8):
            positions = tessera.ops.aten.nonzero.default(i)
            indices += [tessera.ops.aten.select.int(positions, 1, k) for k in range(i.dim())]
        else:
            indices.append(i)
    return func(x, indices)


def indices_of_repeats(mode, repeats, *, output_size=None):
    """The indices of repeat_interleave where their number is given or the repeats are known; else None."""
    known = _C._fake_constant(repeats) if is_fake(repeats) else repeats
    if output_size is None and known is None:
        return None
    count = constant(int(known.sum())) if output_size is None else as_expr(output_size)
    return _made(mode, mode.shape_env or _no_symbols(), [count], repeats.dtype, repeats.device)


def interleaved(args, kwargs):
    """repeat_interleave by a tensor: an index of unknown size, unless that is given or the repeats are known."""
    ops = tessera.ops.aten
    size = kwargs.get("output_size")
    x, repeats, dim = (tuple(args) + (None,))[:3]
    dim = kwargs.get("dim") if dim is None else dim
    if repeats.dim() == 0 or repeats.numel() == 1:
        return ops.repeat_interleave.self_int(x, repeats.item(), dim, output_size=size)
    if dim is None:
        x, dim = x.reshape(-1), 0
    tessera._check(repeats.dim() == 1, lambda: "repeats must be 0-dim or 1-dim tensor")
    tessera._check(
        repeats.shape[0] == x.shape[dim],
        lambda: (
            "repeats must have the same size as input along dim, but got "
            f"repeats.size(0) = {repeats.shape[0]} and input.size({dim}) = {x.shape[dim]}"
        ),
    )
    return ops.index_select.default(x, dim, ops.repeat_interleave.Tensor(repeats, output_size=size))


def split_at(func, args, kwargs):
    """tensor_split where the indices are not known: slices from one to the next. None for other arguments."""
    given = dict(zip([a.name for a in func._schema.arguments], args)) | kwargs
    x, dim = given["self"], given.get("dim", 0)
    at = given.get("indices", given.get("tensor_indices_or_sections"))
    if isinstance(at, Tensor):
        if not is_fake(at) or _C._fake_constant(at) is not None or at.dim() != 1:
            return None
        at = at.tolist()
    if not isinstance(at, (tuple, list)) or not any(is_unbacked(s) for i in at for s in _expr(None, i).free_symbols):
        return None
    bounds = [None, *at, None]
    return tuple(tessera.ops.aten.slice.Tensor(x, dim, a, b) for a, b in zip(bounds, bounds[1:]))


@functools.cache
def _no_symbols():
    from tessera.fx.experimental.symbolic_shapes import ShapeEnv

    return ShapeEnv()


def _repeats(mode, env, func, args, kwargs):
    return _made(mode, env, [_unknown_size(env, int_oo)], args[0].dtype, args[0].device)


def _bincount(mode, env, func, args, kwargs):
    t = args[0]
    weights = args[1] if len(args) > 1 else kwargs.get("weights")
    dtype = tessera.int64 if weights is None else weights.dtype if weights.dtype is tessera.float32 else tessera.float64
    return _made(mode, env, [_unknown_size(env, int_oo)], dtype, t.device)


_UNKNOWN = {
    "_local_scalar_dense": _unknown_number,
    "equal": lambda mode, env, func, args, kwargs: env.create_unbacked_symbool(),
    "nonzero": _nonzero,
    "masked_select": _masked_select,
    "index": _masked_index,
    "_unsafe_index": _masked_index,
    "repeat_interleave": _repeats,
    "bincount": _bincount,
    **dict.fromkeys(("_unique", "_unique2", "unique_dim", "unique_consecutive", "unique_dim_consecutive"), _unique),
}
