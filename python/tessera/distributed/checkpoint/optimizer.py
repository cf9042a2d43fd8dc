"""States of optimizers in checkpoints."""

import tessera
from tessera.distributed.checkpoint._nested_dict import set_element
from tessera.distributed.checkpoint.default_planner import DefaultLoadPlanner
from tessera.distributed.checkpoint.metadata import TensorStorageMetadata
from tessera.distributed.checkpoint.state_dict_loader import _alone, _load_state_dict
from tessera.distributed.tensor import DTensor, zeros

__all__ = ["load_sharded_optimizer_state_dict"]


def load_sharded_optimizer_state_dict(model_state_dict, optimizer_key, storage_reader, planner=None):
    """Loads the state of an optimizer, laid as the model's tensors are.

    Args:
        model_state_dict: {name: tensor or DTensor}, of the model.
        optimizer_key: the name under which the optimizer's state dict was saved.
        storage_reader: StorageReader of the checkpoint.
        planner: LoadPlanner; None: DefaultLoadPlanner().

    Returns: {optimizer_key: state dict with names of parameters}. Tensors of a parameter's size lie as it does, others
    are whole.
    """
    metadata, state = storage_reader.read_metadata(), {}
    for name, saved in metadata.state_dict_metadata.items():
        path = (metadata.planner_data or {}).get(name, (name,))
        if path[0] != optimizer_key:
            continue
        value = None
        if isinstance(saved, TensorStorageMetadata):
            owner = next((model_state_dict[key] for key in path if key in model_state_dict), None)
            if isinstance(owner, DTensor) and tuple(owner.shape) == tuple(saved.size):
                options = {"device_mesh": owner.device_mesh, "placements": owner.placements}
                value = zeros(*saved.size, dtype=saved.properties.dtype, **options)
            else:
                value = tessera.zeros(saved.size, dtype=saved.properties.dtype)
        set_element(state, path, value)
    _load_state_dict(state, storage_reader, no_dist=_alone(False), planner=planner or DefaultLoadPlanner())
    return state
