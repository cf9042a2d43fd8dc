"""One module on several devices of a machine, or in several processes."""

from tessera._lazy import attach as _attach, keep_functions as _keep_functions
from tessera.nn.parallel import comm
from tessera.nn.parallel.data_parallel import DataParallel, data_parallel
from tessera.nn.parallel.parallel_apply import parallel_apply
from tessera.nn.parallel.replicate import replicate
from tessera.nn.parallel.scatter_gather import gather, scatter

__getattr__, __dir__ = _attach(__name__, {"DistributedDataParallel": "distributed"})

__all__ = [
    "DataParallel",
    "DistributedDataParallel",
    "comm",
    "data_parallel",
    "gather",
    "parallel_apply",
    "replicate",
    "scatter",
]

_keep_functions(__name__, "data_parallel", "parallel_apply", "replicate")
