"""Activation layers and multi-head attention."""

import tessera
from tessera.nn import functional as F
from tessera.nn import init
from tessera.overrides import has_torch_function

from ._declared import first_values, layer
from .linear import NonDynamicallyQuantizableLinear
from .module import Module

__all__ = [
    "Threshold",
    "ReLU",
    "RReLU",
    "Hardtanh",
    "ReLU6",
    "Sigmoid",
    "Hardsigmoid",
    "Tanh",
    "SiLU",
    "Mish",
    "Hardswish",
    "ELU",
    "CELU",
    "SELU",
    "GLU",
    "GELU",
    "Hardshrink",
    "LeakyReLU",
    "LogSigmoid",
    "Softplus",
    "Softshrink",
    "MultiheadAttention",
    "PReLU",
    "Softsign",
    "Tanhshrink",
    "Softmin",
    "Softmax",
    "Softmax2d",
    "LogSoftmax",
]


@layer("inplace=False", shows="inplace=?")
class _Inplace(Module):
    """Base of activations whose only argument is `inplace`."""


@layer(
    "threshold, value, inplace=False", "F.threshold(input, threshold, value, inplace)", "threshold= value= inplace=?"
)
class Threshold(Module):
    """x where x > threshold, else `value`."""


@layer(computes="F.relu(input, inplace=inplace)")
class ReLU(_Inplace):
    """max(0, x)."""


@layer(
    "lower=1 / 8, upper=1 / 3, inplace=False",
    "F.rrelu(input, lower, upper, training, inplace)",
    "lower= upper= inplace=?",
)
class RReLU(Module):
    """Leaky ReLU with a random slope of [lower, upper] in training, their mean in evaluation (Xu et al. 2015)."""


def _renamed(value, old):
    """The value of an argument that may be given under its old name. Warns then."""
    if old is None:
        return value
    import warnings

    warnings.warn(
        "keyword argument `min_value` and `max_value` are deprecated and rename to `min_val` and `max_val`",
        FutureWarning,
        stacklevel=3,
    )
    return old


@layer(
    "min_val=-1.0, max_val=1.0, inplace=False, min_value=None, max_value=None",
    "F.hardtanh(input, min_val, max_val, inplace)",
    "min_val= max_val= inplace=?",
    sets={
        "min_val": "_renamed(min_val, min_value)",
        "max_val": "_renamed(max_val, max_value)",
        "min_value": None,
        "max_value": None,
    },
    then="self._check()",
)
class Hardtanh(Module):
    """Clamps to [min_val, max_val]. AssertionError unless max_val > min_val."""

    def _check(self):
        if self.max_val <= self.min_val:
            raise AssertionError("max_val must be larger than min_val")


@layer("inplace=False", shows="inplace=?", base="0.0, 6.0, inplace")
class ReLU6(Hardtanh):
    """min(max(0, x), 6)."""


@layer(computes="tessera.sigmoid(input)")
class Sigmoid(Module):
    """1 / (1 + exp(-x))."""


@layer("inplace=False", "F.hardsigmoid(input, inplace)")
class Hardsigmoid(Module):
    """relu6(x + 3) / 6."""


@layer(computes="tessera.tanh(input)")
class Tanh(Module):
    """tanh(x)."""


@layer(computes="F.silu(input, inplace=inplace)")
class SiLU(_Inplace):
    """x * sigmoid(x)."""


@layer(computes="F.mish(input, inplace=inplace)")
class Mish(_Inplace):
    """x * tanh(softplus(x)) (Misra 2019)."""


@layer("inplace=False", "F.hardswish(input, inplace)")
class Hardswish(Module):
    """x * relu6(x + 3) / 6."""


@layer("alpha=1.0, inplace=False", "F.elu(input, alpha, inplace)", "alpha= inplace=?")
class ELU(Module):
    """x where x > 0, else alpha (exp(x) - 1) (Clevert et al. 2015)."""


@layer(computes="F.celu(input, alpha, inplace)")
class CELU(ELU):
    """max(0, x) + min(0, alpha (exp(x / alpha) - 1)) (Barron 2017)."""


