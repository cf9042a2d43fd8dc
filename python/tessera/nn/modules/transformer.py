"""Transformer layers (Vaswani et al. 2017)."""

import copy
import warnings

import tessera
from tessera.nn import functional as F
from tessera.nn.init import xavier_uniform_

from .activation import GELU, MultiheadAttention, ReLU
from .container import ModuleList
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .normalization import LayerNorm

__all__ = [
    "Transformer",
    "TransformerEncoder",
    "TransformerDecoder",
    "TransformerEncoderLayer",
    "TransformerDecoderLayer",
]


def _generate_square_subsequent_mask(sz, device=None, dtype=None):
    """(sz, sz): 0 on and below the diagonal, -inf above."""
    return tessera.full((sz, sz), float("-inf"), dtype=dtype, device=device).triu(1)


def _is_causal(mask, told, size):
    """Whether a mask is the causal one of this size: as the caller says, or by comparison, unless its numbers are not
    known: then it is a mask as others.
    """
    if told is not None or mask is None:
        return told is True
    if mask.is_meta or tessera._C._fake_mode_of(mask) is not None:
        return False
    dtype = mask.dtype if mask.is_floating_point() else None
    causal = _generate_square_subsequent_mask(size, device=mask.device, dtype=dtype)
    return mask.size() == causal.size() and bool((mask == causal).all())


_ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu}  # type: ignore[attr-defined]


def _get_activation_fn(given):
    if isinstance(given, str) and given not in _ACTIVATIONS:
        raise RuntimeError(f"activation should be relu/gelu, not {given}")
    return _ACTIVATIONS.get(given, given) if isinstance(given, str) else given


def _is(activation, function, layer):
    return activation is function or isinstance(activation, layer)


class Transformer(Module):
    """Encoder and decoder: src (S, N, E), tgt (T, N, E) -> (T, N, E); batch_first puts N first."""

    def __init__(
        self,
        d_model=512,
        nhead=8,
        num_encoder_layers=6,
        num_decoder_layers=6,
        dim_feedforward=2048,
        dropout=0.1,
        activation=F.relu,
        custom_encoder=None,
        custom_decoder=None,
        layer_norm_eps=1e-5,
        batch_first=False,
        norm_first=False,
        bias=True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        factory = {"device": device, "dtype": dtype}
        layer = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)

        def stack(kind, layer_kind, count):
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **factory)
            return kind(layer_kind(*layer, **factory), count, norm)

        if custom_encoder is None:
            custom_encoder = stack(TransformerEncoder, TransformerEncoderLayer, num_encoder_layers)
        if custom_decoder is None:
            custom_decoder = stack(TransformerDecoder, TransformerDecoderLayer, num_decoder_layers)
        self.encoder, self.decoder = custom_encoder, custom_decoder
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def forward(
        self,
        src,
        tgt,
        src_mask=None,
        tgt_mask=None,
        memory_mask=None,
        src_key_padding_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        src_is_causal=None,
        tgt_is_causal=None,
        memory_is_causal=False,
    ):
        batch = 0 if self.batch_first else 1
        if src.dim() == 3 and src.size(batch) != tgt.size(batch):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if not src.size(-1) == tgt.size(-1) == self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz, device=None, dtype=None):
        """(sz, sz): 0 on and below the diagonal, -inf above."""
        return _generate_square_subsequent_mask(sz, device=device, dtype=dtype)

    def _reset_parameters(self):
        for p in self.parameters():
            if p.dim() > 1:
                xavier_uniform_(p)


class _Stack(Module):
    """num_layers deep copies of a layer, and an optional final norm."""

    __constants__ = ["norm"]

    def __init__(self, layer, num_layers, norm):
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(layer) for _ in range(num_layers))
        self.num_layers, self.norm = num_layers, norm

    def _causal(self, mask, told, input):
        """Whether the mask of self-attention over the input is causal."""
        attention = getattr(self.layers[0], "self_attn", None) if len(self.layers) else None
        return _is_causal(
            mask, told, input.size(1 if input.dim() > 2 and getattr(attention, "batch_first", False) else 0)
        )

    def _through(self, output, *args, **kwargs):
        for layer in self.layers:
            output = layer(output, *args, **kwargs)
        return output if self.norm is None else self.norm(output)


