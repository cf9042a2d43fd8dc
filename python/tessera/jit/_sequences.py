"""Recurrent layers, attention, transformers, bags of embeddings and resizing as programs: the texts that
_definitions gives to the compiler. `torch` and `nn` are the operators, `F` is nn.functional.
"""

import re

FUNCTIONS = """
def pack_padded_sequence(input: Tensor, lengths: Tensor, batch_first: bool = False,
        enforce_sorted: bool = True) -> PackedSequence:
    if lengths.dim() != 1 or lengths.dtype != torch.int64 or lengths.device.type != "cpu":
        raise RuntimeError("'lengths' argument should be a 1D CPU int64 tensor, but got a tensor of {} "
                "dimensions".format(lengths.dim()))
    if input.numel() == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    steps = input.transpose(0, 1) if batch_first else input
    if lengths.numel() != steps.size(1):
        raise RuntimeError("Expected `len(lengths)` to be equal to batch_size, but got {} (batch_size={})".format(
                lengths.numel(), steps.size(1)))
    order: Optional[Tensor] = None
    back: Optional[Tensor] = None
    if not enforce_sorted:
        lengths, places = lengths.sort(descending=True)
        places = places.to(input.device)
        steps, order, back = steps.index_select(1, places), places, places.argsort().to(places.dtype)
    if bool((lengths[1:] > lengths[:-1]).any()):
        raise RuntimeError("`lengths` array must be sorted in decreasing order when `enforce_sorted` is True.")
    longest = int(lengths[0])
    if int(lengths[-1]) <= 0 or longest > steps.size(0):
        raise RuntimeError("Expected lengths from 1 to {}, but got {}".format(steps.size(0), lengths))
    rows = torch.arange(longest).unsqueeze(1) < lengths
    data = steps[:longest].flatten(0, 1).index_select(0, rows.flatten().nonzero().squeeze(1).to(input.device))
    return PackedSequence(data, rows.sum(1), order, back)
def pad_packed_sequence(sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0,
        total_length: Optional[int] = None) -> Tuple[Tensor, Tensor]:
    data, sizes, back = sequence.data, sequence.batch_sizes, sequence.unsorted_indices
    longest, batch = sizes.numel(), int(sizes[0])
    steps = longest
    if total_length is not None:
        steps = total_length
    if steps < longest:
        raise ValueError("Expected total_length to be at least the length of the longest sequence in input, but got "
                "total_length={} and max sequence length being {}".format(steps, longest))
    rows = torch.arange(batch) < sizes.unsqueeze(1)
    places = rows.flatten().nonzero().squeeze(1).to(data.device)
    empty = torch.full([steps * batch] + data.size()[1:], padding_value, dtype=data.dtype, device=data.device)
    padded, lengths = empty.index_copy(0, places, data).unflatten(0, [steps, batch]), rows.sum(0)
    if batch_first:
        padded = padded.transpose(0, 1)
    if back is not None:
        padded, lengths = padded.index_select(0 if batch_first else 1, back), lengths[back.cpu()]
    return padded, lengths
def _additive_mask(mask: Optional[Tensor], like: Tensor) -> Optional[Tensor]:
    if mask is None:
        return None
    if mask.is_floating_point():
        return mask
    if mask.dtype != torch.bool:
        raise AssertionError("only bool and floating types of masks are supported")
    return torch.zeros_like(mask, dtype=like.dtype).masked_fill_(mask, float("-inf"))
def _mask_with_a_key_more(mask: Optional[Tensor]) -> Optional[Tensor]:
    return None if mask is None else torch.constant_pad_nd(mask, [0, 1])
def _scores_terms(mask: Optional[Tensor], padding: Optional[Tensor], batch: int, heads: int, queries: int,
        keys: int) -> Optional[Tensor]:
    if mask is not None:
        whole = mask.unsqueeze(0) if mask.dim() == 2 else mask
        if whole.size(1) != queries or whole.size(2) != keys or (whole.size(0) != 1 and
                whole.size(0) != batch * heads):
            raise RuntimeError("The shape of the attn_mask is {}, but should be {} or {}.".format(mask.size(),
                    (queries, keys), (batch * heads, queries, keys)))
        mask = whole.unsqueeze(0) if whole.size(0) == 1 else whole.view(batch, heads, queries, keys)
    if padding is not None:
        if padding.size(0) != batch or padding.size(1) != keys:
            raise AssertionError("expecting key_padding_mask shape of {}, but got {}".format((batch, keys),
                    padding.size()))
        wide = padding.view(batch, 1, 1, keys)
        mask = wide if mask is None else mask + wide
    return mask
def _third(bias: Optional[Tensor], i: int) -> Optional[Tensor]:
    return None if bias is None else bias.chunk(3)[i]
def _given(weight: Optional[Tensor], name: str) -> Tensor:
    if weight is None:
        raise AssertionError("{} is None, but is needed".format(name))
    return weight
def _head_matrices(t: Tensor, batch: int, heads: int) -> Tensor:
    return t.view(t.size(0), batch * heads, -1).transpose(0, 1)
def multi_head_attention_forward(query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int,
        in_proj_weight: Optional[Tensor], in_proj_bias: Optional[Tensor], bias_k: Optional[Tensor],
        bias_v: Optional[Tensor], add_zero_attn: bool, dropout_p: float, out_proj_weight: Tensor,
        out_proj_bias: Optional[Tensor], training: bool = True, key_padding_mask: Optional[Tensor] = None,
        need_weights: bool = True, attn_mask: Optional[Tensor] = None, use_separate_proj_weight: bool = False,
        q_proj_weight: Optional[Tensor] = None, k_proj_weight: Optional[Tensor] = None,
        v_proj_weight: Optional[Tensor] = None, static_k: Optional[Tensor] = None, static_v: Optional[Tensor] = None,
        average_attn_weights: bool = True, is_causal: bool = False) -> Tuple[Tensor, Optional[Tensor]]:
    rank = query.dim()
    if rank != 2 and rank != 3:
        raise AssertionError("query should be unbatched 2D or batched 3D tensor but received {}-D query tensor".format(
                rank))
    if key.dim() != rank or value.dim() != rank:
        raise AssertionError("expected `key` and `value` to be {}-D".format(rank))
    batched = rank == 3
    padding = key_padding_mask
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        padding = None if padding is None else padding.unsqueeze(0)
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    causal = is_causal and key_padding_mask is None and not need_weights
    mask = None if causal else _additive_mask(attn_mask, query)
    padding = _additive_mask(padding, query)
    if query.size(2) != embed_dim_to_check:
        raise AssertionError("was expecting embedding dimension of {}, but got {}".format(embed_dim_to_check,
                query.size(2)))
    length, batch = query.size(0), query.size(1)
    dim = embed_dim_to_check // num_heads
    if use_separate_proj_weight:
        wq, wk, wv = _given(q_proj_weight, "q_proj_weight"), _given(k_proj_weight, "k_proj_weight"), _given(
                v_proj_weight, "v_proj_weight")
    else:
        wq, wk, wv = _given(in_proj_weight, "in_proj_weight").chunk(3)
    q = F.linear(query, wq, _third(in_proj_bias, 0))
    k = F.linear(key, wk, _third(in_proj_bias, 1))
    v = F.linear(value, wv, _third(in_proj_bias, 2))
    if bias_k is not None and bias_v is not None:
        if static_k is not None or static_v is not None:
            raise AssertionError("bias cannot be added to static key and value.")
        k = torch.cat([k, bias_k.repeat([1, batch, 1])])
        v = torch.cat([v, bias_v.repeat([1, batch, 1])])
        mask, padding = _mask_with_a_key_more(mask), _mask_with_a_key_more(padding)
    q = _head_matrices(q, batch, num_heads)
    k = _head_matrices(k, batch, num_heads) if static_k is None else static_k
    v = _head_matrices(v, batch, num_heads) if static_v is None else static_v
    if add_zero_attn:
        row = torch.zeros([batch * num_heads, 1, dim], dtype=k.dtype, device=k.device)
        k, v = torch.cat([k, row], 1), torch.cat([v, row], 1)
        mask, padding = _mask_with_a_key_more(mask), _mask_with_a_key_more(padding)
    keys = k.size(1)
    terms = _scores_terms(mask, padding, batch, num_heads, length, keys)
    p = dropout_p if training else 0.0
    shown: Optional[Tensor] = None
    if need_weights:
        scaled, transposed = q * (1.0 / float(dim)) ** 0.5, k.transpose(-2, -1)
        if terms is None:
            scores = torch.bmm(scaled, transposed)
        elif terms.size(0) == 1 and terms.size(1) == 1:
            scores = torch.baddbmm(terms[0], scaled, transposed)
        else:
            scores = torch.baddbmm(terms.expand([-1, num_heads, -1, -1]).flatten(0, 1), scaled, transposed)
        weights = scores.softmax(-1)
        if p > 0.0:
            weights = torch.dropout(weights, p, True)
        whole = weights.view(batch, num_heads, length, keys)
        whole = whole.mean(1) if average_attn_weights else whole
        shown = whole if batched else whole.squeeze(0)
        joined = torch.bmm(weights, v).transpose(0, 1)
    else:
        joined = nn.scaled_dot_product_attention(q.view(batch, num_heads, length, dim), k.view(batch, num_heads, keys,
                dim), v.view(batch, num_heads, keys, dim), terms, p, causal).permute([2, 0, 1, 3])
    out = F.linear(joined.reshape([length * batch, embed_dim_to_check]), out_proj_weight, out_proj_bias)
    out = out.view(length, batch, out.size(-1))
    return (out if batched else out.squeeze(1)), shown
def _causal_as_told(mask: Optional[Tensor], told: Optional[bool], size: int) -> bool:
    if mask is None:
        return False if told is None else told
    if told is not None:
        return told
    if mask.dim() != 2 or mask.size(0) != size or mask.size(1) != size:
        return False
    future = torch.full([size, size], float("-inf"), device=mask.device).triu(1)
    return bool((mask == future).all())
def embedding_bag(input: Tensor, weight: Tensor, offsets: Optional[Tensor] = None, max_norm: Optional[float] = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
        per_sample_weights: Optional[Tensor] = None, include_last_offset: bool = False,
        padding_idx: Optional[int] = None) -> Tensor:
    if per_sample_weights is not None:
        if per_sample_weights.size() != input.size():
            raise ValueError("embedding_bag: If per_sample_weights ({}) is not None, then it must have the same shape "
                    "as the input ({})".format(per_sample_weights.size(), input.size()))
        if mode != "sum":
            raise NotImplementedError("embedding_bag: per_sample_weights is only supported for mode='sum'")
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError("if input is 2D, then offsets has to be None")
        offsets = torch.arange(0, input.numel(), input.size(1), dtype=input.dtype, device=input.device)
        input = input.reshape([-1])
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape([-1])
    elif input.dim() != 1:
        raise ValueError("input has to be 1D or 2D Tensor, but got Tensor of dimension {}".format(input.dim()))
    if offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if mode != "sum" and mode != "mean" and mode != "max":
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and (scale_grad_by_freq or sparse):
        raise ValueError("max mode has neither sparse gradients nor gradients scaled by the frequency")
    code = 0 if mode == "sum" else 1 if mode == "mean" else 2
    if max_norm is not None:
        with torch.no_grad():
            torch.embedding_renorm_(weight, input.contiguous(), max_norm, norm_type)
    return torch.embedding_bag(weight, input, offsets, scale_grad_by_freq, code, sparse, per_sample_weights,
            include_last_offset, padding_idx)[0]
def _resampling(mode: str, rank: int) -> int:
    if mode == "nearest":
        return 0
    if mode == "nearest-exact":
        return 1
    if (mode == "linear" and rank == 3) or (mode == "bilinear" and rank == 4) or (mode == "trilinear" and rank == 5):
        return 2
    if mode == "bicubic" and rank == 4:
        return 3
    raise NotImplementedError("Got {}D input, and mode {}".format(rank, mode))
def interpolate(input: Tensor, size: Optional[BroadcastingList1[int]] = None,
        scale_factor: Optional[BroadcastingList1[float]] = None, mode: str = "nearest",
        align_corners: Optional[bool] = None, recompute_scale_factor: Optional[bool] = None,
        antialias: bool = False) -> Tensor:
    n = input.dim() - 2
    if align_corners is not None and (mode == "nearest" or mode == "nearest-exact" or mode == "area"):
        raise ValueError("align_corners option can only be set with the interpolating modes: linear | bilinear | "
                "bicubic | trilinear")
    if antialias and mode != "bilinear" and mode != "bicubic":
        raise ValueError("Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as "
                "input")
    target: List[int] = []
    steps: List[float] = []
    if size is not None:
        if scale_factor is not None:
            raise ValueError("only one of size or scale_factor should be defined")
        if len(size) != 1 and len(size) != n:
            raise ValueError("Input and output must have the same number of spatial dimensions, but got {} and "
                    "{}".format(n, size))
        for i in range(n):
            target.append(size[i] if len(size) == n else size[0])
    elif scale_factor is not None:
        if len(scale_factor) != 1 and len(scale_factor) != n:
            raise ValueError("Input and scale_factor must have the same number of spatial dimensions, but got {} and "
                    "{}".format(n, scale_factor))
        for i in range(n):
            factor = scale_factor[i] if len(scale_factor) == n else scale_factor[0]
            target.append(int(math.floor(float(input.size(i + 2)) * factor)))
            if recompute_scale_factor is None or not recompute_scale_factor:
                steps.append(1.0 / factor)
    else:
        raise ValueError("either size or scale_factor should be defined")
    if mode == "area":
        if n == 1:
            return torch.adaptive_avg_pool1d(input, target)
        return nn.adaptive_avg_pool2d(input, target) if n == 2 else nn.adaptive_avg_pool3d(input, target)
    code = _resampling(mode, input.dim()) + (2 if antialias else 0)
    align = False if align_corners is None else align_corners
    if not input.is_cpu or not input.is_floating_point():
        raise RuntimeError("interpolate: compiled programs resize floating point tensors of the CPU")
    return nn._resample(input, [input.size(0), input.size(1)] + target, steps, code, align)
"""