@layer(computes="F.selu(input, inplace)")
class SELU(_Inplace):
    """scale (max(0, x) + min(0, alpha (exp(x) - 1))) (Klambauer et al. 2017)."""


@layer("dim=-1", "F.glu(input, dim)", "dim=")
class GLU(Module):
    """a * sigmoid(b) of the two halves along `dim` (Dauphin et al. 2017)."""


@layer("approximate='none'", "F.gelu(input, approximate=approximate)", "approximate=!r")
class GELU(Module):
    """x * Phi(x); approximate='tanh' uses the tanh formula (Hendrycks and Gimpel 2016)."""


@layer("lambd=0.5", "F.hardshrink(input, lambd)", "lambd")
class Hardshrink(Module):
    """x where |x| > lambd, else 0."""


@layer(
    "negative_slope=0.01, inplace=False", "F.leaky_relu(input, negative_slope, inplace)", "negative_slope= inplace=?"
)
class LeakyReLU(Module):
    """x where x > 0, else negative_slope * x."""


@layer(computes="F.logsigmoid(input)")
class LogSigmoid(Module):
    """log(1 / (1 + exp(-x)))."""


@layer("beta=1.0, threshold=20.0", "F.softplus(input, beta, threshold)", "beta= threshold=")
class Softplus(Module):
    """log(1 + exp(beta x)) / beta, x itself where beta x > threshold."""


@layer("lambd=0.5", "F.softshrink(input, lambd)", "lambd")
class Softshrink(Module):
    """x - lambd where x > lambd, x + lambd where x < -lambd, else 0."""


@layer(
    "num_parameters=1, init=0.25, device=None, dtype=None",
    "F.prelu(input, weight)",
    "num_parameters=",
    weight="(num_parameters,) ~ init",
)
class PReLU(Module):
    """x where x > 0, else weight * x; one learnt weight, or one for each channel (dim 1) (He et al. 2015)."""


@layer(computes="F.softsign(input)")
class Softsign(Module):
    """x / (1 + |x|)."""


@layer(computes="F.tanhshrink(input)")
class Tanhshrink(Module):
    """x - tanh(x)."""


@layer("dim=None", shows="dim=")
class _SoftmaxBase(Module):
    def __setstate__(self, state):
        super().__setstate__(state)
        self.__dict__.setdefault("dim", None)


@layer(computes="F.softmin(input, dim, _stacklevel=5)")
class Softmin(_SoftmaxBase):
    """softmax(-x) along `dim`."""


@layer(computes="F.softmax(input, dim, _stacklevel=5)")
class Softmax(_SoftmaxBase):
    """exp(x) / sum(exp(x)) along `dim`."""


@layer(computes="F.log_softmax(input, dim, _stacklevel=5)")
class LogSoftmax(_SoftmaxBase):
    """log(softmax(x)) along `dim`."""


class Softmax2d(Module):
    """Softmax over the channels of (N, C, H, W) or (C, H, W). ValueError for another rank."""

    def forward(self, input):
        channels = input.ndim - 3  # in front of height and width, behind a batch if there is one
        if channels in (0, 1):
            return input.softmax(channels)
        raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead")


def _multi_head_of_nested(*arguments):
    from tessera.nested._internal.attention import multi_head

    return multi_head(*arguments)


@layer(
    "embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False, kdim=None, vdim=None, "
    "batch_first=False, device=None, dtype=None",
    sets={
        "kdim": "embed_dim if kdim is None else kdim",
        "vdim": "embed_dim if vdim is None else vdim",
        "add_bias_kv": None,
    },
    then="self._settle(bias, device, dtype)",
    reset="_reset_parameters",
    in_proj_weight="(3 * embed_dim, embed_dim) if self._qkv_same_embed_dim ~ xavier_uniform",
    q_proj_weight="(embed_dim, embed_dim) if not self._qkv_same_embed_dim ~ xavier_uniform",
    k_proj_weight="(embed_dim, kdim) if not self._qkv_same_embed_dim ~ xavier_uniform",
    v_proj_weight="(embed_dim, vdim) if not self._qkv_same_embed_dim ~ xavier_uniform",
    in_proj_bias="(3 * embed_dim,) if bias ~ zeros",
    bias_k="(1, 1, embed_dim) if add_bias_kv ~ xavier_normal",
    bias_v="(1, 1, embed_dim) if add_bias_kv ~ xavier_normal",
)
class MultiheadAttention(Module):
    """Multi-head attention (Vaswani et al. 2017): forward(query (L, N, E), key (S, N, kdim), value (S, N, vdim)) ->
    (output (L, N, E), weights).

    batch_first puts N first. Boolean masks are True where attention is not allowed. Parameters: in_proj_weight (3E, E),
    or q/k/v_proj_weight if kdim or vdim
    differ from E; in_proj_bias; bias_k, bias_v (add_bias_kv); out_proj.
    """

    __constants__ = ["batch_first"]

    def _settle(self, bias, device, dtype):
        width, heads = self.embed_dim, self.num_heads
        if width <= 0 or heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={width} and num_heads={heads} instead"
            )
        self._qkv_same_embed_dim = self.kdim == self.vdim == width
        self.head_dim, rest = divmod(width, heads)
        assert rest == 0, "embed_dim must be divisible by num_heads"
        self.out_proj = NonDynamicallyQuantizableLinear(width, width, bias=bias, device=device, dtype=dtype)

    def _reset_parameters(self):
        first_values(self)
        if self.in_proj_bias is not None:
            init.zeros_(self.out_proj.bias)

    def __setstate__(self, state):
        state.setdefault("_qkv_same_embed_dim", True)
        super().__setstate__(state)

    def forward(
        self,
        query,
        key,
        value,
        key_padding_mask=None,
        need_weights=True,
        attn_mask=None,
        average_attn_weights=True,
        is_causal=False,
    ):
        if query.is_nested:
            return _multi_head_of_nested(self, query, key, value, key_padding_mask, need_weights, attn_mask, is_causal)
        batched = query.dim() == 3
        attn_mask, key_padding_mask = F._mask_terms(attn_mask, key_padding_mask, query.dtype)
        if (
            self.batch_first
            and batched
            and not need_weights
            and self._qkv_same_embed_dim
            and self.bias_k is None
            and not self.add_zero_attn
            and key.dim() == 3
            and key.shape == value.shape
            and query.size(0) == key.size(0)
            and query.size(-1) == key.size(-1) == self.embed_dim
            and not has_torch_function(
                (query, key, value, self.in_proj_weight, self.in_proj_bias, self.out_proj.weight, self.out_proj.bias)
            )
        ):
            return F._batch_first_attention(
                query,
                key,
                value,
                self.num_heads,
                self.in_proj_weight,
                self.in_proj_bias,
                self.out_proj.weight,
                self.out_proj.bias,
                self.dropout if self.training else 0.0,
                key_padding_mask,
                attn_mask,
                is_causal,
            ), None
        if self.batch_first and batched:
            # equal inputs stay one object, so that their projections are one product
            if key is value:
                if query is key:
                    query = key = value = query.transpose(1, 0)
                else:
                    query, key = query.transpose(1, 0), key.transpose(1, 0)
                    value = key
            else:
                query, key, value = query.transpose(1, 0), key.transpose(1, 0), value.transpose(1, 0)
        separate = {}
        if not self._qkv_same_embed_dim:
            separate = {
                "use_separate_proj_weight": True,
                "q_proj_weight": self.q_proj_weight,
                "k_proj_weight": self.k_proj_weight,
                "v_proj_weight": self.v_proj_weight,
            }
        output, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
            **separate,
        )
        if self.batch_first and batched:
            return output.transpose(1, 0), weights
        return output, weights

    def merge_masks(self, attn_mask, key_padding_mask, query):
        """(merged mask, its kind): attn_mask alone 0 (as it is), key_padding_mask alone 1, both 2 (expanded to (N, H,
        L, S)).
        """
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        n, steps = query.shape[:2]
        # (N H, L, S) or (L, S) to four dims; keys that are left out count for each head and each query
        merged = attn_mask.reshape(n if attn_mask.dim() == 3 else 1, -1, steps, steps)
        merged = merged.expand(n, self.num_heads, -1, -1)
        if key_padding_mask is not None:
            merged = merged + key_padding_mask[:, None, None, :]
        return merged, 2
