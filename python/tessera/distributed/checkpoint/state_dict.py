"""State dicts of models and optimizers whose parameters may be spread over processes: names are those of the plain
model, whatever wraps it, and optimizers' states go by the names of parameters.
"""

import contextlib
from dataclasses import dataclass
from typing import Any, Union

import tessera
from tessera import nn
from tessera.distributed import distributed_c10d as c10d
from tessera.distributed.tensor import DTensor, distribute_tensor
from tessera.nn.modules.module import _IncompatibleKeys
from tessera.optim import Optimizer
from tessera.utils import _pytree

__all__ = [
    "FQNS_T",
    "PrimitiveType",
    "ValueType",
    "DictValueType",
    "ListDictValueType",
    "OptimizerStateType",
    "StateDictOptions",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]

FQNS_T = set[str]
PrimitiveType = Union[DTensor, tessera.Tensor, int, float, str]
ValueType = Union[PrimitiveType, list[PrimitiveType], tuple[PrimitiveType], dict[str, Any]]
DictValueType = dict[str, ValueType]
ListDictValueType = list[DictValueType]
OptimizerStateType = dict[str, Union[DictValueType, ListDictValueType]]

_STATE, _GROUPS, _PARAMS = "state", "param_groups", "params"
# Children that are the module itself, in a wrapper.
_WRAPPED = ("_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_orig_mod")


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
        dsd_fqn_modifiers: accepted for older programs: what hooks of a module rename in its state dict has that name.
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


def _checked(options):
    options = options or StateDictOptions()
    if options.broadcast_from_rank0 and not options.full_state_dict:
        raise ValueError("full_state_dict must be True when broadcast_from_rank0 is True.")
    return options


class _Names:
    """Names of a model's tensors as they are, and without those of wrappers."""

    def __init__(self, model):
        self.clean_modules = {"": ""}
        for name, _ in model.named_modules(remove_duplicate=False):
            if not name:
                continue
            head, _, last = name.rpartition(".")
            parent, above = model.get_submodule(head), self.clean_modules[head]
            inside = last in _WRAPPED or (last == "module" and isinstance(parent, nn.parallel.DistributedDataParallel))
            self.clean_modules[name] = above if inside else f"{above}.{last}" if above else last
        self.model = model

    def clean(self, name):
        """The name of a tensor without those of wrappers."""
        head, _, last = name.rpartition(".")
        head = self.clean_modules.get(head, head)
        return f"{head}.{last}" if head else last

    def modules(self, wanted):
        """The clean beginnings of the names in some submodules."""
        found = [self.clean_modules[name] for name, part in self.model.named_modules() if part in wanted]
        return [f"{name}." if name else "" for name in found]

    def parameters(self):
        """{parameter: its clean name}; the first one, if it has several."""
        found = {}
        for name, parameter in self.model.named_parameters(remove_duplicate=False):
            found.setdefault(parameter, self.clean(name))
        return found


def _older_fsdp(model):
    """The FullyShardedDataParallel wrapper class, if the model has such wrappers."""
    from tessera.distributed import fsdp

    cls = fsdp.FullyShardedDataParallel
    return cls if any(isinstance(part, cls) for part in model.modules()) else None


@contextlib.contextmanager
def _wrapper_states(model, options):
    """Inside the block wrappers give what the options want."""
    cls = _older_fsdp(model)
    if cls is None:
        yield None
        return
    from tessera.distributed import fsdp

    if options.full_state_dict:
        alone = options.cpu_offload and not options.broadcast_from_rank0
        kind = fsdp.StateDictType.FULL_STATE_DICT
        configs = (
            fsdp.FullStateDictConfig(offload_to_cpu=options.cpu_offload, rank0_only=alone),
            fsdp.FullOptimStateDictConfig(offload_to_cpu=options.cpu_offload, rank0_only=alone),
        )
    else:
        kind = fsdp.StateDictType.SHARDED_STATE_DICT
        configs = (
            fsdp.ShardedStateDictConfig(offload_to_cpu=options.cpu_offload),
            fsdp.ShardedOptimStateDictConfig(offload_to_cpu=options.cpu_offload),
        )
    with cls.state_dict_type(model, kind, *configs):
        yield cls


def _chosen(state, prefixes, keep):
    """The tensors of some submodules."""
    if prefixes is None:
        return dict(state)
    found = {}
    for name, value in state.items():
        prefix = next((p for p in prefixes if name.startswith(p)), None)
        if prefix is not None:
            found[name if keep else name[len(prefix) :]] = value
    return found


def _delivered(value, options):
    """A tensor as the options want it; collective, if it is to be whole."""
    if options.full_state_dict and isinstance(value, DTensor):
        value = value.full_tensor()
    return value.cpu() if options.cpu_offload else value


