"""Normalisation, embeddings, distances."""

import tessera
from tessera.overrides import handle_torch_function, has_torch_function_variadic

from .common import overridable
from .composed import resolve

_op_instance_norm = resolve("instance_norm")
_op_embedding_bag = resolve("embedding_bag")


def _verify_batch_size(size):
    count = size[0]
    for n in size[2:]:
        count *= n
    if count == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {size}")


def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    """Normalises each channel (dim 1) over all other dims: with the batch's statistics if training (updating the
    running ones), else the running ones.
    """
    if has_torch_function_variadic(input, running_mean, running_var, weight, bias):
        return handle_torch_function(
            batch_norm,
            (input, running_mean, running_var, weight, bias),
            input,
            running_mean,
            running_var,
            weight=weight,
            bias=bias,
            training=training,
            momentum=momentum,
            eps=eps,
        )
    if training:
        _verify_batch_size(input.size())
    if eps <= 0:
        raise ValueError(f"batch_norm eps must be positive, but got {eps}")
    return tessera.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, True)


@overridable
def instance_norm(
    input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5
):
    """Normalises each channel of each sample over the spatial dims."""
    size = input.size()
    if use_input_stats:
        count = 1
        for n in size[2:]:
            count *= n
        if count == 1:
            raise ValueError(f"Expected more than 1 spatial element when training, got input size {size}")
    return _op_instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True)


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Normalises over the last len(normalized_shape) dims, with the biased variance."""
    tensors = (input, weight, bias)
    if not has_torch_function_variadic(*tensors):
        return tessera.layer_norm(input, normalized_shape, weight, bias, eps, True)
    options = {"weight": weight, "bias": bias, "eps": eps}
    return handle_torch_function(layer_norm, tensors, input, normalized_shape, **options)


@overridable
def rms_norm(input, normalized_shape, weight=None, eps=None):
    """x / sqrt(mean(x^2) + eps) * weight over the last dims; eps defaults to the dtype's machine epsilon."""
    return tessera.rms_norm(input, normalized_shape, weight, eps)


@overridable
def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    """Normalises groups of channels of input (N, C, ...), each sample by itself."""
    if input.dim() < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.dim()}")
    n, channels, *space = input.shape
    _verify_batch_size([n * channels // num_groups, num_groups, *space])
    return tessera.group_norm(input, num_groups, weight, bias, eps, True)


@overridable
def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """x / (k + alpha * mean of x^2 over `size` neighbouring channels)^beta; input (N, C, ...) with at least one spatial
    dim.
    """
    dim = input.dim()
    if dim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {dim} dimensions)")
    if input.numel() == 0:
        return input
    div = input.mul(input)
    # the window slides over channels: put them where a pooling has its spatial dims
    if dim == 3:
        div = tessera.constant_pad_nd(div.unsqueeze(1), (0, 0, size // 2, (size - 1) // 2), 0)
        div = tessera._C._nn.avg_pool2d(div, (size, 1), stride=1).squeeze(1)
    else:
        sizes = input.size()
        div = div.reshape(sizes[0], 1, sizes[1], -1)
        div = tessera.constant_pad_nd(div, (0, 0, size // 2, (size - 1) // 2), 0)
        div = tessera._C._nn.avg_pool2d(div, (size, 1), stride=1).reshape(sizes)
    return input / (div * alpha + k).pow(beta)


@overridable
def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """x / max(|x|_p, eps), the norm taken along `dim`."""
    denom = input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    if out is None:
        return input / denom
    return tessera.div(input, denom, out=out)


def _no_grad_embedding_renorm_(weight, input, max_norm, norm_type):
    """Scales the rows of `weight` that `input` names down to a norm of at most max_norm, in place."""
    with tessera.no_grad():
        rows = input.reshape(-1).unique()
        values = weight.index_select(0, rows)
        norms = values.norm(norm_type, 1, keepdim=True)
        scale = tessera.where(norms > max_norm, max_norm / (norms + 1e-7), tessera.ones_like(norms))
        weight.index_copy_(0, rows, values * scale)


def _positive_padding_idx(padding_idx, weight):
    n = weight.size(0)
    if padding_idx > 0:
        assert padding_idx < n, "Padding_idx must be within num_embeddings"
    elif padding_idx < 0:
        assert padding_idx >= -n, "Padding_idx must be within num_embeddings"
        padding_idx += n
    return padding_idx


def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    """The rows of `weight` (V, D) that `input` (integers, any shape) names: shape (*, D). padding_idx: a row that gets
    no gradient.
    """
    if has_torch_function_variadic(input, weight):
        return handle_torch_function(
            embedding,
            (input, weight),
            input,
            weight,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
        )
    padding_idx = -1 if padding_idx is None else _positive_padding_idx(padding_idx, weight)
    if max_norm is not None:
        input = input.contiguous()
        _no_grad_embedding_renorm_(weight, input, max_norm, norm_type)
    return tessera.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


def _check_bag_arguments(input, offsets, mode, per_sample_weights):
    if per_sample_weights is not None and input.size() != per_sample_weights.size():
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then it must have the "
            f"same shape as the input ({input.shape})"
        )
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
                "sequences. However, found "
                f"offsets of type {type(offsets)}"
            )
    elif input.dim() == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.dim() != 1:
            raise ValueError("offsets has to be a 1D Tensor")
    else:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")


@overridable
def embedding_bag(
    input,
    weight,
    offsets=None,
    max_norm=None,
    norm_type=2,
    scale_grad_by_freq=False,
    mode="mean",
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    """Sums, means or maxima of bags of embeddings: input (B, N), or (N) cut into bags at `offsets`; result (B, D).
    Empty bags give zeros.
    """
    if weight.dtype == tessera.long and input.is_floating_point():
        import warnings

        warnings.warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, input, ...)` is "
            "deprecated, and should now be "
            "`embedding_bag(input, weight, ...)`.",
            stacklevel=2,
        )
        weight, input = input, weight
    _check_bag_arguments(input, offsets, mode, per_sample_weights)
    if input.dim() == 2:
        offsets = tessera.arange(0, input.numel(), input.size(1), dtype=input.dtype, device=input.device)
        input, include_last_offset = input.reshape(-1), False
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    code = {"sum": 0, "mean": 1, "max": 2}[mode]
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if max_norm is not None:
        _no_grad_embedding_renorm_(weight, input, max_norm, norm_type)
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got "
            "mode='"
            f"{mode}'). Please open a feature request on GitHub."
        )
    ret, _, _, _ = _op_embedding_bag(
        weight, input, offsets, scale_grad_by_freq, code, sparse, per_sample_weights, include_last_offset, padding_idx
    )
    return ret
