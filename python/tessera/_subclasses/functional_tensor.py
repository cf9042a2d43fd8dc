"""Functional tensors: views and writes in place become operators that make new tensors, below autograd.

A tensor of `_to_functional_tensor` holds another one. Operators on it, after autograd, run as operators that write to
nothing; a write makes a new value of the memory that its views share, from which they are made anew. Layers below
(modes of `__torch_dispatch__` such as make_fx) see those operators on what is held.
"""

import contextlib

import tessera
from tessera import _C
from tessera.utils import _pytree as pytree

__all__ = [
    "FunctionalTensor", "FunctionalTensorMode", "disable_functional_mode", "functionalized",
    "maybe_disable_functional_mode", "mb_unwrap_functional_tensor",
]  # fmt: skip

_functional = _C._func
_is_functional_tensor = _functional._is_functional_tensor
_from_functional_tensor = _functional._from_functional_tensor


def _to_functional_tensor(t, *, mirror_autograd_meta=False):
    """A functional tensor that holds t. `mirror_autograd_meta`: it requires grad if t does; else it does not.

    Raises: RuntimeError if t is functional.
    """
    made = _functional._to_functional_tensor(t)
    return made.requires_grad_(mirror_autograd_meta and t.requires_grad)


def _sync(t):
    """A functional tensor takes over what was written to its memory. Raises: RuntimeError for others."""
    _from_functional_tensor(t)


def _functionalize_has_data_mutation(t):
    """True if the memory of a functional tensor was written to."""
    return _functional._functional_state(t)[0] > 0


def _functionalize_has_metadata_mutation(t):
    """True if a functional tensor is a view of the one that `_to_functional_tensor` made, or became one in place."""
    return _functional._functional_state(t)[1] > 0


def _functionalize_replace(t, value):
    """Writes a tensor to a functional one."""
    _functional._replace_functional(t, value)


def _functionalize_commit_update(t):
    """Nothing is left to do after `_functionalize_replace`; here for programs that say so."""
    _sync(t)


_enabled = []  # whether functional mode was on before, and with which views; innermost last


def _enable_functionalization(*, reapply_views=False):
    """From now on operators without tensors make functional ones on this thread.

    `reapply_views`: views stay views; else they become operators that copy (`view_copy`).
    """
    _enabled.append((_functional._include_functional(True, not reapply_views), not reapply_views))


def _disable_functionalization():
    """Ends what the last `_enable_functionalization` began. Raises: RuntimeError without one."""
    if not _enabled:
        raise RuntimeError("_disable_functionalization(): functionalization is not enabled")
    was, _ = _enabled.pop()
    _functional._include_functional(was, _enabled[-1][1] if _enabled else False)


class _Meta(type):
    def __instancecheck__(cls, instance):
        return _is_functional_tensor(instance)


class FunctionalTensor(tessera.Tensor, metaclass=_Meta):
    """What functional tensors are instances of. `FunctionalTensor(t)` holds t.

    Raises: TypeError if t is no tensor, RuntimeError if it is functional.
    """

    __torch_function__ = _C._disabled_torch_function_impl

    def __new__(cls, elem, mode=None):
        if not isinstance(elem, _C.TensorBase):
            raise TypeError(f"FunctionalTensor(): expected a tensor, got {type(elem).__name__}")
        return _to_functional_tensor(elem, mirror_autograd_meta=True)

    @staticmethod
    def to_functional(x):
        """A functional tensor that holds x, or x if it is one."""
        return x if _is_functional_tensor(x) else _to_functional_tensor(x, mirror_autograd_meta=True)

    @staticmethod
    def from_functional(x):
        """What a functional tensor holds now. Raises: RuntimeError for others."""
        return _from_functional_tensor(x)


class FunctionalTensorMode:
    """Context manager: tensors that operators make of none (`zeros`) are functional.

    Args:
        pre_dispatch, export: accepted for programs that say what they trace for; what is traced is the same.
        _allow_token_discovery: False. Raises: NotImplementedError for True.
    """

    def __init__(self, pre_dispatch=False, export=False, _allow_token_discovery=False):
        if _allow_token_discovery:
            raise NotImplementedError(
                "FunctionalTensorMode: there are no tokens of effects; leave _allow_token_discovery out"
            )

    def __enter__(self):
        _enable_functionalization(reapply_views=True)
        return self

    def __exit__(self, *error):
        _disable_functionalization()


@contextlib.contextmanager
def disable_functional_mode():
    """Context manager: tensors that operators make of none are ordinary ones again."""
    was = _functional._include_functional(False, False)
    try:
        yield
    finally:
        _functional._include_functional(was, _enabled[-1][1] if _enabled else False)


maybe_disable_functional_mode = disable_functional_mode


def mb_unwrap_functional_tensor(tensor):
    """What a functional tensor holds; others as they are."""
    return _from_functional_tensor(tensor) if _is_functional_tensor(tensor) else tensor


def _outside(tree):
    return pytree.tree_map_only(_C.TensorBase, mb_unwrap_functional_tensor, tree)


def functionalized(function, *, write_back=True):
    """A function with the results of `function` that calls no operator which writes to a tensor.

    Unlike `func.functionalize` it works below autograd: gradients may be taken inside of the function.

    Args:
        write_back: what the function writes to its arguments is copied to them when it has returned. Otherwise the new
            function returns (result, {index among the arguments' leaves: the tensor to write there}).

    Raises: RuntimeError, before anything is written, if the function changes the shape of an argument in place.
    """

    def run(*args, **kwargs):
        given, spec = pytree.tree_flatten((args, kwargs))
        known = {}  # id of a tensor that is given -> what stands for it: one that is given twice is one inside
        inside = [
            known.setdefault(id(x), FunctionalTensor.to_functional(x)) if isinstance(x, _C.TensorBase) else x
            for x in given
        ]
        args, kwargs = pytree.tree_unflatten(inside, spec)
        with FunctionalTensorMode():
            result = _outside(function(*args, **kwargs))
        written = _written(given, inside)
        if not write_back:
            return result, written
        for i, value in written.items():
            given[i].copy_(value)
        return result

    return run


def _written(given, inside):
    written, seen = {}, set()
    for i, (x, seen_as) in enumerate(zip(given, inside)):
        if not isinstance(x, _C.TensorBase) or id(seen_as) in seen or not _functionalize_has_data_mutation(seen_as):
            continue
        seen.add(id(seen_as))
        value = _from_functional_tensor(seen_as)
        if value.shape != x.shape:
            raise RuntimeError(
                f"functionalization: the function changes the shape of an argument in place, from {tuple(x.shape)} to "
                f"{tuple(value.shape)}, which is not supported: return the new tensor instead"
            )
        written[i] = value
    return written
