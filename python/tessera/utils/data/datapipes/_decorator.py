"""Decorators of pipe classes."""

import functools

from tessera.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe

__all__ = ["functional_datapipe", "guaranteed_datapipes_determinism", "non_deterministic"]


class functional_datapipe:
    """`@functional_datapipe("name")` makes a pipe class the method `name` of all pipes of its kind.

    Raises: TypeError for a class that is no pipe, Exception for a name that is taken.
    """

    def __init__(self, name, enable_df_api_tracing=False):
        self.name, self.enable_df_api_tracing = name, enable_df_api_tracing

    def __call__(self, cls):
        made = cls.cls if isinstance(cls, non_deterministic) else cls
        if not (isinstance(made, type) and issubclass(made, (IterDataPipe, MapDataPipe))):
            raise TypeError(f"functional_datapipe is for classes of pipes, but got {cls!r}")
        if issubclass(made, MapDataPipe):
            MapDataPipe.register_datapipe_as_function(self.name, cls)
        else:
            IterDataPipe.register_datapipe_as_function(self.name, cls, self.enable_df_api_tracing)
        return cls


_determinism = False


class guaranteed_datapipes_determinism:
    """`with guaranteed_datapipes_determinism():` pipes that are not deterministic can't be made. It takes effect when
    it is constructed, so that `guaranteed_datapipes_determinism(True)` alone sets it for good.
    """

    def __init__(self, enabled=True):
        global _determinism
        self.prev, _determinism = _determinism, enabled

    def __enter__(self):
        pass

    def __exit__(self, exc_type, exc_value, traceback):
        global _determinism
        _determinism = self.prev


class non_deterministic:
    """Decorator of a pipe class that gives other samples, or another order, each time.

    arg: the class; or, as `@non_deterministic(function)`, a function of the constructor's arguments that says whether
        this one will.

    Raises: TypeError for anything else, and when such a pipe is made under guaranteed_datapipes_determinism.
    """

    cls = None

    def __init__(self, arg):
        self._always = isinstance(arg, type)
        if self._always and not issubclass(arg, IterDataPipe):
            raise TypeError(f"only subclasses of IterDataPipe can be non_deterministic, but {arg.__name__} is none")
        if not self._always and not callable(arg):
            raise TypeError(f"{arg!r} is no class of pipes, and no function that says whether a pipe is one of these")
        self.cls = arg if self._always else None
        self.deterministic_fn = None if self._always else arg

    def __call__(self, *args, **kwargs):
        if self._always:
            self._check(self.cls)
            return self.cls(*args, **kwargs)
        self.cls = args[0]
        return self.deterministic_wrapper_fn

    def _check(self, cls):
        if _determinism:
            raise TypeError(
                f"{cls.__name__} is non-deterministic, but you set 'guaranteed_datapipes_determinism'. Leave that out "
                "if you can do with another order each time."
            )

    def deterministic_wrapper_fn(self, *args, **kwargs):
        """Makes the pipe, if its arguments make it deterministic or need not. TypeError if not."""
        answer = self.deterministic_fn(*args, **kwargs)
        if not isinstance(answer, bool):
            raise TypeError(f"the function of non_deterministic has to return a bool, but got {type(answer).__name__}")
        if answer:
            self._check(self.cls)
        return self.cls(*args, **kwargs)
