"""Batch normalisation layers."""

import tessera
from tessera._lazy import require
from tessera.nn import functional as F
from tessera.nn import init
from tessera.nn.parameter import UninitializedBuffer

from ._parts import lazy_parameters, new_parameters
from .lazy import InferredMixin
from .module import Module

__all__ = [
    "BatchNorm1d",
    "LazyBatchNorm1d",
    "BatchNorm2d",
    "LazyBatchNorm2d",
    "BatchNorm3d",
    "LazyBatchNorm3d",
    "SyncBatchNorm",
]


class _NormBase(Module):
    """What batch and instance norm share: affine parameters and running statistics."""

    _version = 2
    __constants__ = ["track_running_stats", "momentum", "eps", "num_features", "affine"]

    def __init__(
        self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None
    ):
        super().__init__()
        vars(self).update(
            num_features=num_features,
            eps=eps,
            momentum=momentum,
            affine=affine,
            track_running_stats=track_running_stats,
        )
        shape = (num_features,)
        new_parameters(self, device, dtype, weight=shape if affine else None, bias=shape if affine else None)
        for name, size, kind in (
            ("running_mean", shape, dtype),
            ("running_var", shape, dtype),
            ("num_batches_tracked", (), tessera.int64),
        ):
            self.register_buffer(name, tessera.empty(size, device=device, dtype=kind) if track_running_stats else None)
        self.reset_parameters()

    def reset_running_stats(self):
        """Sets the running mean to 0, the running variance to 1, the count to 0."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self):
        """Sets weight to 1 and bias to 0, and resets the running statistics."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            init.zeros_(self.bias)

    def _check_input_dim(self, input):
        raise NotImplementedError

    def extra_repr(self):
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        version = local_metadata.get("version", None)
        if (version is None or version < 2) and self.track_running_stats:
            # checkpoints of version 1 have no count
            key = prefix + "num_batches_tracked"
            if key not in state_dict:
                own = self.num_batches_tracked
                state_dict[key] = (
                    own if own is not None and own.device.type != "meta" else tessera.tensor(0, dtype=tessera.long)
                )
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class _BatchNorm(_NormBase):
    def __init__(
        self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None
    ):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device=device, dtype=dtype)

    def _update_factor(self):
        """Counts the batch; the weight of its statistics in the running ones (momentum None: cumulative average)."""
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                factor = 1.0 / float(self.num_batches_tracked)
        return factor

    def forward(self, input):
        self._check_input_dim(input)
        factor = self._update_factor()
        use_batch = self.training or (self.running_mean is None and self.running_var is None)
        # without tracking the buffers, if there are any, are not touched
        keep = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if keep else None,
            self.running_var if keep else None,
            self.weight,
            self.bias,
            use_batch,
            factor,
            self.eps,
        )


class _LazyNormBase(InferredMixin, _NormBase):
    _unknown = "num_features"

    def __init__(self, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None):
        # 0 features: no parameter is drawn and no buffer filled before the shape is known
        super().__init__(0, eps, momentum, False, False, device=device, dtype=dtype)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            lazy_parameters(self, device, dtype, "weight", "bias")
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = tessera.tensor(0, dtype=tessera.long, device=device)

    def initialize_parameters(self, input):
        """Takes num_features from dim 1 of the input."""
        if self.has_uninitialized_params():
            self.num_features = input.shape[1]
            self._materialize(**dict.fromkeys(("weight", "bias", "running_mean", "running_var"), (self.num_features,)))


def _check_dims(input, dims, text):
    if input.dim() not in dims:
        raise ValueError(f"expected {text} input (got {input.dim()}D input)")


class BatchNorm1d(_BatchNorm):
    """Batch normalisation (Ioffe and Szegedy 2015) of (N, C) or (N, C, L): each channel by its mean and biased variance
    over the batch.
    """

    def _check_input_dim(self, input):
        _check_dims(input, (2, 3), "2D or 3D")


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """A BatchNorm1d whose num_features comes from the first input."""

    cls_to_become = BatchNorm1d
    _check_input_dim = BatchNorm1d._check_input_dim


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of (N, C, H, W)."""

    def _check_input_dim(self, input):
        _check_dims(input, (4,), "4D")


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """A BatchNorm2d whose num_features comes from the first input."""

    cls_to_become = BatchNorm2d
    _check_input_dim = BatchNorm2d._check_input_dim


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of (N, C, D, H, W)."""

    def _check_input_dim(self, input):
        _check_dims(input, (5,), "5D")


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """A BatchNorm3d whose num_features comes from the first input."""

    cls_to_become = BatchNorm3d
    _check_input_dim = BatchNorm3d._check_input_dim


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation with statistics over all processes of a group; without a group of several processes it is
    plain batch norm.
    """

    def __init__(
        self,
        num_features,
        eps=1e-5,
        momentum=0.1,
        affine=True,
        track_running_stats=True,
        process_group=None,
        device=None,
        dtype=None,
    ):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device=device, dtype=dtype)
        self.process_group = process_group

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def _check_non_zero_input_channels(self, input):
        if input.size(1) == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    def _group(self):
        """The process group to synchronise with, or None."""
        import sys

        dist = sys.modules.get("tessera.distributed")
        if dist is None or not self.training or not (dist.is_available() and dist.is_initialized()):
            return None
        group = self.process_group if self.process_group else dist.group.WORLD
        return group if dist.get_world_size(group) > 1 else None

    def forward(self, input):
        self._check_input_dim(input)
        self._check_non_zero_input_channels(input)
        group = self._group()
        if group is None:
            return super().forward(input)
        return self._synchronized(input, group, self._update_factor())

    def _synchronized(self, input, group, factor):
        """Batch norm with sums, sums of squares and counts added up over the group (the sum is differentiable)."""
        all_reduce = require("distributed.nn.functional.all_reduce", "SyncBatchNorm")
        dims = [d for d in range(input.dim()) if d != 1]
        x = input.float() if input.dtype in (tessera.float16, tessera.bfloat16) else input
        count = tessera.full((1,), input.numel() // input.size(1), dtype=x.dtype, device=x.device)
        sums = all_reduce(tessera.cat([x.sum(dims), (x * x).sum(dims), count]), group=group)
        c = input.size(1)
        n = sums[-1].detach()
        mean = sums[:c] / n
        var = sums[c : 2 * c] / n - mean * mean
        if self.track_running_stats and self.running_mean is not None:
            with tessera.no_grad():
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), factor)
                self.running_var.lerp_((var * (n / (n - 1))).to(self.running_var.dtype), factor)
        shape = (1, c) + (1,) * (input.dim() - 2)
        out = (x - mean.view(shape)) * (var + self.eps).rsqrt().view(shape)
        if self.affine:
            out = out * self.weight.view(shape) + self.bias.view(shape)
        return out.to(input.dtype)

    @classmethod
    def convert_sync_batchnorm(cls, module, process_group=None):
        """`module` with each BatchNorm layer in it replaced by a SyncBatchNorm with the same parameters."""
        result = module
        if isinstance(module, _BatchNorm):
            result = SyncBatchNorm(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
            )
            # the same tensors, and the mode
            result._parameters.update(module._parameters)
            result._buffers.update(module._buffers)
            vars(result).update(
                (name, value) for name, value in vars(module).items() if name in ("training", "qconfig")
            )
        for name, child in module.named_children():
            result.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return result
