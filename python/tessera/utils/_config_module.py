"""Modules whose variables are settings: unknown names are errors, and `patch` changes some for a while."""

import contextlib
import copy
import sys
import types

__all__ = ["ConfigModule", "install_config_module"]


class ConfigModule(types.ModuleType):
    """A module of settings. Assigning to a name that is none raises AttributeError."""

    def __getattr__(self, name):
        other = self.__dict__["_aliases"].get(name)
        if other is None:
            raise AttributeError(f"{self.__name__}.{name} does not exist")
        return getattr(*other)

    def __setattr__(self, name, value):
        if name.startswith("__"):  # what the import system writes, as `import torch._dynamo.config` does
            super().__setattr__(name, value)
            return
        other = self.__dict__["_aliases"].get(name)
        if other is not None:
            setattr(*other, value)
            return
        if name not in self.__dict__["_settings"]:
            raise AttributeError(f"{self.__name__}.{name} does not exist")
        super().__setattr__(name, value)

    def __reduce__(self):
        from importlib import import_module

        return import_module, (self.__name__,)

    def __deepcopy__(self, memo):
        return self

    def __dir__(self):
        return sorted({*self._settings, *self._aliases})

    def patch(self, arg1=None, arg2=None, **kwargs):
        """Context manager and decorator, of functions and of classes of tests: other values for a while.

        Args:
            arg1: a name, with its value in arg2; or a dict of values. **kwargs: values by name.
        """
        changes = dict(kwargs)
        if isinstance(arg1, str):
            changes[arg1] = arg2
        elif arg1 is not None:
            if not isinstance(arg1, dict) or arg2 is not None:
                raise TypeError(f"patch: expected a name and a value, or a dict, but got {arg1!r} and {arg2!r}")
            changes.update(arg1)
        for name in changes:
            if name not in self._settings and name not in self._aliases:
                raise AttributeError(f"{self.__name__}.{name} does not exist")
        return _Patch(self, changes)

    def get_config_copy(self):
        """{name: value} of all settings."""
        return {name: copy.deepcopy(getattr(self, name)) for name in self._settings}

    def to_dict(self):
        """The same as get_config_copy."""
        return self.get_config_copy()

    def load_config(self, maybe_pickled_config):
        """Takes values over that get_config_copy gave."""
        for name, value in maybe_pickled_config.items():
            setattr(self, name, value)


class _Patch(contextlib.ContextDecorator):
    def __init__(self, module, changes):
        self.module, self.changes, self.before = module, changes, []

    def _recreate_cm(self):
        return _Patch(self.module, self.changes)

    def __call__(self, func):
        """A function around which the values hold; of a class, its tests (methods whose names begin with "test")."""
        if not isinstance(func, type):
            return super().__call__(func)
        for name in dir(func):
            if name.startswith("test") and callable(getattr(func, name)):
                setattr(func, name, super().__call__(getattr(func, name)))
        return func

    def __enter__(self):
        self.before.append({name: getattr(self.module, name) for name in self.changes})
        for name, value in self.changes.items():
            setattr(self.module, name, value)

    def __exit__(self, *error):
        for name, value in self.before.pop().items():
            setattr(self.module, name, value)


def install_config_module(module, aliases=None):
    """Makes a module of settings of a module: its variables that are no modules, functions or classes.

    Args:
        aliases: {another name: (module of settings, name there), or a name of this one}.
    """
    module = sys.modules[module] if isinstance(module, str) else module
    settings = [
        name
        for name, value in vars(module).items()
        if not name.startswith("__") and not isinstance(value, (types.ModuleType, types.FunctionType))
    ]
    module.__dict__["_settings"] = frozenset(settings)
    module.__dict__["_aliases"] = {
        name: (module, other) if isinstance(other, str) else other for name, other in (aliases or {}).items()
    }
    module.__class__ = ConfigModule
