"""One module on several devices of a machine."""

from tessera.nn.parallel import comm
from tessera.nn.parallel.data_parallel import DataParallel, data_parallel
from tessera.nn.parallel.parallel_apply import parallel_apply
from tessera.nn.parallel.replicate import replicate
from tessera.nn.parallel.scatter_gather import gather, scatter

__all__ = ["DataParallel", "comm", "data_parallel", "gather", "parallel_apply", "replicate", "scatter"]
