"""Batch normalisation layers."""

import tessera
from tessera._lazy import require
from tessera.nn import functional as F
from tessera.nn.parameter import UninitializedBuffer

from ._declared import first_values, layer
from ._parts import lazy_parameters
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

_OPTIONS = "num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None"


@layer(
    _OPTIONS,
    shows="num_features eps= momentum= affine= track_running_stats=",
    then="self._make_statistics(device, dtype)",
    weight="(num_features,) if affine ~ ones",
    bias="(num_features,) if affine ~ zeros",
)
class _NormBase(Module):
    """What batch and instance norm share: affine parameters and running statistics."""

    _version = 2

    def _statistics(self):
        """Name -> (shape, first value) of the buffers; the count is an integer."""
        shape = (self.num_features,)
        return {"running_mean": (shape, 0), "running_var": (shape, 1), "num_batches_tracked": ((), 0)}

    def _make_statistics(self, device, dtype):
        for name, (shape, _) in self._statistics().items():
            kind = dtype if shape else tessera.int64
            there = self.track_running_stats
            self.register_buffer(name, tessera.empty(shape, device=device, dtype=kind) if there else None)

    def reset_running_stats(self):
        """Sets the running mean to 0, the running variance to 1, the count to 0."""
        if self.track_running_stats:
            for name, (_, value) in self._statistics().items():
                getattr(self, name).fill_(value)

    def reset_parameters(self):
        """Sets weight to 1 and bias to 0, and resets the running statistics."""
        self.reset_running_stats()
        first_values(self)

    _dims = None

    def _check_input_dim(self, input):
        if self._dims is None:
            raise NotImplementedError
        if input.dim() not in self._dims:
            expected = " or ".join(f"{n}D" for n in self._dims)
            raise ValueError(f"expected {expected} input (got {input.dim()}D input)")

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
    def _update_factor(self):
        """Counts the batch; the weight of its statistics in the running ones. Momentum None: a mean over all batches,
        whose weight is a tensor, since a device would be waited for to know it.
        """
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                factor = self.num_batches_tracked.to(self.running_mean.dtype).reciprocal()
        return factor

    def forward(self, input):
        self._check_input_dim(input)
        factor = self._update_factor()
        use_batch = self.training or (self.running_mean is None and self.running_var is None)
        # without tracking the buffers, if there are any, are not touched
        keep = not self.training or self.track_running_stats
        running = (self.running_mean, self.running_var) if keep else (None, None)
        if not isinstance(factor, tessera.Tensor):
            return F.batch_norm(input, *running, self.weight, self.bias, use_batch, factor, self.eps)
        batch = [tessera.zeros_like(t) for t in running]
        out = F.batch_norm(input, *batch, self.weight, self.bias, use_batch, 1.0, self.eps)
        with tessera.no_grad():
            for total, now in zip(running, batch):
                total.lerp_(now, factor)
        return out


# No features at first: no parameter is drawn and no buffer filled before the shape is known.
@layer(
    _OPTIONS.partition(", ")[2],
    base="0, eps, momentum, False, False, device=device, dtype=dtype",
    then="self._make_lazy(affine, track_running_stats, device, dtype)",
)
class _LazyNormBase(InferredMixin, _NormBase):
    _unknown = "num_features"

    def _make_lazy(self, affine, track_running_stats, device, dtype):
        self.affine, self.track_running_stats = affine, track_running_stats
        lazy_parameters(self, device, dtype, *["weight", "bias"] * bool(affine))
        if track_running_stats:
            for name, (shape, value) in self._statistics().items():
                lazy = UninitializedBuffer(device=device, dtype=dtype) if shape else None
                setattr(self, name, tessera.tensor(value, device=device) if lazy is None else lazy)

    def _shapes(self):
        return super()._shapes() | {name: shape for name, (shape, _) in self._statistics().items()}

    def initialize_parameters(self, input):
        """Takes num_features from dim 1 of the input."""
        if self.has_uninitialized_params():
            self.num_features = input.shape[1]
            self._materialize()


def lazy_norm(plain):
    """The lazy form of a layer of this family."""
    kind = next(k for k in plain.__mro__ if k.__name__ in ("_BatchNorm", "_InstanceNorm"))
    own = {name: value for name, value in vars(plain).items() if name in ("_dims", "__module__")}
    article = "An" if plain.__name__[0] in "AEIOU" else "A"
    doc = f"{article} {plain.__name__} whose num_features comes from the first input."
    return type("Lazy" + plain.__name__, (_LazyNormBase, kind), {**own, "cls_to_become": plain, "__doc__": doc})


class BatchNorm1d(_BatchNorm):
    """Batch normalisation (Ioffe and Szegedy 2015) of (N, C) or (N, C, L): each channel by its mean and biased variance
    over the batch.
    """

    _dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of (N, C, H, W)."""

    _dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of (N, C, D, H, W)."""

    _dims = (5,)


LazyBatchNorm1d = lazy_norm(BatchNorm1d)
LazyBatchNorm2d = lazy_norm(BatchNorm2d)
LazyBatchNorm3d = lazy_norm(BatchNorm3d)


@layer(
    "num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, process_group=None, device=None, "
    "dtype=None",
    base="num_features, eps, momentum, affine, track_running_stats, device=device, dtype=dtype",
)
class SyncBatchNorm(_BatchNorm):
    """Batch normalisation with statistics over all processes of a group; without a group of several processes it is
    plain batch norm.
    """

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