METHODS = """
def EmbeddingBag__forward(self, input: Tensor, offsets: Optional[Tensor] = None,
        per_sample_weights: Optional[Tensor] = None) -> Tensor:
    return F.embedding_bag(input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq,
            self.mode, self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx)
def _CircularPadNd__forward(self, input: Tensor) -> Tensor:
    {check}
    return F.pad(input, self.padding, "circular")
def MultiheadAttention__forward(self, query: Tensor, key: Tensor, value: Tensor,
        key_padding_mask: Optional[Tensor] = None, need_weights: bool = True, attn_mask: Optional[Tensor] = None,
        average_attn_weights: bool = True, is_causal: bool = False) -> Tuple[Tensor, Optional[Tensor]]:
    turned = self.batch_first and query.dim() == 3
    if turned:
        query, key, value = query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1)
    out, weights = F.multi_head_attention_forward(query, key, value, self.embed_dim, self.num_heads,
            self.in_proj_weight, self.in_proj_bias, self.bias_k, self.bias_v, self.add_zero_attn, self.dropout,
            self.out_proj.weight, self.out_proj.bias, self.training, key_padding_mask, need_weights, attn_mask,
            not self._qkv_same_embed_dim, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight, None, None,
            average_attn_weights, is_causal)
    return (out.transpose(0, 1) if turned else out), weights
def _Layer___sa_block(self, x: Tensor, attn_mask: Optional[Tensor], key_padding_mask: Optional[Tensor],
        is_causal: bool = False) -> Tensor:
    return self.dropout1(self.self_attn(x, x, x, key_padding_mask=key_padding_mask, need_weights=False,
            attn_mask=attn_mask, is_causal=is_causal)[0])
def TransformerDecoderLayer___mha_block(self, x: Tensor, mem: Tensor, attn_mask: Optional[Tensor],
        key_padding_mask: Optional[Tensor], is_causal: bool = False) -> Tensor:
    return self.dropout2(self.multihead_attn(x, mem, mem, key_padding_mask=key_padding_mask, need_weights=False,
            attn_mask=attn_mask, is_causal=is_causal)[0])
def _Layer___ff_block(self, x: Tensor) -> Tensor:
    return self.{last}(self.linear2(self.dropout(self.activation(self.linear1(x)))))
def TransformerEncoderLayer__forward(self, src: Tensor, src_mask: Optional[Tensor] = None,
        src_key_padding_mask: Optional[Tensor] = None, is_causal: bool = False) -> Tensor:
    if self.norm_first:
        x = src + self._sa_block(self.norm1(src), src_mask, src_key_padding_mask, is_causal)
        return x + self._ff_block(self.norm2(x))
    x = self.norm1(src + self._sa_block(src, src_mask, src_key_padding_mask, is_causal))
    return self.norm2(x + self._ff_block(x))
def TransformerDecoderLayer__forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Optional[Tensor] = None,
        memory_mask: Optional[Tensor] = None, tgt_key_padding_mask: Optional[Tensor] = None,
        memory_key_padding_mask: Optional[Tensor] = None, tgt_is_causal: bool = False,
        memory_is_causal: bool = False) -> Tensor:
    if self.norm_first:
        x = tgt + self._sa_block(self.norm1(tgt), tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        x = x + self._mha_block(self.norm2(x), memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        return x + self._ff_block(self.norm3(x))
    x = self.norm1(tgt + self._sa_block(tgt, tgt_mask, tgt_key_padding_mask, tgt_is_causal))
    x = self.norm2(x + self._mha_block(x, memory, memory_mask, memory_key_padding_mask, memory_is_causal))
    return self.norm3(x + self._ff_block(x))
def TransformerEncoder__forward(self, src: Tensor, mask: Optional[Tensor] = None,
        src_key_padding_mask: Optional[Tensor] = None, is_causal: Optional[bool] = None) -> Tensor:
    causal = _causal_as_told(mask, is_causal, src.size(1 if src.dim() > 2 and {batch_first} else 0))
    output = src
    for layer in self.layers:
        output = layer(output, src_mask=mask, is_causal=causal, src_key_padding_mask=src_key_padding_mask)
    if self.norm is not None:
        output = self.norm(output)
    return output
def TransformerDecoder__forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Optional[Tensor] = None,
        memory_mask: Optional[Tensor] = None, tgt_key_padding_mask: Optional[Tensor] = None,
        memory_key_padding_mask: Optional[Tensor] = None, tgt_is_causal: Optional[bool] = None,
        memory_is_causal: bool = False) -> Tensor:
    causal = _causal_as_told(tgt_mask, tgt_is_causal, tgt.size(1 if tgt.dim() > 2 and {batch_first} else 0))
    output = tgt
    for layer in self.layers:
        output = layer(output, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask, memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=causal, memory_is_causal=memory_is_causal)
    if self.norm is not None:
        output = self.norm(output)
    return output
def Transformer__forward(self, src: Tensor, tgt: Tensor, src_mask: Optional[Tensor] = None,
        tgt_mask: Optional[Tensor] = None, memory_mask: Optional[Tensor] = None,
        src_key_padding_mask: Optional[Tensor] = None, tgt_key_padding_mask: Optional[Tensor] = None,
        memory_key_padding_mask: Optional[Tensor] = None, src_is_causal: Optional[bool] = None,
        tgt_is_causal: Optional[bool] = None, memory_is_causal: bool = False) -> Tensor:
    batch = 0 if self.batch_first else 1
    if src.dim() == 3 and src.size(batch) != tgt.size(batch):
        raise RuntimeError("the batch number of src and tgt must be equal")
    if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
        raise RuntimeError("the feature number of src and tgt must be equal to d_model")
    memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
    return self.decoder(tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask, memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal, memory_is_causal=memory_is_causal)
"""

