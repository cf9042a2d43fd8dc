"""Modules whose attributes are checked settings."""

import contextlib
import sys
import types


_frozen = False  # whether settings change for blocks alone
_blocks = 0  # how many blocks are open in which they may


def flags_frozen():
    """True after `disable_global_flags()`."""
    return _frozen


def closed():
    """Whether settings may not be set now."""
    return _frozen and not _blocks


def disable_global_flags():
    """From now on settings change by the `flags()` of their modules alone, for a block; setting one raises."""
    global _frozen
    _frozen = True


@contextlib.contextmanager
def allowed():
    """Context manager: settings may be set in spite of `disable_global_flags()`."""
    global _blocks
    _blocks += 1
    try:
        yield
    finally:
        _blocks -= 1


class Choice(tuple):
    """The values that a setting may have, its default first."""

    def __new__(cls, *values):
        return super().__new__(cls, values)


class FlagModule(types.ModuleType):
    """A module with the settings of `_flags` (name -> default or Choice); a new value must have the default's type, or
    be among the choices.

    Raises: RuntimeError for another value, and after `disable_global_flags()`.
    """

    _flags = {}
    _changed = staticmethod(lambda: None)
    _elsewhere = None

    def __setattr__(self, name, value):
        default = type(self)._flags.get(name)
        if closed() and name in type(self)._flags:
            raise RuntimeError(
                f"{self.__name__}.{name} can't be set after disable_global_flags(): use its flags() for a block"
            )
        if isinstance(default, Choice):
            if value not in default:
                raise RuntimeError(
                    f"expected {self.__name__}.{name} to be one of {', '.join(map(repr, default))}, but got {value!r}"
                )
        elif name in type(self)._flags and default is not None and type(value) is not type(default):
            raise RuntimeError(
                f"expected a {type(default).__name__} for {self.__name__}.{name}, but got {type(value).__name__}"
            )
        super().__setattr__(name, value)
        if name in type(self)._flags:
            type(self)._changed()


def install(module, _changed=None, _elsewhere=None, **flags):
    """Makes the settings attributes of a module (an entry of sys.modules) and checks them from now on. `_changed` is
    called after each change. `_elsewhere`: ({name: property} of settings that are not kept here, a function that gives
    all of them, one that takes that).
    """
    members = {} if _elsewhere is None else {**_elsewhere[0], "_elsewhere": _elsewhere[1:]}
    for name, value in flags.items():
        if name not in members:
            setattr(module, name, value[0] if isinstance(value, Choice) else value)
    members["_flags"] = dict(flags)
    if _changed is not None:
        members["_changed"] = staticmethod(_changed)
    module.__class__ = type(f"{module.__name__}_flags", (FlagModule,), members)


def tell_cuda():
    """The CUDA library takes over what has changed, if it is loaded."""
    library = sys.modules.get("tessera.cuda._library")
    if library is not None:
        library.apply_settings()


@contextlib.contextmanager
def changed(module, **flags):
    """Gives settings other values for a block; None leaves one as it is, and so does "none"."""
    flags = {name: value for name, value in flags.items() if value not in (None, "none")}
    saved, elsewhere = {name: module.__dict__[name] for name in flags if name in module.__dict__}, module._elsewhere
    held = elsewhere[0]() if elsewhere else None
    try:
        set_all(module, flags)
        yield
    finally:
        set_all(module, saved)
        if elsewhere:
            elsewhere[1](held)


def set_all(module, flags):
    """Sets settings (name -> value), after `disable_global_flags()` too."""
    with allowed():
        for name, value in flags.items():
            setattr(module, name, value)


def set_given(module, flags):
    """Sets those settings (name -> value) that are not None; returns the old values of all."""
    old = tuple(getattr(module, name) for name in flags)
    set_all(module, {name: value for name, value in flags.items() if value is not None})
    return old


class Verbose:
    """Context manager of a library that can report its calls, and is not part of this build: there are none to
    report. `levels` are those that it knows.
    """

    levels: tuple = ()

    def __init__(self, level):
        if level not in self.levels:
            raise ValueError(f"expected a level out of {self.levels}, but got {level!r}")
        self.level = level

    def __enter__(self):
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        return False
