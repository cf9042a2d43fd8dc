"""The planners that are used if none is given."""

import dataclasses
import io
import math
from collections import defaultdict

import tessera
from tessera.distributed.checkpoint._nested_dict import flatten_state_dict, set_element
from tessera.distributed.checkpoint.metadata import BytesStorageMetadata, Metadata, MetadataIndex, TensorStorageMetadata
from tessera.distributed.checkpoint.planner import (
    LoadPlan,
    LoadPlanner,
    SavePlan,
    SavePlanner,
    WriteItemType,
    _bytes_of,
)
from tessera.distributed.checkpoint.planner_helpers import _create_read_items, _create_write_items, _overlap
from tessera.distributed.checkpoint.utils import find_state_dict_object

__all__ = [
    "DefaultLoadPlanner",
    "DefaultSavePlanner",
    "create_default_global_load_plan",
    "create_default_global_save_plan",
    "create_default_local_load_plan",
    "create_default_local_save_plan",
]


def _not_here(value):
    """True for a DTensor of a mesh in which this process is not."""
    mesh = getattr(value, "device_mesh", None)
    return mesh is not None and mesh.get_coordinate() is None


def create_default_local_save_plan(state_dict, is_coordinator):
    """The SavePlan of this process for a flat state dict: its pieces of tensors, and all other values, of which the
    coordinator picks one process each.
    """
    return SavePlan([i for k, v in state_dict.items() if not _not_here(v) for i in _create_write_items(k, v)])


def create_default_global_save_plan(all_plans, rewrite_index_hints=True):
    """(plans, Metadata) of the SavePlans of all processes. `rewrite_index_hints`: indices of items get their places in
    the Metadata's lists of pieces.
    """
    described, plans = {}, []
    for plan in all_plans:
        items = []
        for item in plan.items:
            name = item.index.fqn
            if item.type == WriteItemType.BYTE_IO:
                described[name] = BytesStorageMetadata()
                items.append(item)
                continue
            data = item.tensor_data
            made = described.setdefault(name, TensorStorageMetadata(data.properties, data.size, []))
            if rewrite_index_hints:
                index = MetadataIndex(name, item.index.offset, len(made.chunks))
                item = dataclasses.replace(item, index=index)
            made.chunks.append(data.chunk)
            items.append(item)
        plans.append(dataclasses.replace(plan, items=items))
    return plans, Metadata(described)


def create_default_local_load_plan(state_dict, metadata, strict=True):
    """The LoadPlan of this process for a flat state dict.

    Args:
        state_dict: {name: tensor or value}.
        metadata: Metadata of the checkpoint.
        strict: names that the checkpoint does not have are errors; else they are left as they are.

    Raises: RuntimeError for such names, ValueError for tensors of another size.
    """
    items = []
    for name, value in state_dict.items():
        saved = metadata.state_dict_metadata.get(name)
        if saved is None:
            if strict:
                raise RuntimeError(f"Missing key in checkpoint state_dict: {name}.")
            continue
        size = getattr(value, "shape", None)
        if isinstance(saved, TensorStorageMetadata) and size is not None and tuple(saved.size) != tuple(size):
            raise ValueError(f"Size mismatch between saved {saved.size} and current: {size} for {name}")
        if not _not_here(value):
            items += _create_read_items(name, saved, value)
    return LoadPlan(items)


def create_default_global_load_plan(all_plans):
    """The plans as they are: every process reads what it wants."""
    return all_plans


def _without_duplicates(plans, to_lowest_rank):
    """Of what several processes would write, each to the one that has least to write, or to the first."""
    writers = defaultdict(list)
    for rank, plan in enumerate(plans):
        for item in plan.items:
            if rank not in writers[item.index]:
                writers[item.index].append(rank)
    load = [0] * len(plans)
    sizes = {item.index: item.tensor_storage_size() or 1 for plan in plans for item in plan.items}
    chosen = {}
    for index, ranks in sorted(writers.items(), key=lambda pair: len(pair[1])):
        chosen[index] = ranks[0] if to_lowest_rank else min(ranks, key=load.__getitem__)
        load[chosen[index]] += sizes[index]
    return [
        dataclasses.replace(plan, items=[item for item in plan.items if chosen[item.index] == rank])
        for rank, plan in enumerate(plans)
    ]


