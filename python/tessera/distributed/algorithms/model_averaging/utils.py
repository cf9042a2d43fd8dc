"""Averages of parameters over processes."""

import tessera
from tessera.distributed import _collectives as collectives
from tessera.distributed._groups import _group_or_default_group, _rank_not_in_group

__all__ = ["average_parameters", "average_parameters_or_parameter_groups", "get_params_to_average"]


def average_parameters(params, process_group):
    """Brings parameters to their average over a group, in place. Who is not in it does nothing.

    Args:
        params: tensors, of the same shapes everywhere.
        process_group: None: the default group.
    """
    group = _group_or_default_group(process_group)
    if _rank_not_in_group(group):
        return
    kinds = {}
    for param in params:
        kinds.setdefault((param.dtype, param.device), []).append(param)
    for tensors in kinds.values():
        with tessera.no_grad():
            joined = tessera.cat([tensor.detach().reshape(-1) for tensor in tensors]).div_(group.size())
            collectives.all_reduce(joined, group=group)
            at = 0
            for tensor in tensors:
                tensor.detach().copy_(joined[at : at + tensor.numel()].view(tensor.shape))
                at += tensor.numel()


def get_params_to_average(params):
    """Those of parameters, or of an optimizer's groups, that have a gradient."""
    found = []
    for one in params:
        members = one["params"] if isinstance(one, dict) else [one]
        found += [param for param in members if param.grad is not None]
    return found


def average_parameters_or_parameter_groups(params, process_group):
    """Averages parameters, or those of an optimizer's groups, that have a gradient."""
    average_parameters(get_params_to_average(params), process_group)
