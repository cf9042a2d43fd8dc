"""Pipelines as graphs of pipes."""

import functools
import types
import warnings

from tessera.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe

__all__ = ["traverse", "traverse_dps"]

_LEAVES = (str, bytes, int, float, complex, bool, type(None), type, types.ModuleType, types.BuiltinFunctionType)


def _pipes_in(obj, deep, seen):
    """The pipes nearest to an object: in containers, and with `deep` in attributes and closures as well."""
    if isinstance(obj, (IterDataPipe, MapDataPipe)):
        yield obj
        return
    if isinstance(obj, _LEAVES) or id(obj) in seen:
        return
    seen[id(obj)] = obj
    parts = ()
    if isinstance(obj, tuple) or (deep and isinstance(obj, (list, set, frozenset))):
        parts = obj
    elif deep and isinstance(obj, dict):
        parts = [*obj, *obj.values()]
    elif deep and isinstance(obj, functools.partial):
        parts = [obj.func, obj.args, obj.keywords]
    elif deep and isinstance(obj, types.MethodType):
        parts = [obj.__self__]
    elif deep and isinstance(obj, types.FunctionType):
        parts = [value for cell in obj.__closure__ or () for value in _contents(cell)]
    elif deep and hasattr(obj, "__dict__"):
        parts = list(vars(obj).values())
    for part in parts:
        yield from _pipes_in(part, deep, seen)


def _contents(cell):
    """What a cell of a closure holds, as a list: nothing before its variable is assigned."""
    try:
        return [cell.cell_contents]
    except ValueError:
        return []


def _graph(pipe, deep, above):
    if id(pipe) in above:
        return {}
    below, seen = {}, {}
    for value in vars(pipe).values():
        for child in _pipes_in(value, deep, seen):
            below.update(_graph(child, deep, above | {id(pipe)}))
    return {id(pipe): (pipe, below)}


def _check(datapipe):
    if not isinstance(datapipe, (IterDataPipe, MapDataPipe)):
        raise RuntimeError(f"Expected IterDataPipe or MapDataPipe, but {type(datapipe)} is found")


def traverse_dps(datapipe):
    """The graph {id of the pipe: (pipe, graph of its sources)}; sources are attributes, alone or in tuples.

    Raises: RuntimeError for anything else than a pipe.
    """
    _check(datapipe)
    return _graph(datapipe, False, frozenset())


def traverse(datapipe, only_datapipe=None):
    """Deprecated: the graph as of traverse_dps with only_datapipe=True; otherwise (None warns) with pipes wherever
    attributes lead: in lists, dicts, other objects, closures of functions.

    Raises: RuntimeError for anything else than a pipe.
    """
    if only_datapipe is None:
        warnings.warn(
            "`traverse` function and only_datapipe=False, its default, are deprecated: traverse_dps() gives the graph "
            "of pipes",
            FutureWarning,
            stacklevel=2,
        )
    _check(datapipe)
    return _graph(datapipe, not only_datapipe, frozenset())
