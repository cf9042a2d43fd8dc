"""Pointwise activations, softmax and its relatives, dropout."""

import tessera
from tessera.overrides import handle_torch_function, has_torch_function_unary

from .common import overridable
from .composed import resolve

_nn = tessera._C._nn
_op_rrelu_ = resolve("rrelu_")
_op_rrelu = resolve("rrelu")
_op_alpha_dropout_ = resolve("alpha_dropout_")
_op_alpha_dropout = resolve("alpha_dropout")
_op_feature_alpha_dropout_ = resolve("feature_alpha_dropout_")
_op_feature_alpha_dropout = resolve("feature_alpha_dropout")
_op_feature_dropout_ = resolve("feature_dropout_")
_op_feature_dropout = resolve("feature_dropout")


def relu(input, inplace=False):
    """max(0, x), elementwise; any shape and real dtype. inplace: writes into `input`."""
    if has_torch_function_unary(input):
        return handle_torch_function(relu, (input,), input, inplace=inplace)
    return tessera.relu_(input) if inplace else tessera.relu(input)


@overridable
def relu6(input, inplace=False):
    """min(max(0, x), 6), elementwise."""
    return _nn.hardtanh_(input, 0.0, 6.0) if inplace else _nn.hardtanh(input, 0.0, 6.0)


@overridable
def threshold(input, threshold, value, inplace=False):
    """x where x > threshold, else `value`."""
    return tessera.threshold_(input, threshold, value) if inplace else tessera.threshold(input, threshold, value)


_threshold = threshold


@overridable
def elu(input, alpha=1.0, inplace=False):
    """x where x > 0, else alpha * (exp(x) - 1)."""
    return _nn.elu_(input, alpha) if inplace else _nn.elu(input, alpha)


@overridable
def selu(input, inplace=False):
    """scale * (max(0, x) + min(0, alpha * (exp(x) - 1))), with the constants of Klambauer et al. 2017."""
    return tessera.selu_(input) if inplace else tessera.selu(input)


@overridable
def celu(input, alpha=1.0, inplace=False):
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    return tessera.celu_(input, alpha) if inplace else tessera.celu(input, alpha)


@overridable
def leaky_relu(input, negative_slope=0.01, inplace=False):
    """x where x > 0, else negative_slope * x."""
    return _nn.leaky_relu_(input, negative_slope) if inplace else _nn.leaky_relu(input, negative_slope)


@overridable
def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """Leaky ReLU with a random slope of [lower, upper] for each element (not training: their mean)."""
    return _op_rrelu_(input, lower, upper, training) if inplace else _op_rrelu(input, lower, upper, training)


@overridable
def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """Clamps to [min_val, max_val]. ValueError if they are in the wrong order."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return _nn.hardtanh_(input, min_val, max_val) if inplace else _nn.hardtanh(input, min_val, max_val)


@overridable
def hardsigmoid(input, inplace=False):
    """relu6(x + 3) / 6."""
    return _nn.hardsigmoid_(input) if inplace else _nn.hardsigmoid(input)


@overridable
def hardswish(input, inplace=False):
    """x * relu6(x + 3) / 6."""
    return _nn.hardswish_(input) if inplace else _nn.hardswish(input)


@overridable
def silu(input, inplace=False):
    """x * sigmoid(x)."""
    return _nn.silu_(input) if inplace else _nn.silu(input)


@overridable
def mish(input, inplace=False):
    """x * tanh(softplus(x))."""
    return _nn.mish_(input) if inplace else _nn.mish(input)


@overridable
def glu(input, dim=-1):
    """a * sigmoid(b) for the two halves of `input` along `dim`. RuntimeError for a 0-dim tensor or an odd size."""
    if input.dim() == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    return _nn.glu(input, dim)


@overridable
def tanhshrink(input):
    """x - tanh(x)."""
    return input - input.tanh()


@overridable
def softsign(input):
    """x / (1 + |x|)."""
    return input / (input.abs() + 1)


@overridable
def tanh(input):
    """tanh, elementwise."""
    return input.tanh()


@overridable
def sigmoid(input):
    """1 / (1 + exp(-x)), elementwise."""
    return input.sigmoid()


def _get_softmax_dim(name, ndim, stacklevel):
    import warnings

    dim = 0 if ndim in (0, 1, 3) else 1
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim={dim} as an "
        f"argument.",
        stacklevel=stacklevel,
    )
    return dim


@overridable
def softmin(input, dim=None, _stacklevel=3, dtype=None):
    """softmax(-x) along `dim`."""
    if dim is None:
        dim = _get_softmax_dim("softmin", input.dim(), _stacklevel)
    return (-input).softmax(dim) if dtype is None else (-input).softmax(dim, dtype=dtype)


@overridable
def softmax(input, dim=None, _stacklevel=3, dtype=None):
    """exp(x) / sum(exp(x)) along `dim`. dtype: the input is cast to it first."""
    if dim is None:
        dim = _get_softmax_dim("softmax", input.dim(), _stacklevel)
    return input.softmax(dim) if dtype is None else input.softmax(dim, dtype=dtype)


@overridable
def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """log(softmax(x)) along `dim`. dtype: the input is cast to it first."""
    if dim is None:
        dim = _get_softmax_dim("log_softmax", input.dim(), _stacklevel)
    return input.log_softmax(dim) if dtype is None else input.log_softmax(dim, dtype=dtype)


@overridable
def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """A sample of the Gumbel-softmax distribution (Jang et al. 2016). hard: one-hot in the forward pass, the soft
    sample's gradient.
    """
    if eps != 1e-10:
        import warnings

        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    gumbels = -tessera.empty_like(logits, memory_format=tessera.legacy_contiguous_format).exponential_().log()
    y_soft = ((logits + gumbels) / tau).softmax(dim)
    if not hard:
        return y_soft
    index = y_soft.max(dim, keepdim=True)[1]
    y_hard = tessera.zeros_like(logits, memory_format=tessera.legacy_contiguous_format).scatter_(dim, index, 1.0)
    return y_hard - y_soft.detach() + y_soft


def _check_p(p):
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def dropout(input, p=0.5, training=True, inplace=False):
    """Zeroes elements with probability p and scales the others by 1 / (1 - p); identity if not training."""
    if has_torch_function_unary(input):
        return handle_torch_function(dropout, (input,), input, p=p, training=training, inplace=inplace)
    _check_p(p)
    return tessera.dropout_(input, p, training) if inplace else tessera.dropout(input, p, training)


@overridable
def alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Dropout that keeps mean 0 and variance 1 of inputs to SELU networks (Klambauer et al. 2017)."""
    _check_p(p)
    return _op_alpha_dropout_(input, p, training) if inplace else _op_alpha_dropout(input, p, training)