# What keeps an encoder from leaving padding out, in the order in which PyTorch asks
_UNPACKED = {
    "was not TransformerEncoderLayer": lambda layer: not isinstance(layer, TransformerEncoderLayer),
    ".norm_first was True": lambda layer: layer.norm_first,
    ".self_attn.batch_first was not True(use batch_first for better inference performance)": lambda layer: (
        not layer.self_attn.batch_first
    ),
    ".self_attn._qkv_same_embed_dim was not True": lambda layer: not layer.self_attn._qkv_same_embed_dim,
    ".self_attn was passed bias=False": lambda layer: layer.self_attn.in_proj_bias is None,
    ".activation_relu_or_gelu was not True": lambda layer: not layer.activation_relu_or_gelu,
    ".norm1.eps was not equal to encoder_layer.norm2.eps": lambda layer: layer.norm1.eps != layer.norm2.eps,
    ".self_attn.num_heads is odd": lambda layer: layer.self_attn.num_heads % 2 == 1,
}


class TransformerEncoder(_Stack):
    """num_layers deep copies of encoder_layer, and an optional final norm.

    enable_nested_tensor: in inference, what src_key_padding_mask hides is left out, and is 0 in the result; a warning
    says where the layer does not allow that. mask_check: only where each sequence is padded at its end; without it
    the mask is not looked at, and what is left of a sequence moves to its beginning.
    """

    def __init__(self, encoder_layer, num_layers, norm=None, enable_nested_tensor=True, mask_check=True):
        super().__init__(encoder_layer, num_layers, norm)
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check
        reason = next((text for text, holds in _UNPACKED.items() if holds(encoder_layer)), None)
        self.use_nested_tensor = enable_nested_tensor and reason is None
        if enable_nested_tensor and reason is not None:
            where = "encoder_layer" + (reason if reason.startswith(".") else f" {reason}")
            warnings.warn(
                f"enable_nested_tensor is True, but self.use_nested_tensor is False because {where}", stacklevel=2
            )

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
        if self._packs(src, mask, src_key_padding_mask):
            return self._forward_packed(src, src_key_padding_mask)
        mask, padding = _float_masks(src, mask, "mask", src_key_padding_mask)
        return self._through(
            src, src_mask=mask, is_causal=self._causal(mask, is_causal, src), src_key_padding_mask=padding
        )

    def _packs(self, src, mask, padding):
        """Whether padding is left out: in inference, where each sequence is padded at its end only (mask_check). Then
        the result is 0 there.
        """
        allowed = self.enable_nested_tensor and self.use_nested_tensor
        if padding is None or not allowed or mask is not None or self.training:
            return False
        if padding.dtype is not tessera.bool or padding.dim() != 2 or src.dim() != 3 or src.is_nested:
            return False
        if tessera.is_grad_enabled() and (src.requires_grad or any(p.requires_grad for p in self.parameters())):
            return False
        if padding.shape != src.shape[:2] or not self.layers:
            return False
        return not self.mask_check or not bool((padding[:, :-1] & ~padding[:, 1:]).any() | padding[:, 0].any())

    def _forward_packed(self, src, padding):
        from tessera import nested

        lengths = (~padding).sum(1)
        packed = nested.nested_tensor_from_jagged(src[~padding], lengths=lengths)
        result = self._through(packed, src_mask=None, is_causal=False, src_key_padding_mask=None)
        return nested.to_padded_tensor(result, 0.0, (*src.shape[:2], result.size(-1)))


def _float_masks(src, mask, name, padding):
    """Both masks of self-attention in the input's dtype."""
    return F._mask_terms(mask, padding, src.dtype, (name, "src_key_padding_mask"))


