"""The base classes of pipelines, and how steps become methods of them."""

import functools

from tessera.utils.data.dataset import Dataset, IterableDataset
from tessera.utils.data.datapipes import _typing

__all__ = ["DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe"]


class DataChunk(list):
    """A batch: a list that remembers the items it was made of."""

    def __init__(self, items):
        items = list(items)
        super().__init__(items)
        self.items = items

    def as_str(self, indent=""):
        """The items' texts on one line after `indent`."""
        return f"{indent}[{', '.join(map(str, self))}]"

    def raw_iterator(self):
        """An iterator over the items."""
        return iter(self.items)


class _Pipe:
    """What pipelines of both kinds have: steps as methods, hooks of pickling, types of what they give."""

    functions: dict = {}  # name of the method -> what it calls with the pipe
    getstate_hook = None
    reduce_ex_hook = None
    str_hook = None
    repr_hook = None

    def __class_getitem__(cls, item):
        return _typing.alias(cls, item)

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        _typing.remember_type(cls)

    def __getattr__(self, name):
        function = None if name == "functions" else type(self).functions.get(name)
        if function is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return functools.partial(function, self)

    @classmethod
    def register_function(cls, function_name, function):
        """Makes `pipe.<function_name>(...)` call `function(pipe, ...)`."""
        cls.functions[function_name] = function

    def __getstate__(self):
        """The attributes, or what the hook of pickling makes of the pipe."""
        hook = type(self).getstate_hook
        return hook(self) if hook is not None else self.__dict__

    def __setstate__(self, state):
        self.__dict__.update(state)

    def __reduce_ex__(self, *args, **kwargs):
        hook = type(self).reduce_ex_hook
        if hook is not None:
            try:
                return hook(self)
            except NotImplementedError:
                pass
        return super().__reduce_ex__(*args, **kwargs)

    @classmethod
    def _set_hook(cls, name, hook):
        owner = next(base for base in cls.__mro__ if "functions" in base.__dict__)
        if hook is not None and getattr(owner, name) is not None:
            raise RuntimeError(f"{name} of {owner.__name__} is set already: set it to None first")
        setattr(owner, name, None if hook is None else staticmethod(hook))

    @classmethod
    def set_getstate_hook(cls, hook_fn):
        """`hook_fn(pipe)` gives what is pickled of all pipes; None takes it away. RuntimeError if there is one."""
        cls._set_hook("getstate_hook", hook_fn)

    @classmethod
    def set_reduce_ex_hook(cls, hook_fn):
        """`hook_fn(pipe)` replaces `__reduce_ex__` of all pipes, unless it raises NotImplementedError; None takes it
        away. RuntimeError if there is one.
        """
        cls._set_hook("reduce_ex_hook", hook_fn)

    def __str__(self):
        hook = type(self).str_hook
        return hook(self) if hook is not None else str(type(self).__qualname__)

    def __repr__(self):
        hook = type(self).repr_hook
        return hook(self) if hook is not None else str(type(self).__qualname__)

    def __dir__(self):
        return [*super().__dir__(), *self.functions]


def _register(base, function_name, cls_to_register):
    if function_name in base.functions:
        raise Exception(f"Unable to add DataPipe function name {function_name} as it is already taken")

    def make(pipe, *args, **options):
        return cls_to_register(pipe, *args, **options)

    functools.update_wrapper(make, cls_to_register, assigned=("__doc__",), updated=())
    base.functions[function_name] = make


class MapDataPipe(_Pipe, Dataset):
    """A pipeline whose samples have keys: subclasses define `__getitem__` and usually `__len__`."""

    functions: dict = {}

    @classmethod
    def register_datapipe_as_function(cls, function_name, cls_to_register):
        """Makes `pipe.<function_name>(...)` build a `cls_to_register(pipe, ...)`.

        Raises: Exception for a name that is taken.
        """
        _register(cls, function_name, cls_to_register)


class _PassOver:
    """One pass over a pipe. It ends with an error when another pass has begun."""

    def __init__(self, pipe, iterator):
        self.pipe, self.iterator, self.number = pipe, iterator, pipe._passes

    def __iter__(self):
        return self

    def __next__(self):
        if self.number != self.pipe._passes:
            raise RuntimeError(
                f"This iterator has been invalidated because another iterator has been created from the same "
                f"IterDataPipe: {self.pipe!r}. There is one at a time; to have more, fork() the pipe."
            )
        return next(self.iterator)

    def __getattr__(self, name):
        return getattr(self.iterator, name)


def _one_pass_at_a_time(function):
    """`__iter__` of a pipe: it resets the pipe, and makes passes that began before end."""

    @functools.wraps(function)
    def begin(self):
        self._begin_pass()
        return _PassOver(self, iter(function(self)))

    begin._begins_pass = True
    return begin


class IterDataPipe(_Pipe, IterableDataset):
    """A pipeline that is iterated over: subclasses define `__iter__`.

    There is one iterator at a time: making another one resets the pipe, and the first raises RuntimeError.
    """

    functions: dict = {}
    _passes = 0
    _is_child = False  # one of several that a step has made of one pipe, which has the passes

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        own = cls.__dict__.get("__iter__")
        if own is not None and not cls.__dict__.get("_is_child") and not hasattr(own, "_begins_pass"):
            cls.__iter__ = _one_pass_at_a_time(own)

    def _begin_pass(self):
        self.__dict__["_passes"] = self._passes + 1
        self.reset()

    def reset(self):
        """Called when a pass begins; subclasses put their state back."""

    @classmethod
    def register_datapipe_as_function(cls, function_name, cls_to_register, enable_df_api_tracing=False):
        """Makes `pipe.<function_name>(...)` build a `cls_to_register(pipe, ...)`.

        Raises: Exception for a name that is taken, NotImplementedError for `enable_df_api_tracing`: there are no pipes
            of data frames that record calls.
        """
        if enable_df_api_tracing:
            raise NotImplementedError(
                "enable_df_api_tracing records calls on data frames, which pipes do not do: leave it False"
            )
        _register(cls, function_name, cls_to_register)


class DFIterDataPipe(IterDataPipe):
    """A pipe whose samples are data frames."""

    _is_dfpipe = True