def _all_delivered(state, options):
    state = _pytree.tree_map_only(tessera.Tensor, lambda v: _delivered(v.detach(), options), state)
    return {} if options.full_state_dict and options.cpu_offload and not _is_first() else state


def get_model_state_dict(model, *, submodules=None, options=None):
    """A module's state dict.

    Args:
        model: Module.
        submodules: a set of submodules, whose tensors alone are wanted.
        options: StateDictOptions.
    """
    options, names = _checked(options), _Names(model)
    with _wrapper_states(model, options):
        state = {names.clean(name): value for name, value in model.state_dict().items()}
    if options.ignore_frozen_params:
        frozen = {names.clean(name) for name, p in model.named_parameters() if not p.requires_grad}
        state = {name: value for name, value in state.items() if name not in frozen}
    prefixes = None if submodules is None else names.modules(submodules)
    return _all_delivered(_chosen(state, prefixes, options.keep_submodule_prefixes), options)


def _from_first(state, options):
    """The first process's state dict, in all of them."""
    if not options.broadcast_from_rank0 or not c10d.is_initialized():
        return state
    shared = [state if _is_first() else None]
    c10d.broadcast_object_list(shared, src=0)
    return shared[0]


def _like(value, place):
    """A whole tensor as the one that it replaces lies."""
    if isinstance(place, DTensor) and isinstance(value, tessera.Tensor) and not isinstance(value, DTensor):
        return distribute_tensor(value.detach(), place.device_mesh, place.placements, src_data_rank=None)
    return value


def set_model_state_dict(model, model_state_dict, *, options=None):
    """Loads a state dict, of DTensors or of whole tensors, into a module. With `full_state_dict` a module that has
    tensors on the meta device takes the given tensors themselves.

    Args:
        model: Module.
        model_state_dict: {name: tensor}; also {submodule: its state dict}.
        options: StateDictOptions.

    Returns: (missing_keys, unexpected_keys). Raises: RuntimeError for names that do not fit with `strict`, ValueError
    for `broadcast_from_rank0` without `full_state_dict`.
    """
    options, names = _checked(options), _Names(model)
    state = {}
    for key, value in model_state_dict.items():
        if isinstance(key, nn.Module):
            (prefix,) = names.modules({key})
            state.update({prefix + name: inner for name, inner in value.items()})
        else:
            state[key] = value
    state = _from_first(state, options)
    with _wrapper_states(model, options) as wrapper:
        own = {} if wrapper else {names.clean(name): (name, value) for name, value in model.state_dict().items()}
        raw = {own[n][0] if n in own else n: _like(v, own[n][1]) if n in own else v for n, v in state.items()}
        hollow = options.full_state_dict and any(getattr(v, "is_meta", False) for _, v in own.values())
        missing, unexpected = model.load_state_dict(raw, strict=options.strict, assign=hollow)
    return _IncompatibleKeys([names.clean(name) for name in missing], unexpected)


def _init_optim_state(optim):
    """Lets an optimizer that has not made a step make its state, with gradients of zero and no change of parameters."""
    parameters = [p for group in optim.param_groups for p in group[_PARAMS]]
    if optim.state or any(p.grad is not None for p in parameters):
        return
    rates = [group.get("lr") for group in optim.param_groups]
    for p in parameters:
        if p.requires_grad:
            p.grad = tessera.zeros_like(p)
    for group in optim.param_groups:
        if "lr" in group:
            group["lr"] = tessera.tensor(0.0) if isinstance(group["lr"], tessera.Tensor) else 0.0
    optim.step(closure=None)
    for group, rate in zip(optim.param_groups, rates):
        if "lr" in group:
            group["lr"] = rate
    optim.zero_grad(set_to_none=True)


def _listed(optimizers):
    return (optimizers,) if isinstance(optimizers, Optimizer) else tuple(optimizers)


def _named_states(model, optim, names, options):
    """(states, groups) of an optimizer, by names of parameters."""
    with _wrapper_states(model, options) as wrapper:
        if wrapper is not None:
            state = wrapper.optim_state_dict(model, optim)
            return state.get(_STATE, {}), state.get(_GROUPS, [])
    known = names.parameters()
    _init_optim_state(optim)
    for group in optim.param_groups:
        for parameter in group[_PARAMS]:
            if parameter not in known:
                raise KeyError(
                    f"the optimizer has a parameter of shape {tuple(parameter.shape)} that is not the model's"
                )
    states = {known[p]: dict(s) for p, s in optim.state.items() if p in known}
    groups = [{**g, _PARAMS: [known[p] for p in g[_PARAMS]]} for g in optim.param_groups]
    return states, groups


