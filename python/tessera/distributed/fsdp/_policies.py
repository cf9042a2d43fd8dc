"""How sharded training treats numbers and places: values that the wrappers read."""

from dataclasses import dataclass, field
from enum import Enum, auto

import tessera
from tessera.nn.modules.batchnorm import _BatchNorm

__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "CPUOffloadPolicy",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "LocalOptimStateDictConfig",
    "LocalStateDictConfig",
    "MixedPrecision",
    "MixedPrecisionPolicy",
    "OffloadPolicy",
    "OptimStateDictConfig",
    "OptimStateKeyType",
    "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig",
    "ShardingStrategy",
    "StateDictConfig",
    "StateDictSettings",
    "StateDictType",
]


class ShardingStrategy(Enum):
    """What is cut: parameters, gradients and optimizer state (FULL_SHARD), parameters only outside of forward and
    backward (SHARD_GRAD_OP), nothing (NO_SHARD), or the same inside of a machine only (HYBRID).
    """

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """When the next parameters are gathered: before or after the gradients of the current ones are computed."""

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


class StateDictType(Enum):
    """Of what a state dict is made: whole tensors, this process's flat part, or parts that know the whole."""

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


class OptimStateKeyType(Enum):
    """How an optimizer's state dict names parameters."""

    PARAM_NAME = auto()
    PARAM_ID = auto()


@dataclass
class MixedPrecision:
    """Dtypes of parameters in use, of reductions and of buffers; None: as they are."""

    param_dtype: "tessera.dtype | None" = None
    reduce_dtype: "tessera.dtype | None" = None
    buffer_dtype: "tessera.dtype | None" = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: tuple = field(default=(_BatchNorm,))


@dataclass
class CPUOffload:
    """Whether parameters that are not in use lie in host memory."""

    offload_params: bool = False


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """Dtypes of parameters in use, of reductions and of outputs; None: as they are."""

    param_dtype: "tessera.dtype | None" = None
    reduce_dtype: "tessera.dtype | None" = None
    output_dtype: "tessera.dtype | None" = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Nothing is offloaded."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Parameters, gradients and optimizer state lie in host memory, pinned or not."""

    pin_memory: bool = True


@dataclass
class StateDictConfig:
    """Whether state dicts are made in host memory."""

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """For whole tensors; `rank0_only`: in the first process alone."""

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """For flat parts."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """For parts that know the whole."""

    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    """Whether state dicts of optimizers are made in host memory."""

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """For whole tensors; `rank0_only`: in the first process alone."""

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """For flat parts."""

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """For parts that know the whole."""

    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    """What is set for a module's state dicts."""

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig
