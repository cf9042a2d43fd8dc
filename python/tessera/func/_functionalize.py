"""functionalize: a function that changes nothing of what it is given."""

import functools

import tessera
from tessera.utils import _pytree


def functionalize(func, *, remove="mutations"):
    """A function with the results of `func` that leaves its arguments as they are.

    Args:
        remove: "mutations" or "mutations_and_views".

    What `func` writes in place goes to copies; its results share no memory with the arguments.

    Raises: RuntimeError for another value of `remove`.
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are: "
            "remove='mutations', remove='mutations_and_views'"
        )

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        copies = {}

        def copy(tensor):
            if id(tensor) not in copies:
                copies[id(tensor)] = tensor.clone()
            return copies[id(tensor)]

        args, kwargs = _pytree.tree_map_only(tessera.Tensor, copy, (args, kwargs))
        return func(*args, **kwargs)

    return wrapped