_RECURRENT = """
def forward(self, input: Tensor, hx: Optional[{state}] = None) -> Tuple[Tensor, {state}]:
    if input.dim() != 2 and input.dim() != 3:
        raise ValueError("{name}: Expected input to be 2D or 3D, got {{}}D instead".format(input.dim()))
    if input.size(-1) != self.input_size:
        raise RuntimeError("input.size(-1) must be equal to input_size. Expected {{}}, got {{}}".format(
                self.input_size, input.size(-1)))
    batched = input.dim() == 3
    x = input if batched else input.unsqueeze(0 if self.batch_first else 1)
    if self.batch_first:
        x = x.transpose(0, 1)
    if hx is None:
        h0 = torch.zeros([{rows}, x.size(1), {out}], dtype=x.dtype, device=x.device)
        c0 = torch.zeros([{rows}, x.size(1), self.hidden_size], dtype=x.dtype, device=x.device) if {cells} else h0
    else:
        h0, c0 = {given}
        if h0.dim() != input.dim() or c0.dim() != input.dim():
            raise RuntimeError("{name}: expected a state of {{}} dimensions, as the input has, but got {{}}".format(
                    input.dim(), h0.dim()))
        if not batched:
            h0, c0 = h0.unsqueeze(1), c0.unsqueeze(1)
    expected = [{rows}, x.size(1), {out}]
    if h0.size() != expected:
        raise RuntimeError("Expected hidden size {{}}, got {{}}".format(expected, h0.size()))
    c = c0
{call}
    out = x.transpose(0, 1) if self.batch_first else x
    if not batched:
        out, h, c = out.squeeze(0 if self.batch_first else 1), h.squeeze(1), c.squeeze(1)
    return out, {result}
"""

