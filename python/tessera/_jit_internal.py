"""Names of the compiler's marks where other packages look for them."""

import weakref
from typing import Any, Dict, Final, List, Optional, Tuple, Union  # noqa: F401

from tessera.futures import Future  # noqa: F401
from tessera.jit._marks import (  # noqa: F401
    FunctionModifiers,
    _overload,
    _overload_method,
    export,
    ignore,
    is_scripting,
    unused,
)
from tessera.jit.annotations import (  # noqa: F401
    BroadcastingList1,
    BroadcastingList2,
    BroadcastingList3,
    is_dict,
    is_list,
    is_optional,
    is_tuple,
    is_union,
)

boolean_dispatched: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def _copy_to_script_wrapper(fn):
    """Marks a method that is not compiled but stays with the compiled module as Python. Returns it."""
    fn._torchscript_modifier = FunctionModifiers.COPY_TO_SCRIPT_WRAPPER
    return fn


def get_torchscript_modifier(fn):
    """The mark of a function or method: one of FunctionModifiers."""
    fn = getattr(fn, "__func__", fn)
    return getattr(fn, "_torchscript_modifier", FunctionModifiers.DEFAULT)


def is_ignored_fn(fn):
    """Whether a function is marked as ignored or unused."""
    return get_torchscript_modifier(fn) in (FunctionModifiers.UNUSED, FunctionModifiers.IGNORE)


def is_final(ann):
    """Whether an annotation is Final or Final[T]."""
    return getattr(ann, "__origin__", ann) is Final


def boolean_dispatch(arg_name, arg_index, default, if_true, if_false, module_name, func_name):
    """A function that calls one of two by an argument that is a bool.

    Args:
        arg_name, arg_index: of that argument. default: its value where it is not given.
    """

    def fn(*args, **kwargs):
        chosen = default
        if arg_name in kwargs:
            chosen = kwargs[arg_name]
        elif arg_index < len(args):
            chosen = args[arg_index]
        return (if_true if chosen else if_false)(*args, **kwargs)

    fn.__doc__ = if_true.__doc__ or if_false.__doc__
    fn.__module__ = module_name or fn.__module__
    fn.__name__ = func_name or fn.__name__
    boolean_dispatched[fn] = {
        "if_true": if_true,
        "if_false": if_false,
        "index": arg_index,
        "default": default,
        "arg_name": arg_name,
    }
    return fn
