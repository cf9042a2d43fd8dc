"""Reverse mode: grad, grad_and_value, vjp."""

import functools

import tessera
from tessera import _C
from tessera.func._wrappers import chosen, outside, require_tensors, sizes_known, split_aux, tracked
from tessera.utils import _pytree

_levels = _C._func


def _watch(args, positions, level):
    """The arguments inside of the level: (args, watched leaves, structure of the watched ones)."""
    inside = [None if i in positions else tracked(arg, level) for i, arg in enumerate(args)]
    leaves, spec = _pytree.tree_flatten(tuple(args[i] for i in positions))
    what = "grad and vjp differentiate with respect to Tensors: expected all elements of the inputs"
    require_tensors(leaves, what, ValueError)
    watched = [_levels._watch(leaf, level) for leaf in leaves]
    for i, arg in zip(positions, _pytree.tree_unflatten(watched, spec)):
        inside[i] = arg
    return inside, watched, spec


def _check_scalar(output):
    if not isinstance(output, tessera.Tensor):
        raise RuntimeError(f"Expected f(*args) to return a scalar tensor, got {type(output)}")
    if output.dim() != 0:
        raise RuntimeError(
            f"grad_and_value(f)(*args): Expected f(*args) to return a scalar tensor, got tensor with {output.dim()} "
            "dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
        )
    if not output.is_floating_point():
        raise RuntimeError(
            f"grad_and_value(f)(*args): Expected f(*args) to return a real number of a floating-point dtype, got "
            f"{output.dtype}"
        )


def _grad_and_value(func, argnums, has_aux, args, kwargs):
    positions = chosen(args, argnums, "grad_and_value")
    sizes_known(func, (args, kwargs))
    level = _levels._push_grad()
    try:
        inside, watched, spec = _watch(args, positions, level)
        output = func(*inside, **tracked(kwargs, level)) if kwargs else func(*inside)
        aux = None
        if has_aux:
            output, aux = split_aux(output, "grad_and_value")
        _check_scalar(output)
        history = _levels._settle((output,), level)
    finally:
        _levels._pop(level)
    found = _levels._pull_back((output,), None, watched, False, history)
    gradients = _pytree.tree_unflatten(found, spec)
    if isinstance(argnums, int):
        gradients = gradients[0]
    value = _levels._outside(output, level)
    return gradients, value, outside(aux, level) if has_aux else None


def grad_and_value(func, argnums=0, has_aux=False):
    """A function that gives (gradient, value) of `func`, or (gradient, (value, aux)); see `grad`."""

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        gradients, value, aux = _grad_and_value(func, argnums, has_aux, args, kwargs)
        return (gradients, (value, aux)) if has_aux else (gradients, value)

    return wrapper


def grad(func, argnums=0, has_aux=False):
    """A function that computes the gradient of `func`.

    Args:
        func: returns a 0-dim tensor of a floating dtype; with has_aux, the pair of it and anything else.
        argnums: which arguments to differentiate with respect to, an int or a tuple of them: trees of tensors.
        has_aux: the result is (gradient, aux).

    The gradient has the structure of the argument, or is a tuple of them if argnums is one. `no_grad` inside of `func`
    is respected, outside it is not. Nested calls give higher derivatives.

    Raises: RuntimeError if the result is not a scalar, for argnums that there are no arguments for; ValueError for
        arguments that are no tensors.
    """

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        gradients, _, aux = _grad_and_value(func, argnums, has_aux, args, kwargs)
        return (gradients, aux) if has_aux else gradients

    return wrapper


class Pullback:
    """From cotangents of a function's outputs to those of its inputs; may be called any number of times."""

    def __init__(self, outputs, out_spec, watched, in_spec, history):
        self._outputs, self._out_spec = outputs, out_spec
        self._watched, self._in_spec = watched, in_spec
        self._history = history

    def __call__(self, cotangents, retain_graph=True, create_graph=None):
        if isinstance(cotangents, tessera.Tensor) and self._out_spec.is_leaf():
            flat = (cotangents,)
        else:
            flat, spec = _pytree.tree_flatten(cotangents)
            if spec != self._out_spec:
                raise RuntimeError(
                    f"Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
                    f"function. cotangents: {spec}, primal output: {self._out_spec}"
                )
            require_tensors(flat, "vjp_fn(cotangents): expected all elements of cotangents to be Tensors")
        for i, (output, cotangent) in enumerate(zip(self._outputs, flat)):
            if output.shape != cotangent.shape:
                raise RuntimeError(
                    f"Mismatch in shape: grad_output[{i}] has a shape of {cotangent.shape} and output[{i}] has a shape "
                    f"of {output.shape}."
                )
        found = _levels._pull_back(
            self._outputs, tuple(flat), self._watched, retain_graph, self._history or bool(create_graph)
        )
        return _pytree.tree_unflatten(found, self._in_spec)


def vjp_at(func, primals, has_aux, positions=None):
    """(outputs, pullback, aux): `vjp` with respect to the arguments at some positions."""
    if not primals:
        raise RuntimeError("vjp(f, *primals): expected at least one primal")
    positions = tuple(range(len(primals))) if positions is None else positions
    sizes_known(func, primals)
    level = _levels._push_grad()
    try:
        inside, watched, in_spec = _watch(primals, positions, level)
        result, aux = func(*inside), None
        if has_aux:
            result, aux = split_aux(result, "vjp(f, *primals)")
            aux = outside(aux, level)
        outputs, out_spec = _pytree.tree_flatten(result)
        require_tensors(outputs, "vjp(f, *primals): Expected f(*primals) to return only tensors")
        if not outputs:
            raise RuntimeError("vjp(f, *primals): Expected f(*primals) to return at least one tensor")
        history = _levels._settle(outputs, level)
    finally:
        _levels._pop(level)
    return outside(result, level), Pullback(tuple(outputs), out_spec, watched, in_spec, history), aux


def vjp(func, *primals, has_aux=False):
    """(func(*primals), function from cotangents of the outputs to a tuple of those of the primals), and aux last with
    has_aux=True.

    Args:
        func: takes trees of tensors and returns one; with has_aux, the pair of it and anything else.
        primals: where to evaluate it; all of them are differentiated with respect to.

    The second function takes a tree like the outputs and may be called again, also inside of `vmap`.

    Raises: ValueError for inputs that are no tensors, RuntimeError for such outputs, and for cotangents of another
        structure or shape.
    """
    result, pull, aux = vjp_at(func, primals, has_aux)
    return (result, pull, aux) if has_aux else (result, pull)
