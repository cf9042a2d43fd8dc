"""Communication hooks of DistributedDataParallel: what happens to a bucket of gradients instead of its reduction."""

import enum

from tessera._lazy import attach as _attach

__getattr__, __dir__ = _attach(__name__)

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


class DDPCommHookType(enum.Enum):
    """Hooks by name; the value is (module, function, settings of its state)."""

    ALLREDUCE = ("default_hooks", "allreduce_hook")
    FP16_COMPRESS = ("default_hooks", "fp16_compress_hook")
    BF16_COMPRESS = ("default_hooks", "bf16_compress_hook")
    QUANTIZE_PER_TENSOR = ("quantization_hooks", "quantization_pertensor_hook")
    QUANTIZE_PER_CHANNEL = ("quantization_hooks", "quantization_perchannel_hook")
    POWER_SGD = ("powerSGD_hook", "powerSGD_hook", 1)
    POWER_SGD_RANK2 = ("powerSGD_hook", "powerSGD_hook", 2)
    BATCHED_POWER_SGD = ("powerSGD_hook", "batched_powerSGD_hook", 1)
    BATCHED_POWER_SGD_RANK2 = ("powerSGD_hook", "batched_powerSGD_hook", 2)
    NOOP = ("debugging_hooks", "noop_hook")


def register_ddp_comm_hook(comm_hook_type, model, state=None):
    """Registers one of the hooks of this package.

    Args:
        comm_hook_type: which.
        model: a DistributedDataParallel.
        state: the process group (None: the default one), or for PowerSGD None or its arguments' group.
    """
    from importlib import import_module

    module, function, *rank = comm_hook_type.value
    found = import_module(f"tessera.distributed.algorithms.ddp_comm_hooks.{module}")
    if rank:
        state = found.PowerSGDState(process_group=state, matrix_approximation_rank=rank[0])
    model.register_comm_hook(state, getattr(found, function))
