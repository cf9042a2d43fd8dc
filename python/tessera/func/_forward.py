"""Products with a Jacobian from the right: jvp, linearize. A level of forward mode; its tensors carry tangents."""

import tessera
from tessera import _C
from tessera.func._wrappers import outside, require_tensors, sizes_known, split_aux, tracked
from tessera.utils import _pytree

_levels = _C._func


def jvp_at(func, args, positions, tangents, has_aux=False, strict=False):
    """(outputs, their tangents, aux): `jvp` with respect to the arguments at some positions.

    Args:
        positions: which of args.
        tangents: a flat list, one for each tensor in the arguments at those positions.
    """
    sizes_known(func, args)
    leaves, spec = _pytree.tree_flatten(tuple(args[i] for i in positions))
    level = _levels._push_jvp()
    try:
        inside = [None if i in positions else tracked(arg, level) for i, arg in enumerate(args)]
        duals = [_levels._dual(leaf, tangent, level) for leaf, tangent in zip(leaves, tangents, strict=True)]
        for i, arg in zip(positions, _pytree.tree_unflatten(duals, spec)):
            inside[i] = arg
        result, aux = func(*inside), None
        if has_aux:
            result, aux = split_aux(result, "jvp")
            aux = outside(aux, level)
        outputs, out_spec = _pytree.tree_flatten(result)
        require_tensors(outputs, "jvp(f, primals, tangents): expected f(*args) to return only tensors")
        parts = [_levels._split_dual(output, level) for output in outputs]
    finally:
        _levels._pop(level)
    if strict and any(tangent is None for _, tangent in parts):
        raise RuntimeError(
            "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not allowed "
            "with strict=True."
        )
    derivatives = [tessera.zeros_like(value) if tangent is None else tangent for value, tangent in parts]
    values = _pytree.tree_unflatten([value for value, _ in parts], out_spec)
    return values, _pytree.tree_unflatten(derivatives, out_spec), aux


def _check_tangents(primals, tangents):
    flat_primals, primal_spec = _pytree.tree_flatten(primals)
    flat_tangents, tangent_spec = _pytree.tree_flatten(tangents)
    if primal_spec != tangent_spec:
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals and tangents to have the same python structure. For example, "
            f"if primals is a tuple of 3 tensors, tangents also must be. Got primals with structure {primal_spec} and "
            f"tangents with structure {tangent_spec}"
        )
    require_tensors(flat_primals, "jvp(f, primals, tangents): Expected all elements of primals to be Tensors")
    require_tensors(flat_tangents, "jvp(f, primals, tangents): Expected all elements of tangents to be Tensors")
    for primal, tangent in zip(flat_primals, flat_tangents):
        if primal.shape != tangent.shape:
            raise RuntimeError(
                f"jvp(f, primals, tangents): a tangent has the shape {tuple(tangent.shape)} and its primal "
                f"{tuple(primal.shape)}; they must be the same."
            )
    return flat_tangents


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """(func(*primals), the derivative of func at primals along tangents), and aux last with has_aux=True.

    Args:
        func: takes trees of tensors and returns one; with has_aux, the pair of it and anything else.
        primals: tuple of arguments.
        tangents: tuple of the same structure and shapes.
        strict: raise if an output does not depend on the inputs; else its tangent is zeros.

    In-place writes of `func` to its arguments reach the primals, not the tangents. Operators that have no derivative
    are constant; those without a rule for forward mode are differentiated twice in reverse.

    Raises: RuntimeError if primals or tangents are no tuples or don't fit each other, for outputs that are no tensors,
        and with strict=True for outputs without a tangent. ValueError for primals that are not floating or complex.
    """
    if isinstance(primals, tuple) and not primals:
        raise RuntimeError("jvp(f, primals, tangents): Expected primals to contain at least one Tensor.")
    if not isinstance(primals, tuple):
        raise RuntimeError(
            f"jvp(f, primals, tangents): Expected primals to be a tuple. E.g. it should be valid to call f(*primals). "
            f"Got {type(primals)}"
        )
    if not isinstance(tangents, tuple):
        raise RuntimeError(f"jvp(f, primals, tangents): Expected tangents to be a tuple, got {type(tangents)}")
    flat = _check_tangents(primals, tangents)
    result, derivative, aux = jvp_at(func, primals, range(len(primals)), flat, has_aux, strict)
    return (result, derivative, aux) if has_aux else (result, derivative)


def linearize(func, *primals):
    """(func(*primals), function from tangents of the primals to those of the outputs), for many tangents at one point.

    The second function takes as many arguments as there are primals, with their structure and shapes. `func` runs once:
    the operators of its derivative are kept with what they need, and are run again on each call. If `func` writes in
    place to something that its derivative needs, it runs again instead.

    Raises: RuntimeError as `jvp`; the second function also if the primals, or what `func` captured, were written to.
    """
    sizes_known(func, primals)
    leaves = _pytree.tree_leaves(primals)
    require_tensors(leaves, "linearize(f, *primals): Expected all elements of primals to be Tensors")
    level = _levels._push_tape()
    try:
        tangents = [_levels._on_tape(tessera.zeros_like(leaf), level) for leaf in leaves]
        result, derivative, _ = jvp_at(func, primals, range(len(primals)), tangents)
        outputs, out_spec = _pytree.tree_flatten(derivative)
        replay = _levels._take_tape(outputs, level)
        outputs = [_levels._outside(output, level) for output in outputs]
    finally:
        _levels._pop(level)
    if _levels._is_stale(replay):
        return result, _rerun(func, primals, leaves)

    def linear(*tangents):
        found = _levels._replay(replay, _check_tangents(primals, tangents))
        return _pytree.tree_unflatten([o if t is None else t for t, o in zip(found, outputs)], out_spec)

    return result, linear


def _rerun(func, primals, leaves):
    versions = [leaf._version for leaf in leaves]

    def linear(*tangents):
        flat = _check_tangents(primals, tangents)
        if versions != [leaf._version for leaf in leaves]:
            raise RuntimeError(
                "linearize: the primals have been modified by an inplace operation since. Linearize again, or leave "
                "them as they were."
            )
        return jvp_at(func, primals, range(len(primals)), flat)[1]

    return linear