_PACKED = """
def forward__packed(self, input: PackedSequence, hx: Optional[{state}] = None) -> Tuple[PackedSequence, {state}]:
    x, sizes, order, back = input.data, input.batch_sizes, input.sorted_indices, input.unsorted_indices
    if x.dim() != 2 or x.size(-1) != self.input_size:
        raise RuntimeError("{name}: expected a packed input of {{}} columns, but got {{}}".format(self.input_size,
                x.size()))
    batch = int(sizes[0])
    if hx is None:
        h0 = torch.zeros([{rows}, batch, {out}], dtype=x.dtype, device=x.device)
        c0 = torch.zeros([{rows}, batch, self.hidden_size], dtype=x.dtype, device=x.device) if {cells} else h0
    else:
        h0, c0 = {given}
        if order is not None:
            h0, c0 = h0.index_select(1, order), c0.index_select(1, order)
    expected = [{rows}, batch, {out}]
    if h0.size() != expected:
        raise RuntimeError("Expected hidden size {{}}, got {{}}".format(expected, h0.size()))
    c = c0
{call}
    if back is not None:
        h, c = h.index_select(1, back), c.index_select(1, back)
    return PackedSequence(x, sizes, order, back), {result}
"""


def recurrent(cls, name, attributes):
    """The texts of forward() of LSTM, GRU or RNN for modules with these attributes, of batches and of packed sequences:
    one call of the operator.
    """
    tags = [n[len("weight_ih") :] for n in attributes if n.startswith("weight_ih_l")]
    both = any(tag.endswith("_reverse") for tag in tags)
    parts = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
    weights = ", ".join(f"self.{part}{tag}" for tag in tags for part in parts if part + tag in attributes)
    layers = len(tags) // (2 if both else 1)
    given = f"[{weights}], {'bias_ih_l0' in attributes}, {layers}, self.dropout, self.training, {both}, False"
    if name == "LSTM":
        call = f"    x, h, c = torch.lstm(x, [h0, c0], {given})"
    elif name == "GRU":
        call = f"    x, h = torch.gru(x, h0, {given})"
    else:
        call = (
            f'    if self.mode == "RNN_TANH":\n        x, h = torch.rnn_tanh(x, h0, {given})\n'
            f"    else:\n        x, h = torch.rnn_relu(x, h0, {given})"
        )
    lstm = name == "LSTM"
    words = {
        "state": "Tuple[Tensor, Tensor]" if lstm else "Tensor",
        "given": "hx" if lstm else "hx, hx",
        "result": "(h, c)" if lstm else "h",
        "name": cls.__name__,
        "rows": len(tags),
        "out": "self.proj_size if self.proj_size > 0 else self.hidden_size",
        "cells": lstm,
    }
    packed = re.sub(r"(= torch\.\w+)\(x, (.*), False\)", r"\1(x, sizes, \2)", call)
    return _RECURRENT.format(call=call, **words), _PACKED.lstrip().format(call=packed, **words)