def get_optimizer_state_dict(model, optimizers, *, submodules=None, options=None):
    """The state dict of one or several optimizers of a model.

    Args:
        model: Module.
        optimizers: Optimizer, or several; one that has not made a step yet makes its state (of zeros).
        submodules: a set of submodules, whose parameters alone are wanted.
        options: StateDictOptions.

    Returns: {"state": {name: {...}}, "param_groups": [...]} with names of parameters; with
    `flatten_optimizer_state_dict` one level of names such as "state.weight.exp_avg" and "param_groups.weight.lr".
    Raises: KeyError for a parameter that the model does not have.
    """
    options, names = _checked(options), _Names(model)
    prefixes = None if submodules is None else names.modules(submodules)
    whole = {_STATE: {}, _GROUPS: []}
    for optim in _listed(optimizers):
        states, groups = _named_states(model, optim, names, options)
        whole[_STATE].update(_chosen(states, prefixes, options.keep_submodule_prefixes))
        for group in groups:
            chosen = list(_chosen(dict.fromkeys(group[_PARAMS]), prefixes, options.keep_submodule_prefixes))
            if chosen or prefixes is None:
                whole[_GROUPS].append({**group, _PARAMS: chosen})
    if options.flatten_optimizer_state_dict:
        whole = _flattened(whole)
    return _all_delivered(whole, options)


def _flattened(whole):
    flat = {f"{_STATE}.{name}.{k}": v for name, state in whole[_STATE].items() for k, v in state.items()}
    for group in whole[_GROUPS]:
        for name in group[_PARAMS]:
            flat.update({f"{_GROUPS}.{name}.{k}": v for k, v in group.items() if k != _PARAMS})
    return flat


def _taken(flat, states, groups):
    """What a flat state dict has for an optimizer of such states and groups."""
    whole = {_STATE: {}, _GROUPS: []}
    for name, state in states.items():
        whole[_STATE][name] = {k: flat[f"{_STATE}.{name}.{k}"] for k in state if f"{_STATE}.{name}.{k}" in flat}
    for group in groups:
        found = dict(group)
        for key in group:
            for name in group[_PARAMS]:
                found[key] = flat.get(f"{_GROUPS}.{name}.{key}", found[key])
        whole[_GROUPS].append(found)
    return whole


def _load_optimizer(model, optim, given, names, options):
    states, groups = _named_states(model, optim, names, options)
    if _STATE not in given and _GROUPS not in given:
        given = _taken(given, states, groups)
    order = [name for group in groups for name in group[_PARAMS]]
    places = {name: at for at, name in enumerate(order)}
    by_name = {name: group for group in given[_GROUPS] for name in group[_PARAMS]}
    loaded = {_STATE: {}, _GROUPS: []}
    for name in order:
        if name not in given[_STATE]:
            if options.strict and name not in by_name:
                raise RuntimeError(f"the optimizer's state dict has nothing for the parameter '{name}'")
            continue
        own = states.get(name, {})
        loaded[_STATE][places[name]] = {k: _like(v, own.get(k)) for k, v in given[_STATE][name].items()}
    for group in groups:
        found = next((by_name[name] for name in group[_PARAMS] if name in by_name), group)
        values = {key: found.get(key, value) for key, value in group.items()}
        loaded[_GROUPS].append({**values, _PARAMS: [places[name] for name in group[_PARAMS]]})
    optim.load_state_dict(loaded)


def set_optimizer_state_dict(model, optimizers, optim_state_dict, *, options=None):
    """Loads a state dict, of DTensors or of whole tensors, into one or several optimizers of a model.

    Args:
        model: Module.
        optimizers: Optimizer, or several.
        optim_state_dict: as `get_optimizer_state_dict` gives it, flat or not.
        options: StateDictOptions.

    Raises: RuntimeError for a parameter without state with `strict`, ValueError for `broadcast_from_rank0` without
    `full_state_dict`.
    """
    options, names = _checked(options), _Names(model)
    given = _from_first(dict(optim_state_dict), options)
    for optim in _listed(optimizers):
        with _wrapper_states(model, options) as wrapper:
            if wrapper is not None:
                _init_optim_state(optim)
                optim.load_state_dict(wrapper.optim_state_dict_to_load(model, optim, given))
                continue
        _load_optimizer(model, optim, given, names, options)


def get_state_dict(model, optimizers, *, submodules=None, options=None):
    """(get_model_state_dict, get_optimizer_state_dict) of a model and its optimizers."""
    optim = get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options)
    return get_model_state_dict(model, submodules=submodules, options=options), optim


def set_state_dict(model, optimizers, *, model_state_dict, optim_state_dict, options=None):
    """set_model_state_dict and set_optimizer_state_dict. Returns: (missing_keys, unexpected_keys) of the model."""
    keys = (
        set_model_state_dict(model, model_state_dict, options=options)
        if model_state_dict
        else _IncompatibleKeys([], [])
    )
    if optim_state_dict:
        set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return keys
