"""What a DataLoader does for datasets that are pipelines (utils.data.datapipes): order, seeds, shares.

The modules of pipelines are loaded when the first of them is made; until then no dataset is one.
"""

import sys

import tessera


def _module(name):
    return sys.modules.get("tessera.utils.data." + name)


def is_pipe(dataset, only_iterated=False):
    """Whether a dataset is a pipeline, or one that is iterated over."""
    base = _module("datapipes.datapipe")
    if base is None:
        return False
    return isinstance(dataset, base.IterDataPipe if only_iterated else (base.IterDataPipe, base.MapDataPipe))


def with_shuffling(pipe, shuffle):
    """The pipe, with its shuffling steps switched on or off."""
    return tessera.utils.data.graph_settings.apply_shuffle_settings(pipe, shuffle=shuffle)


def _share(pipe, count, number, group):
    groups = _module("datapipes.iter.sharding").SHARDING_PRIORITIES
    tessera.utils.data.graph_settings.apply_sharding(pipe, count, number, groups[group])


def share_among_machines(dataset):
    """Tells the sharing steps of a pipeline which process of a process group this is."""
    if is_pipe(dataset):
        distributed = sys.modules.get("tessera.distributed")
        in_group = distributed is not None and distributed.is_available() and distributed.is_initialized()
        count, number = (distributed.get_world_size(), distributed.get_rank()) if in_group else (1, 0)
        _share(dataset, count, number, "DISTRIBUTED")


def share_among_workers(dataset, count, number):
    """Tells the sharing steps of a pipeline which of the workers this is."""
    if is_pipe(dataset):
        _share(dataset, count, number, "MULTIPROCESSING")


def draw_seed(dataset, generator):
    """The seed from which the random steps of a pipeline get theirs, the same in all workers; None for others."""
    if not is_pipe(dataset, only_iterated=True):
        return None
    return int(tessera.empty((), dtype=tessera.int64).random_(generator=generator).item())


def set_seeds(dataset, seed):
    """Seeds the random steps of a pipeline for a pass."""
    if seed is not None:
        rng = tessera.Generator()
        rng.manual_seed(seed)
        tessera.utils.data.graph_settings.apply_random_seed(dataset, rng)
