"""Scaling of gradients of which each process has a part."""

import tessera
from tessera.amp.grad_scaler import GradScaler, OptState
from tessera.distributed import distributed_c10d as c10d

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(GradScaler):
    """GradScaler for gradients that are cut over a group: an overflow in one process is one in all.

    Args:
        device: type of device.
        init_scale, backoff_factor, growth_factor, growth_interval, enabled: as of GradScaler.
        process_group: the group; None: all processes.
    """

    def __init__(
        self,
        device="cuda",
        init_scale=2.0**16,
        backoff_factor=0.5,
        growth_factor=2.0,
        growth_interval=2000,
        enabled=True,
        process_group=None,
    ):
        super().__init__(
            device,
            init_scale=init_scale,
            backoff_factor=backoff_factor,
            growth_factor=growth_factor,
            growth_interval=growth_interval,
            enabled=enabled,
        )
        self.process_group = process_group

    def unscale_(self, optimizer):
        """As of GradScaler, and tells the group of overflows."""
        if not self._enabled:
            return
        super().unscale_(optimizer)
        if not c10d.is_initialized():
            return
        state = self._per_optimizer_states[id(optimizer)]
        assert state["stage"] is OptState.UNSCALED
        for found in state["found_inf_per_device"].values():
            with tessera.no_grad():
                c10d.all_reduce(found, op=c10d.ReduceOp.MAX, group=self.process_group)
