"""Small parts of Module."""

from collections import namedtuple

import tessera
from tessera import Tensor
from tessera.utils.hooks import RemovableHandle

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    __slots__ = ()

    def __repr__(self):
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class _WrappedHook:
    """A load_state_dict pre-hook that gets the module as its first argument, by weak reference."""

    __module__ = __name__.rpartition(".")[0] + ".module"  # where pickles look for it

    def __init__(self, hook, module=None):
        import weakref

        self.hook = hook
        self.module = None if module is None else weakref.ref(module)
        self.with_module = module is not None

    def __call__(self, *args, **kwargs):
        if not self.with_module:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self):
        state = {"hook": self.hook, "with_module": self.with_module}
        if self.with_module:
            state["module"] = self.module()
        return state

    def __setstate__(self, state):
        module = state.get("module")
        if module is None and state["with_module"]:
            raise RuntimeError("You are trying to revive the hook of a dead Module!")
        self.__init__(state["hook"], module)


def _shares_type(a, b):
    """Whether `a.data = b` is possible."""
    return a.layout == b.layout and a.is_meta == b.is_meta


def _parse_to(args, kwargs):
    """(device, dtype, non_blocking, memory_format) of the arguments of to(). TypeError for anything else."""
    unknown = kwargs.keys() - {"device", "dtype", "tensor", "other", "non_blocking", "copy", "memory_format"}
    if unknown:
        raise TypeError(f"to() received an invalid keyword argument '{min(unknown)}'")
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    like = kwargs.get("tensor", kwargs.get("other"))
    rest = list(args)
    if rest:
        first = rest.pop(0)
        if isinstance(first, Tensor):
            like = first
        elif isinstance(first, tessera.dtype):
            dtype = first
        elif first is None or isinstance(first, (tessera.device, str, int)) and not isinstance(first, bool):
            device = first
            if rest and (rest[0] is None or isinstance(rest[0], tessera.dtype)):
                dtype = rest.pop(0)
        else:
            raise TypeError(f"to() received an invalid combination of arguments - got ({type(first).__name__})")
    if like is not None:
        device, dtype = like.device, like.dtype
    if len(rest) > 2 or not all(isinstance(v, bool) for v in rest):
        raise TypeError("to() received an invalid combination of arguments")
    non_blocking = rest[0] if rest else kwargs.get("non_blocking", False)
    return None if device is None else tessera.device(device), dtype, non_blocking, kwargs.get("memory_format")


def _clear_grad(p, set_to_none):
    if p.grad is None:
        return
    if set_to_none:
        p.grad = None
        return
    if p.grad.grad_fn is not None:
        p.grad.detach_()
    else:
        p.grad.requires_grad_(False)
    p.grad.zero_()


def _register(hooks, hook, prepend=False, extra=()):
    """Puts `hook` into the ordered dictionary `hooks` and its id into each flag dictionary of `extra`. Returns the
    handle.
    """
    handle = RemovableHandle(hooks, extra_dict=list(extra) or None)
    hooks[handle.id] = hook
    for d in extra:
        d[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle
