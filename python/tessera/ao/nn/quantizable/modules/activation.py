"""Attention of parts that observers can watch."""

import math

import tessera
from tessera import nn
from tessera.nn import functional as F

__all__ = ["MultiheadAttention"]


class MultiheadAttention(nn.MultiheadAttention):
    """Attention of three Linear projections, whose parts observers can watch; arguments as nn.MultiheadAttention.

    NotImplementedError for add_bias_kv.
    """

    _FLOAT_MODULE = nn.MultiheadAttention

    def __init__(
        self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False, kdim=None,
        vdim=None, batch_first=False, device=None, dtype=None
    ):  # fmt: skip
        super().__init__(embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn, kdim, vdim, batch_first,
                         device, dtype)  # fmt: skip
        if add_bias_kv:
            raise NotImplementedError("add_bias_kv is not supported by the quantizable MultiheadAttention")
        made = {"bias": bias, "device": device, "dtype": dtype}
        self.linear_Q = nn.Linear(embed_dim, embed_dim, **made)
        self.linear_K = nn.Linear(self.kdim, embed_dim, **made)
        self.linear_V = nn.Linear(self.vdim, embed_dim, **made)
        self.out_proj = nn.Linear(embed_dim, embed_dim, **made)
        self.q_scaling_product = tessera.ao.nn.quantized.FloatFunctional()
        for name in ("in_proj_weight", "in_proj_bias", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            self._parameters.pop(name, None)
            self.register_parameter(name, None)
        stubs = tessera.ao.quantization
        self.quant_attn_output, self.quant_attn_output_weights = stubs.QuantStub(), stubs.QuantStub()
        self.dequant_q, self.dequant_k, self.dequant_v = (stubs.DeQuantStub() for _ in range(3))

    def _get_name(self):
        return "QuantizableMultiheadAttention"

    def forward(
        self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None, average_attn_weights=True,
        is_causal=False
    ):  # fmt: skip
        if self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        if is_causal and attn_mask is None:
            attn_mask = tessera.ones(query.shape[0], key.shape[0], dtype=tessera.bool).triu(1)
        length, batch, wide = query.shape
        q = self.q_scaling_product.mul_scalar(self.linear_Q(query), 1 / math.sqrt(self.head_dim))
        q, k, v = self.dequant_q(q), self.dequant_k(self.linear_K(key)), self.dequant_v(self.linear_V(value))
        heads = lambda t: t.reshape(t.shape[0], batch * self.num_heads, self.head_dim).transpose(0, 1)  # noqa: E731
        q, k, v = heads(q), heads(k), heads(v)
        if self.add_zero_attn:
            k, v = (F.pad(t, (0, 0, 0, 1)) for t in (k, v))
        scores = tessera.bmm(q, k.transpose(1, 2))
        for mask in (attn_mask, None if key_padding_mask is None else key_padding_mask.reshape(batch, 1, 1, -1)):
            if mask is None:
                continue
            if self.add_zero_attn:
                mask = F.pad(mask, (0, 1))
            wide_scores = scores.reshape(batch, self.num_heads, length, -1)
            if mask.dim() == 3:
                mask = mask.reshape(batch, self.num_heads, length, -1)
            if mask.dtype == tessera.bool:
                wide_scores = wide_scores.masked_fill(mask, float("-inf"))
            else:
                wide_scores = wide_scores + mask
            scores = wide_scores.reshape(batch * self.num_heads, length, -1)
        shares = F.dropout(scores.softmax(-1), self.dropout, self.training)
        out = tessera.bmm(shares, v).transpose(0, 1).reshape(length, batch, wide)
        out = self.out_proj(self.quant_attn_output(out))
        shares = self.quant_attn_output_weights(shares)
        if self.batch_first:
            out = out.transpose(0, 1)
        if not need_weights:
            return out, None
        shares = shares.reshape(batch, self.num_heads, length, -1)
        return out, shares.mean(1) if average_attn_weights else shares

    @classmethod
    def from_float(cls, other):
        """Of a float MultiheadAttention with a qconfig. AssertionError for others."""
        if type(other) is not cls._FLOAT_MODULE:
            raise AssertionError(f"expected a MultiheadAttention, but got {type(other).__name__}")
        if not hasattr(other, "qconfig"):
            raise AssertionError("The float module must have 'qconfig'")
        made = cls(other.embed_dim, other.num_heads, other.dropout, other.in_proj_bias is not None,
                   other.bias_k is not None, other.add_zero_attn, other.kdim, other.vdim,
                   other.batch_first)  # fmt: skip
        if other._qkv_same_embed_dim:
            weights = other.in_proj_weight.detach().chunk(3)
        else:
            weights = [getattr(other, f"{n}_proj_weight").detach() for n in "qkv"]
        biases = (None,) * 3 if other.in_proj_bias is None else other.in_proj_bias.detach().chunk(3)
        for layer, weight, bias in zip((made.linear_Q, made.linear_K, made.linear_V), weights, biases):
            layer.weight = nn.Parameter(weight.clone())
            if bias is not None:
                layer.bias = nn.Parameter(bias.clone())
        made.out_proj.weight, made.out_proj.bias = other.out_proj.weight, other.out_proj.bias
        made.qconfig = other.qconfig
        made.train(other.training)
        return made

    @classmethod
    def from_observed(cls, other):
        """The quantized attention of an observed one."""
        return tessera.ao.quantization.convert(other, inplace=False, remove_qconfig=True)

    def dequantize(self):
        """A float nn.MultiheadAttention with the numbers that the weights stand for."""
        made = nn.MultiheadAttention(
            self.embed_dim, self.num_heads, self.dropout, self.linear_Q.bias is not None, False, self.add_zero_attn,
            self.kdim, self.vdim, self.batch_first,
        )  # fmt: skip

        def parts(layer):
            weight = layer.weight() if callable(layer.weight) else layer.weight
            bias = layer.bias() if callable(layer.bias) else layer.bias
            return weight.dequantize() if weight.is_quantized else weight, bias

        pairs = [parts(layer) for layer in (self.linear_Q, self.linear_K, self.linear_V)]
        if made._qkv_same_embed_dim:
            made.in_proj_weight = nn.Parameter(tessera.cat([w for w, _ in pairs]))
        else:
            for letter, (weight, _) in zip("qkv", pairs):
                setattr(made, f"{letter}_proj_weight", nn.Parameter(weight))
        if made.in_proj_bias is not None:
            made.in_proj_bias = nn.Parameter(tessera.cat([b for _, b in pairs]))
        weight, bias = parts(self.out_proj)
        made.out_proj.weight = nn.Parameter(weight)
        if bias is not None:
            made.out_proj.bias = nn.Parameter(bias)
        return made
