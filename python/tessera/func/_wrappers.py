"""Tensors of transforms seen from outside."""

import importlib

import tessera
from tessera import _C
from tessera.utils import _pytree

_levels = _C._func


def debug_unwrap(tensor, *, recurse=True):
    """What a tensor inside of a transform holds, for looking at it in a debugger; other tensors as they are.

    Args:
        recurse: through all transforms; else through the innermost one.

    Computing with the result breaks the transform's rules.
    """
    if not isinstance(tensor, tessera.Tensor):
        raise TypeError(f"debug_unwrap() expects a Tensor, got {type(tensor).__name__}")
    while _levels._wrapper(tensor) is not None:
        tensor = _levels._value(tensor)
        if not recurse:
            break
    return tensor


def sizes_known(function, args):
    """Where sizes are symbols: those of a transform's arguments become numbers."""
    if _C._len_torch_dispatch_stack():
        importlib.import_module("tessera._subclasses._symbolic_vmap").sizes_known(function, args)


def outside(tree, level):
    """The tree with the values that its tensors have outside of a level."""
    if isinstance(tree, tessera.Tensor):
        return _levels._outside(tree, level)
    return _pytree.tree_map_only(tessera.Tensor, lambda t: _levels._outside(t, level), tree)


def tracked(tree, level):
    """The tree with its tensors as constants of a level."""
    return _pytree.tree_map_only(tessera.Tensor, lambda t: _levels._track(t, level), tree)


def require_tensors(leaves, what, error=RuntimeError):
    for leaf in leaves:
        if not isinstance(leaf, tessera.Tensor):
            raise error(f"{what}, got unsupported type {type(leaf)}")


def split_aux(result, function):
    """(output, aux) of a function with has_aux=True. Raises: RuntimeError."""
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(
            f"{function}: output of function f should be a tuple: (output, aux) if has_aux is True, got {type(result)}"
        )
    return result


def chosen(args, argnums, function):
    """The positions that argnums means, counted from the front, as a tuple. Raises: RuntimeError."""
    if not isinstance(argnums, (int, tuple)) or isinstance(argnums, bool):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    many = (argnums,) if isinstance(argnums, int) else argnums
    if not many:
        raise RuntimeError("argnums must be non-empty")
    found = []
    for argnum in many:
        if not isinstance(argnum, int):
            raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: an entry of type {type(argnum)}")
        if not -len(args) <= argnum < len(args):
            raise RuntimeError(f"{function}: Got argnum={argnum}, but only {len(args)} positional inputs were given.")
        if argnum % len(args) in found:
            raise RuntimeError(f"{function}: argnums elements must be unique, got {argnums}")
        found.append(argnum % len(args))
    return tuple(found)