class TransformerDecoder(_Stack):
    """num_layers deep copies of decoder_layer, and an optional final norm."""

    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__(decoder_layer, num_layers, norm)

    def forward(
        self,
        tgt,
        memory,
        tgt_mask=None,
        memory_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        tgt_is_causal=None,
        memory_is_causal=False,
    ):
        return self._through(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=self._causal(tgt_mask, tgt_is_causal, tgt),
            memory_is_causal=memory_is_causal,
        )


class _Layer(Module):
    """Attentions and a two-layer feed-forward network, in turn.

    Each with dropout, residual and a norm after it (norm_first: before it).
    """

    __constants__ = ["norm_first"]
    _attentions = ()

    def __init__(
        self,
        d_model,
        nhead,
        dim_feedforward=2048,
        dropout=0.1,
        activation=F.relu,
        layer_norm_eps=1e-5,
        batch_first=False,
        norm_first=False,
        bias=True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        factory = {"device": device, "dtype": dtype, "bias": bias}
        blocks = range(1, len(self._attentions) + 2)
        parts = {
            name: MultiheadAttention(d_model, nhead, dropout, batch_first=batch_first, **factory)
            for name in self._attentions
        }
        parts |= {
            "linear1": Linear(d_model, dim_feedforward, **factory),
            "dropout": Dropout(dropout),
            "linear2": Linear(dim_feedforward, d_model, **factory),
        }
        parts |= {f"norm{i}": LayerNorm(d_model, layer_norm_eps, **factory) for i in blocks}
        parts |= {f"dropout{i}": Dropout(dropout) for i in blocks}
        for name, part in parts.items():
            self.add_module(name, part)
        self.norm_first, self.activation = norm_first, _get_activation_fn(activation)
        # 1: relu, 2: gelu, 0: another one. PyTorch's layer reads it from pickles
        self.activation_relu_or_gelu = (
            1 if _is(self.activation, F.relu, ReLU) else 2 if _is(self.activation, F.gelu, GELU) else 0
        )

    def __setstate__(self, state):
        super().__setstate__(state)
        if not hasattr(self, "activation"):  # old checkpoints
            self.activation = F.relu

    def _block(self, x, norm, block, *args):
        return x + block(norm(x), *args) if self.norm_first else norm(x + block(x, *args))

    def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
        return self.dropout1(_attend(self.self_attn, x, x, attn_mask, key_padding_mask, is_causal))

    def _ff_block(self, x):
        last = getattr(self, f"dropout{len(self._attentions) + 1}")
        return last(self.linear2(self.dropout(self.activation(self.linear1(x)))))


def _attend(attention, query, memory, attn_mask, key_padding_mask, is_causal):
    return attention(
        query,
        memory,
        memory,
        key_padding_mask=key_padding_mask,
        need_weights=False,
        attn_mask=attn_mask,
        is_causal=is_causal,
    )[0]


class TransformerEncoderLayer(_Layer):
    """Self-attention and a two-layer feed-forward network, each with dropout, residual and LayerNorm (norm_first.

    Before them).
    """

    _attentions = ("self_attn",)

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        masks = _float_masks(src, src_mask, "src_mask", src_key_padding_mask)
        x = self._block(src, self.norm1, self._sa_block, *masks, is_causal)
        return self._block(x, self.norm2, self._ff_block)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's memory and a feed-forward network, each with dropout, residual and
    LayerNorm.
    """

    _attentions = ("self_attn", "multihead_attn")

    def forward(
        self,
        tgt,
        memory,
        tgt_mask=None,
        memory_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        tgt_is_causal=False,
        memory_is_causal=False,
    ):
        x = self._block(tgt, self.norm1, self._sa_block, tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        x = self._block(x, self.norm2, self._mha_block, memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        return self._block(x, self.norm3, self._ff_block)

    def _mha_block(self, x, mem, attn_mask, key_padding_mask, is_causal=False):
        return self.dropout2(_attend(self.multihead_attn, x, mem, attn_mask, key_padding_mask, is_causal))
