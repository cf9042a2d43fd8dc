"""Instance normalisation layers."""

import warnings

from tessera.nn import functional as F

from .batchnorm import _LazyNormBase, _NormBase

__all__ = [
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]


class _InstanceNorm(_NormBase):
    def __init__(
        self, num_features, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False, device=None, dtype=None
    ):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device=device, dtype=dtype)

    def _get_no_batch_dim(self):
        """The rank of an input without a batch dim."""
        raise NotImplementedError

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


def _check_dims(input, n):
    if input.dim() not in (n, n + 1):
        raise ValueError(f"expected {n}D or {n + 1}D input (got {input.dim()}D input)")


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation (Ulyanov et al. 2016) of (N, C, L) or (C, L): each channel of each sample by its own mean
    and biased variance.
    """

    def _get_no_batch_dim(self):
        return 2

    def _check_input_dim(self, input):
        _check_dims(input, 2)


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm1d whose num_features comes from the first input."""

    cls_to_become = InstanceNorm1d
    _get_no_batch_dim = InstanceNorm1d._get_no_batch_dim
    _check_input_dim = InstanceNorm1d._check_input_dim


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation of (N, C, H, W) or (C, H, W)."""

    def _get_no_batch_dim(self):
        return 3

    def _check_input_dim(self, input):
        _check_dims(input, 3)


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm2d whose num_features comes from the first input."""

    cls_to_become = InstanceNorm2d
    _get_no_batch_dim = InstanceNorm2d._get_no_batch_dim
    _check_input_dim = InstanceNorm2d._check_input_dim


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of (N, C, D, H, W) or (C, D, H, W)."""

    def _get_no_batch_dim(self):
        return 4

    def _check_input_dim(self, input):
        _check_dims(input, 4)


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm3d whose num_features comes from the first input."""

    cls_to_become = InstanceNorm3d
    _get_no_batch_dim = InstanceNorm3d._get_no_batch_dim
    _check_input_dim = InstanceNorm3d._check_input_dim
