"""functionalize: in-place writes and views become operators that give new tensors."""

import functools

import tessera
from tessera import _C
from tessera.func._wrappers import sizes_known
from tessera.utils import _pytree

_levels = _C._func


def functionalize(func, *, remove="mutations"):
    """A function with the results of `func` that calls no operator which writes to a tensor that `func` made.

    Args:
        remove: "mutations": of each in-place operator the form that gives its result is called, and tensors that share
            memory with what was written are made anew from it. "mutations_and_views": of views the copying operators,
            too (`view_copy` for `view`).

    What `func` writes to its arguments is written to them by one `copy_` each, after `func` has returned; if it raises,
    they are as before. In-place operators without another form (random ones, out=) work on copies.

    Raises: RuntimeError for another value of `remove`; if `func` writes what it made of its arguments to a tensor from
        elsewhere, changes the shape of an argument in place, or writes to an argument that shares its memory with
        another one.
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are: "
            "remove='mutations', remove='mutations_and_views'"
        )

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        sizes_known(func, (args, kwargs))
        leaves, spec = _pytree.tree_flatten((args, kwargs))
        given = [leaf for leaf in leaves if isinstance(leaf, tessera.Tensor)]
        level = _levels._push_functional(remove == "mutations_and_views")
        try:
            seen = _levels._functional_arguments(given, level)
            fresh = iter(seen)
            inside = [next(fresh) if isinstance(leaf, tessera.Tensor) else leaf for leaf in leaves]
            positional, keywords = _pytree.tree_unflatten(inside, spec)
            result = _pytree.tree_map_only(
                tessera.Tensor, lambda t: _levels._functional_value(t, level), func(*positional, **keywords)
            )
        finally:
            _levels._pop(level)
        _levels._write_back(given, seen)
        return result

    return wrapped
