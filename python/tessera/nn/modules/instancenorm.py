"""Instance normalisation layers."""

import warnings

from tessera.nn import functional as F

from ._declared import layer
from .batchnorm import _NormBase, lazy_norm

__all__ = [
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]


@layer(
    "num_features, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False, device=None, dtype=None",
    base="num_features, eps, momentum, affine, track_running_stats, device=device, dtype=dtype",
)
class _InstanceNorm(_NormBase):
    def _get_no_batch_dim(self):
        """The rank of an input without a batch dim."""
        if self._dims is None:
            raise NotImplementedError
        return self._dims[0]

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        version = local_metadata.get("version", None)
        if version is None and not self.track_running_stats:
            found = [prefix + name for name in ("running_mean", "running_var") if prefix + name in state_dict]
            if found:
                error_msgs.append(
                    "Unexpected running stats buffer(s) {} for {} with track_running_stats=False. If state_dict is a "
                    "checkpoint saved before 0.4.0, this may "
                    "be expected because {} does not track running stats by default since 0.4.0. Please remove these "
                    "keys from state_dict. If the running "
                    "stats are actually needed, instead set track_running_stats=True in {} to enable them. See the "
                    "documentation of {} for details.".format(
                        " and ".join(f'"{k}"' for k in found), *[self.__class__.__name__] * 4
                    )
                )
                for key in found:
                    state_dict.pop(key)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def forward(self, input):
        self._check_input_dim(input)
        batched = input.dim() != self._get_no_batch_dim()
        features = input.size(1 if batched else 0)
        if features != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={1 if batched else 0} to match num_features ({self.num_features}), "
                    f"but got: {features}."
                )
            warnings.warn(
                f"input's size at dim={1 if batched else 0} does not match num_features. You can silence this warning "
                f"by not passing in num_features, which is "
                "not used because affine=False",
                stacklevel=2,
            )
        own_statistics = self.training or not self.track_running_stats
        result = F.instance_norm(
            input if batched else input.unsqueeze(0),
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            own_statistics,
            self.momentum or 0.0,
            self.eps,
        )
        return result if batched else result.squeeze(0)


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation (Ulyanov et al. 2016) of (N, C, L) or (C, L): each channel of each sample by its own mean
    and biased variance.
    """

    _dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation of (N, C, H, W) or (C, H, W)."""

    _dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of (N, C, D, H, W) or (C, D, H, W)."""

    _dims = (4, 5)


LazyInstanceNorm1d = lazy_norm(InstanceNorm1d)
LazyInstanceNorm2d = lazy_norm(InstanceNorm2d)
LazyInstanceNorm3d = lazy_norm(InstanceNorm3d)
