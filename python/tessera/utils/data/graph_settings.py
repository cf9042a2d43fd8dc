"""Settings of whole pipelines: sharding, shuffling, seeds."""

import inspect
import warnings

import tessera
from tessera.utils.data.datapipes.iter.sharding import SHARDING_PRIORITIES
from tessera.utils.data.graph import traverse_dps

__all__ = [
    "apply_random_seed",
    "apply_sharding",
    "apply_shuffle_seed",
    "apply_shuffle_settings",
    "get_all_graph_pipes",
]


def get_all_graph_pipes(graph):
    """The pipes of a graph, each once."""
    found, waiting = {}, [graph]
    while waiting:
        for key, (pipe, below) in waiting.pop(0).items():
            if key not in found:
                found[key] = pipe
                waiting.append(below)
    return list(found.values())


def _takes_group(method):
    return len(inspect.signature(method).parameters) >= 3


def apply_sharding(datapipe, num_of_instances, instance_id, sharding_group=SHARDING_PRIORITIES.DEFAULT):
    """Tells all steps that share out that this is one of so many instances; returns the pipe.

    Raises: RuntimeError if one such step is below another.
    """

    def walk(graph, is_shared):
        for pipe, below in graph.values():
            shares = hasattr(pipe, "apply_sharding") and getattr(pipe, "is_shardable", lambda: True)()
            if shares and is_shared:
                raise RuntimeError(
                    "Sharding twice on a single pipeline is likely unintended and will cause data loss. Sharding "
                    f"already applied to {is_shared} while trying to apply to {pipe}"
                )
            if shares:
                group = (sharding_group,) if _takes_group(pipe.apply_sharding) else ()
                pipe.apply_sharding(num_of_instances, instance_id, *group)
            walk(below, is_shared or (pipe if shares else None))

    walk(traverse_dps(datapipe), None)
    return datapipe


def _is_shuffler(pipe):
    return inspect.ismethod(getattr(pipe, "set_shuffle", None)) and inspect.ismethod(getattr(pipe, "set_seed", None))


def apply_shuffle_settings(datapipe, shuffle=None):
    """Switches all shuffling steps on or off; adds one, with a warning, if there is none to switch on.

    Returns: the pipe, or the added step. None for `shuffle` changes nothing.
    """
    found = [] if shuffle is None else list(filter(_is_shuffler, get_all_graph_pipes(traverse_dps(datapipe))))
    if shuffle and not found:
        warnings.warn(
            "shuffle=True was given, but no step of the pipeline shuffles: one is put at its end, with a buffer of the "
            "default size, which may be too small",
            stacklevel=2,
        )
        found = [datapipe.shuffle()]
        datapipe = found[0]
    for step in found:
        step.set_shuffle(shuffle)
    return datapipe


def apply_shuffle_seed(datapipe, rng):
    """Deprecated name of apply_random_seed."""
    warnings.warn("`apply_shuffle_seed` has the name `apply_random_seed` now.", FutureWarning, stacklevel=2)
    return apply_random_seed(datapipe, rng)


def apply_random_seed(datapipe, rng):
    """Gives each random step a seed, drawn from a Generator; returns the pipe."""
    for pipe in get_all_graph_pipes(traverse_dps(datapipe)):
        if inspect.ismethod(getattr(pipe, "set_seed", None)):
            pipe.set_seed(int(tessera.empty((), dtype=tessera.int64).random_(generator=rng).item()))
    return datapipe
