"""State dicts of modules whose parameters may be spread over processes."""

from dataclasses import dataclass

import tessera
from tessera.distributed import distributed_c10d as c10d
from tessera.distributed.tensor import DTensor, distribute_tensor
from tessera.nn.modules.module import _IncompatibleKeys

__all__ = ["StateDictOptions", "get_model_state_dict", "set_model_state_dict"]


@dataclass
class StateDictOptions:
    """How state dicts are made and taken.

    Args:
        full_state_dict: whole tensors instead of DTensors.
        cpu_offload: tensors in host memory; with `full_state_dict` all but the first process get {}.
        ignore_frozen_params: leaves parameters out that require no gradient.
        keep_submodule_prefixes: names of submodules' tensors begin with those of the submodules.
        strict: loading raises for missing and unexpected names.
        broadcast_from_rank0: loading takes whole tensors from the first process; needs `full_state_dict`.
        flatten_optimizer_state_dict: of optimizers' state dicts.
        dsd_fqn_modifiers: a module's method that renames its tensors, if it has one.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def _is_first():
    return not c10d.is_initialized() or c10d.get_rank() == 0


def get_model_state_dict(model, *, submodules=None, options=None):
    """A module's state dict.

    Args:
        model: Module.
        submodules: a set of submodules, whose tensors alone are wanted.
        options: StateDictOptions.
    """
    options = options or StateDictOptions()
    state = model.state_dict()
    if options.ignore_frozen_params:
        frozen = {name for name, p in model.named_parameters() if not p.requires_grad}
        state = {name: value for name, value in state.items() if name not in frozen}
    if submodules is not None:
        prefixes = [f"{name}." for name, part in model.named_modules() if part in submodules]
        found = {name: next((p for p in prefixes if name.startswith(p)), None) for name in state}
        cut = 0 if options.keep_submodule_prefixes else 1
        state = {name[cut * len(found[name]) :]: v for name, v in state.items() if found[name] is not None}
    if options.full_state_dict:
        state = {name: v.full_tensor() if isinstance(v, DTensor) else v for name, v in state.items()}
    if options.cpu_offload:
        if options.full_state_dict and not _is_first():
            return {}
        state = {name: v.cpu() if isinstance(v, tessera.Tensor) else v for name, v in state.items()}
    return dict(state)


def set_model_state_dict(model, model_state_dict, *, options=None):
    """Loads a state dict, of DTensors or of whole tensors, into a module.

    Args:
        model: Module.
        model_state_dict: {name: tensor}.
        options: StateDictOptions.

    Returns: (missing_keys, unexpected_keys). Raises: RuntimeError for names that do not fit with `strict`, ValueError
    for `broadcast_from_rank0` without `full_state_dict`.
    """
    options = options or StateDictOptions()
    if options.broadcast_from_rank0 and not options.full_state_dict:
        raise ValueError("full_state_dict must be True when broadcast_from_rank0 is True.")
    state = dict(model_state_dict)
    own = model.state_dict()
    if options.broadcast_from_rank0 and c10d.is_initialized():
        shared = [state if _is_first() else None]
        c10d.broadcast_object_list(shared, src=0)
        state = shared[0]
    for name, value in state.items():
        place = own.get(name)
        if isinstance(place, DTensor) and not isinstance(value, DTensor):
            state[name] = distribute_tensor(value, place.device_mesh, place.placements, src_data_rank=None)
    missing, unexpected = model.load_state_dict(state, strict=options.strict, assign=False)
    return _IncompatibleKeys(missing, unexpected)
