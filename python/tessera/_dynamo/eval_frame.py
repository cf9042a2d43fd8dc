"""What torch.compile makes of modules, and the names of _running.

Programs ask `isinstance(model, torch._dynamo.eval_frame.OptimizedModule)` that never compile anything: the capture is
loaded when there is something to compile.
"""

import importlib

import tessera

# ruff: noqa: F822 - __getattr__ gives the others

__all__ = ["OptimizedModule", "disable", "innermost_fn", "is_dynamo_supported", "is_inductor_supported", "optimize",
           "optimize_assert", "reset"]  # fmt: skip


def __getattr__(name):
    if not name.startswith("__"):  # as `from` asks for a __path__
        running = importlib.import_module("tessera._dynamo._running")
        if hasattr(running, name):
            return getattr(running, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def is_dynamo_supported():
    """Whether this interpreter's functions can be captured."""
    import sys

    return (3, 10) <= sys.version_info[:2] < (3, 14)


def is_inductor_supported():
    """Whether the default backend works here."""
    return is_dynamo_supported()


def innermost_fn(fn):
    """The function that a compiled or disabled one stands for."""
    while hasattr(fn, "_torchdynamo_orig_callable"):
        fn = fn._torchdynamo_orig_callable
    return fn


class OptimizedModule(tessera.nn.Module):
    """A module whose calls are captured. Parameters, attributes and methods are those of `_orig_mod`; names in state
    dicts begin with "_orig_mod.".

    Args:
        mod: Module. dynamo_ctx: the settings, which made it.
    """

    _is_optimized_module = True
    _opt_mod_attributes = frozenset({"_orig_mod", "dynamo_ctx", "_forward"})

    def __init__(self, mod, dynamo_ctx):
        super().__init__()
        self._orig_mod = mod
        self.dynamo_ctx = dynamo_ctx
        self._make_forward()
        self.__dict__.pop("training", None)

    def _make_forward(self):
        mod = self._orig_mod
        from ._calls import called_as_modules_are

        plain = called_as_modules_are(mod)
        self.__dict__["_forward"] = self.dynamo_ctx.wrap(mod._call_impl if plain else mod.__call__)

    def forward(self, *args, **kwargs):
        """Calls the module, captured."""
        return self._forward(*args, **kwargs)

    def __getattr__(self, name):
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._orig_mod, name)

    def __setattr__(self, name, val):
        if name in self._opt_mod_attributes or name.startswith("_forward_") or hasattr(type(self), name):
            super().__setattr__(name, val)
        elif "_orig_mod" in self.__dict__.get("_modules", ()):
            setattr(self._orig_mod, name, val)
        else:
            super().__setattr__(name, val)

    def __delattr__(self, name):
        if name in self._opt_mod_attributes:
            return super().__delattr__(name)
        return delattr(self._orig_mod, name)

    @property
    def training(self):
        return self._orig_mod.training

    @training.setter
    def training(self, value):
        if "_orig_mod" in self.__dict__.get("_modules", ()):
            self._orig_mod.training = value

    def __reduce__(self):
        return _remade, (type(self), self._orig_mod, self.dynamo_ctx)

    def __getstate__(self):
        state = dict(self.__dict__)
        state.pop("_forward", None)
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._make_forward()

    def __len__(self):
        return len(self._orig_mod)

    def __iter__(self):
        return iter(self._orig_mod)

    def __getitem__(self, index):
        return self._orig_mod[index]

    def __contains__(self, item):
        return item in self._orig_mod

    def __dir__(self):
        return sorted({*super().__dir__(), *dir(self._orig_mod)})


def _remade(cls, mod, context):
    return cls(mod, context)
