"""Optimizers over several processes: with sharded state, with averages now and then, with parameters elsewhere."""

from tessera._lazy import attach as _attach

__getattr__, __dir__ = _attach(
    __name__,
    {
        "DistributedOptimizer": "optimizer",
        "PostLocalSGDOptimizer": "post_localSGD_optimizer",
        "ZeroRedundancyOptimizer": "zero_redundancy_optimizer",
        "as_functional_optim": "utils",
        "functional_optim_map": "utils",
        "register_functional_optim": "utils",
    },
)

__all__ = ["DistributedOptimizer", "PostLocalSGDOptimizer", "ZeroRedundancyOptimizer", "as_functional_optim"]