def _check_pieces(metadata):
    """Raises: ValueError if pieces of a tensor overlap, lie outside, or leave a hole."""
    for name, saved in metadata.state_dict_metadata.items():
        if isinstance(saved, BytesStorageMetadata):
            continue
        volume = 0
        for at, chunk in enumerate(saved.chunks):
            volume += math.prod(chunk.sizes)
            if any(o < 0 or o + n > total for o, n, total in zip(chunk.offsets, chunk.sizes, saved.size)):
                raise ValueError(f"Failed to validate global plan: {name} of size {saved.size} has a piece {chunk}")
            clash = next((other for other in saved.chunks[:at] if saved.size and _overlap(other, chunk)), None)
            if clash is not None:
                raise ValueError(f"Failed to validate global plan: pieces {clash} and {chunk} of {name} overlap")
        if volume != math.prod(saved.size):
            raise ValueError(
                f"Failed to validate global plan: pieces of {name} have {volume} elements of {math.prod(saved.size)}"
            )


class DefaultSavePlanner(SavePlanner):
    """Writes each piece of a tensor once.

    Args:
        flatten_state_dict: nested dicts and lists are taken apart.
        flatten_sharded_tensors: accepted for older programs: sharded tensors have no tensors of their own inside here.
        dedup_replicated_tensors: accepted for older programs: what several processes have is always written once.
        dedup_save_to_lowest_rank: by the first that has it, instead of the one that has least to write.
        enable_plan_caching: when a planner of this class saves a state dict of the same pieces again, only the news
            that nothing has changed goes to the coordinator.
    """

    _cached_global: dict = {}

    def __init__(
        self,
        flatten_state_dict=True,
        flatten_sharded_tensors=True,
        dedup_replicated_tensors=None,
        dedup_save_to_lowest_rank=False,
        enable_plan_caching=False,
    ):
        self.flatten_state_dict = flatten_state_dict
        self.dedup_save_to_lowest_rank = dedup_save_to_lowest_rank
        self._enable_plan_caching = enable_plan_caching
        self._cached_plans_key = type(self).__name__
        self.mappings = {}

    def set_up_planner(self, state_dict, storage_meta=None, is_coordinator=False):
        """Takes the state dict."""
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict, self.storage_meta, self.is_coordinator = state_dict, storage_meta, is_coordinator

    def create_local_plan(self):
        """The SavePlan of this process."""
        plan = create_default_local_save_plan(self.state_dict, self.is_coordinator)
        if self.flatten_state_dict:
            plan = dataclasses.replace(plan, planner_data=self.mappings)
        self.plan = plan
        if self._enable_plan_caching:
            key = self._cached_plans_key
            if SavePlanner._cached_save_plan.get(key) == plan:
                return SavePlan([], usable=False)
            SavePlanner._cached_save_plan[key] = plan
        return plan

    def create_global_plan(self, all_plans):
        """(plans without duplicates, Metadata). Raises: ValueError for pieces that overlap or do not make a whole."""
        if self._enable_plan_caching:
            before = self._cached_global.get(self._cached_plans_key, [None] * len(all_plans))
            all_plans = [plan if plan.usable else old for plan, old in zip(all_plans, before)]
            self._cached_global[self._cached_plans_key] = all_plans
        plans = _without_duplicates(all_plans, self.dedup_save_to_lowest_rank)
        plans, metadata = create_default_global_save_plan(plans)
        if self.flatten_state_dict:
            paths = {}
            for plan in plans:
                paths.update(plan.planner_data or {})
            metadata = dataclasses.replace(metadata, planner_data=paths)
        _check_pieces(metadata)
        self.global_plan, self.metadata = plans, metadata
        return plans, metadata

    def finish_plan(self, new_plan):
        """The plan as it is."""
        self.plan = new_plan
        return new_plan

    def resolve_data(self, write_item):
        """The tensor, or the pickled value, of an item."""
        return self.transform_object(write_item, self.lookup_object(write_item.index))

    def lookup_object(self, index):
        """The value of the flat state dict, or the piece of a tensor, that an index names."""
        return find_state_dict_object(self.state_dict, index)

    def transform_object(self, write_item, object):
        """What is written for a value: bytes for what is no tensor."""
        return _bytes_of(object) if write_item.type == WriteItemType.BYTE_IO else object


class DefaultLoadPlanner(LoadPlanner):
    """Reads into the tensors of a state dict, and replaces its other values.

    Args:
        flatten_state_dict: nested dicts and lists are taken apart.
        flatten_sharded_tensors: accepted for older programs: sharded tensors have no tensors of their own inside here.
        allow_partial_load: names that the checkpoint does not have are left as they are, instead of an error.
    """

    def __init__(self, flatten_state_dict=True, flatten_sharded_tensors=True, allow_partial_load=False):
        self.flatten_state_dict = flatten_state_dict
        self.allow_partial_load = allow_partial_load
        self.original_state_dict, self.mappings = {}, {}

    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
        """Takes the state dict."""
        self.original_state_dict = state_dict
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict, self.metadata, self.is_coordinator = state_dict, metadata, is_coordinator

    def create_local_plan(self):
        """The LoadPlan of this process. Raises: RuntimeError for names, ValueError for sizes that do not fit."""
        return create_default_local_load_plan(self.state_dict, self.metadata, not self.allow_partial_load)

    def create_global_plan(self, global_plan):
        """The plans as they are."""
        return create_default_global_load_plan(global_plan)

    def finish_plan(self, new_plan):
        """The plan as it is."""
        return new_plan

    def load_bytes(self, read_item, value):
        """Puts a value in its place."""
        name = read_item.dest_index.fqn
        loaded = tessera.load(value, map_location="cpu", weights_only=False)
        self.state_dict[name] = loaded
        if self.flatten_state_dict:
            set_element(self.original_state_dict, self.mappings[name], loaded)

    def resolve_bytes(self, read_item):
        """A new BytesIO."""
        return io.BytesIO()

    def resolve_tensor(self, read_item):
        """The part of a tensor that an item fills."""
        return self.transform_tensor(read_item, self.lookup_tensor(read_item.dest_index))

    def commit_tensor(self, read_item, tensor):
        """Nothing: the numbers are where they belong."""

    def lookup_tensor(self, index):
        """The piece of a tensor of the flat state dict that an index names."""
        return find_state_dict_object(self.state_dict, index)

    def transform_tensor(self, read_item, tensor):
        """The part of a piece that an item fills."""
        for dim, (start, length) in enumerate(zip(read_item.dest_offsets, read_item.lengths)):
            tensor = tensor.narrow(dim, start, length)
        return tensor


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """Fills an empty state dict with all that a checkpoint has.

    Args:
        keys: names, or beginnings of names, of what is wanted; None: everything.
    """

    def __init__(self, keys=None, *args, **kwargs):
        self.keys = keys
        super().__init__(*args, **kwargs)

    def _wanted(self, name, path):
        if self.keys is None or name in self.keys:
            return True
        heads = {".".join(map(str, path[: at + 1])) for at in range(len(path))}
        return not heads.isdisjoint(self.keys)

    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
        """Makes empty tensors for those of the checkpoint. Raises: AssertionError for a state dict with values."""
        assert not state_dict, "the state dict has to be empty: it is filled with what the checkpoint has"
        assert metadata is not None, "the checkpoint's Metadata is needed"
        for name, saved in metadata.state_dict_metadata.items():
            path = (metadata.planner_data or {}).get(name, (name,))
            if self._wanted(name, path):
                value = None
                if isinstance(saved, TensorStorageMetadata):
                    value = tessera.empty(saved.size, dtype=saved.properties.dtype)
                set_element(state_dict, path, value)
        super().set_up_planner(state_dict, metadata, is_coordinator)