@overridable
def feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    """alpha_dropout of whole channels: input (N, C, ...)."""
    _check_p(p)
    return _op_feature_alpha_dropout_(input, p, training) if inplace else _op_feature_alpha_dropout(input, p, training)


def _feature_dropout(input, p, training, inplace, batched):
    if not batched:
        input = input.unsqueeze_(0) if inplace else input.unsqueeze(0)
    result = _op_feature_dropout_(input, p, training) if inplace else _op_feature_dropout(input, p, training)
    if not batched:
        result = result.squeeze_(0) if inplace else result.squeeze(0)
    return result


@overridable
def dropout1d(input, p=0.5, training=True, inplace=False):
    """Zeroes whole channels of (N, C, L) or (C, L). RuntimeError for another rank."""
    _check_p(p)
    n = input.dim()
    if n not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {n}D input. Note that dropout1d exists to provide "
            f"channel-wise dropout on inputs "
            "with 1 spatial dimension, a channel dimension, and an optional batch dimension (i.e. 2D or 3D inputs)."
        )
    return _feature_dropout(input, p, training, inplace, n == 3)


@overridable
def dropout2d(input, p=0.5, training=True, inplace=False):
    """Zeroes whole channels of (N, C, H, W); a 3-D input is taken as (N, C, L)."""
    _check_p(p)
    n = input.dim()
    if n not in (3, 4):
        import warnings

        warnings.warn(
            f"dropout2d: Received a {n}-D input to dropout2d, which is deprecated and will result in an error in a "
            f"future release. To retain the behavior "
            "and silence this warning, please use dropout instead. Note that dropout2d exists to provide channel-wise "
            "dropout on inputs with 2 spatial "
            "dimensions, a channel dimension, and an optional batch dimension (i.e. 3D or 4D inputs).",
            stacklevel=3,
        )
    if n == 3:
        import warnings

        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired "
            "- input is interpreted as shape "
            "(N, C, L), where C is the channel dim. This behavior will change in a future release to interpret the "
            "input as one without a batch "
            "dimension, i.e. shape (C, H, W). To maintain the 1D channel-wise dropout behavior, please switch to using "
            "dropout1d instead.",
            stacklevel=3,
        )
    return _feature_dropout(input, p, training, inplace, True)


@overridable
def dropout3d(input, p=0.5, training=True, inplace=False):
    """Zeroes whole channels of (N, C, D, H, W) or (C, D, H, W)."""
    _check_p(p)
    n = input.dim()
    if n not in (4, 5):
        import warnings

        warnings.warn(
            f"dropout3d: Received a {n}-D input to dropout3d, which is deprecated and will result in an error in a "
            f"future release. To retain the behavior "
            "and silence this warning, please use dropout instead. Note that dropout3d exists to provide channel-wise "
            "dropout on inputs with 3 spatial "
            "dimensions, a channel dimension, and an optional batch dimension (i.e. 4D or 5D inputs).",
            stacklevel=3,
        )
    return _feature_dropout(input, p, training, inplace, n == 5)
