"""Handles of registered hooks."""

import weakref
from collections import OrderedDict

__all__ = ["RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]


class RemovableHandle:
    """Removes a hook: `handle.remove()`, or at the end of a `with handle:` block. Safe to call twice."""

    next_id = 0

    def __init__(self, hooks_dict, *, extra_dict=None):
        others = [extra_dict] if isinstance(extra_dict, dict) else extra_dict or []
        self._refer_to(hooks_dict, *others)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1

    def _refer_to(self, *dicts):
        # a dict that is gone is a new one, which nobody keeps: there is nothing to remove
        refs = tuple(weakref.ref(OrderedDict() if d is None else d) for d in dicts)
        self.hooks_dict_ref, self.extra_dict_ref = refs[0], refs[1:]

    def _dicts(self):
        return [ref() for ref in (self.hooks_dict_ref, *self.extra_dict_ref)]

    def remove(self):
        for hooks in self._dicts():
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self):
        first, *others = self._dicts()
        return first, self.id, *others

    def __setstate__(self, state):
        first, self.id, *others = state
        self._refer_to(first, *others)
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self):
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        self.remove()


def unserializable_hook(f):
    """Marks `f` as a hook that is dropped, with a warning, when its tensor is pickled."""
    f.__torch_unserializable__ = True
    return f


def warn_if_has_hooks(tensor):
    """Warns about backward hooks of `tensor` that pickling will drop."""
    hooks = getattr(tensor, "_backward_hooks", None)
    if not hooks:
        return
    import warnings

    for hook in hooks.values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized.  If this is expected, you can decorate the "
                "function with @torch.utils.hooks.unserializable_hook to suppress this warning",
                stacklevel=3,
            )


def __getattr__(name):
    if name == "BackwardHook":
        from tessera.nn.modules._backward_hooks import BackwardHook

        return BackwardHook
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
