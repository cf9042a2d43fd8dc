"""Products with a Jacobian from the right: jvp, linearize.

A pullback is a linear function of its cotangents, so its own pullback is the pushforward: the derivative along a
tangent, made of the rules for reverse mode alone.
"""

import tessera
from tessera.func._grad import vjp_at
from tessera.func._wrappers import require_tensors
from tessera.utils import _pytree


def pushforward_at(func, args, positions, has_aux):
    """(outputs, function from a tuple of tangents for the arguments at `positions` to those of the outputs, aux)."""
    result, pull, aux = vjp_at(func, args, has_aux, positions)
    outputs, out_spec = _pytree.tree_flatten(result)
    zeros = tuple(tessera.zeros_like(o) for o in outputs)

    def pulled(*cotangents):
        return pull(_pytree.tree_unflatten(cotangents, out_spec), create_graph=True)

    _, push, _ = vjp_at(pulled, zeros, False)

    def pushforward(tangents):
        return _pytree.tree_unflatten(push(tangents), out_spec)

    return result, pushforward, aux


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


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """(func(*primals), the derivative of func at primals along tangents), and aux last with has_aux=True.

    Args:
        func: takes trees of tensors and returns one; with has_aux, the pair of it and anything else.
        primals: tuple of arguments.
        tangents: tuple of the same structure and shapes.
        strict: only False: outputs that do not depend on the inputs have tangents of zeros.

    Raises: RuntimeError if primals or tangents are no tuples or don't fit each other, NotImplementedError for
        strict=True.
    """
    if strict:
        raise NotImplementedError(
            "jvp(strict=True) is not supported: which outputs depend on the inputs is not told. Use strict=False."
        )
    if not isinstance(primals, tuple):
        raise RuntimeError(
            f"jvp(f, primals, tangents): Expected primals to be a tuple. E.g. it should be valid to call f(*primals). "
            f"Got {type(primals)}"
        )
    if not isinstance(tangents, tuple):
        raise RuntimeError(f"jvp(f, primals, tangents): Expected tangents to be a tuple, got {type(tangents)}")
    _check_tangents(primals, tangents)
    result, push, aux = pushforward_at(func, primals, tuple(range(len(primals))), has_aux)
    derivative = push(tangents)
    return (result, derivative, aux) if has_aux else (result, derivative)


def linearize(func, *primals):
    """(func(*primals), function from tangents of the primals to those of the outputs), for many tangents at one point.

    The second function takes as many arguments as there are primals, with their structure and shapes.

    Raises: RuntimeError as `jvp`.
    """
    result, push, _ = pushforward_at(func, primals, tuple(range(len(primals))), False)

    def linear(*tangents):
        _check_tangents(primals, tangents)
        return push(tangents)

    return result, linear
