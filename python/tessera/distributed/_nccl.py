"""What programs name of the backend "nccl", which this build does not have: options, and a class that says so."""

from tessera.distributed._process_group import C10dBackend, _BackendOptions
from tessera.distributed.constants import default_pg_nccl_timeout


class NCCLConfig:
    """Settings of an NCCL communicator; None or -1: NCCL's own choice."""

    def __init__(self):
        self.blocking = self.cga_cluster_size = self.min_ctas = self.max_ctas = None
        self.split_share = self.traffic_class = self.collnet_enable = self.cta_policy = None
        self.net_name = self.comm_name = None


class _NCCLOptions(_BackendOptions):
    """Options of ProcessGroupNCCL.

    Args:
        is_high_priority_stream: whether its kernels run before others.
    """

    def __init__(self, is_high_priority_stream=False):
        super().__init__("nccl", default_pg_nccl_timeout)
        self.is_high_priority_stream, self.config = is_high_priority_stream, NCCLConfig()
        self.split_from, self.split_color = None, 0


class ProcessGroupNCCL(C10dBackend):
    """A group of the backend "nccl". Raises: RuntimeError, as this build has none."""

    NCCLConfig = NCCLConfig
    Options = _NCCLOptions
    NCCL_CTA_POLICY_DEFAULT, NCCL_CTA_POLICY_EFFICIENCY, NCCL_CTA_POLICY_ZERO = 0, 1, 2

    def __init__(self, *args, **kwargs):
        from tessera.distributed._backends import check_available

        check_available("nccl")
