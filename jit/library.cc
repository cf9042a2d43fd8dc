// Operators that other programs name and that are made of ours, in TorchScript: aten::NAME, with NAME__data for a
// second overload. Programs have no nested tensors: they are told that no mask makes one. And the other way round: what
// archives say instead of operators that only this library has.
#include <mutex>

#include "jit/ast.h"
#include "jit/function.h"
#include "jit/operator.h"
#include "jit/sugar.h"

namespace tessera::jit {

namespace {

constexpr char kLibrarySource[] = R"(
def lstm_cell(input: Tensor, hx: List[Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Optional[Tensor] = None,
        b_hh: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
    gates = torch.linear(input, w_ih, b_ih) + torch.linear(hx[0], w_hh, b_hh)
    i, f, g, o = torch.chunk(gates, 4, -1)
    c = torch.sigmoid(f) * hx[1] + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c
def gru_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Optional[Tensor] = None,
        b_hh: Optional[Tensor] = None) -> Tensor:
    x, h = torch.linear(input, w_ih, b_ih), torch.linear(hx, w_hh, b_hh)
    x_r, x_z, x_n = torch.chunk(x, 3, -1)
    h_r, h_z, h_n = torch.chunk(h, 3, -1)
    z = torch.sigmoid(x_z + h_z)
    n = torch.tanh(x_n + torch.sigmoid(x_r + h_r) * h_n)
    return (hx - n) * z + n
def rnn_tanh_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Optional[Tensor] = None,
        b_hh: Optional[Tensor] = None) -> Tensor:
    return torch.tanh(torch.linear(input, w_ih, b_ih) + torch.linear(hx, w_hh, b_hh))
def rnn_relu_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Optional[Tensor] = None,
        b_hh: Optional[Tensor] = None) -> Tensor:
    return torch.relu(torch.linear(input, w_ih, b_ih) + torch.linear(hx, w_hh, b_hh))
def _recurrent_step(x: Tensor, h: Tensor, c: Tensor, w_hh: Tensor, b_hh: Optional[Tensor], w_hr: Optional[Tensor],
        kind: int) -> Tuple[Tensor, Tensor]:
    own = torch.linear(h, w_hh, b_hh)
    if kind == 0:
        i, f, g, o = torch.chunk(x + own, 4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        if w_hr is not None:
            h = torch.linear(h, w_hr)
    elif kind == 1:
        x_r, x_z, x_n = torch.chunk(x, 3, -1)
        h_r, h_z, h_n = torch.chunk(own, 3, -1)
        z = torch.sigmoid(x_z + h_z)
        n = torch.tanh(x_n + torch.sigmoid(x_r + h_r) * h_n)
        h = (h - n) * z + n
    else:
        h = torch.tanh(x + own) if kind == 2 else torch.relu(x + own)
    return h, c
def _recurrent_direction(x: Tensor, h: Tensor, c: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Optional[Tensor],
        b_hh: Optional[Tensor], w_hr: Optional[Tensor], kind: int, reverse: bool) -> Tuple[Tensor, Tensor, Tensor]:
    steps, batch = x.size(0), x.size(1)
    whole = w_hr is None and x.is_cpu
    if whole and kind != 1 and b_hh is not None and b_ih is not None:
        b_hh = b_ih + b_hh
        b_ih = None
    gates = torch.linear(x.reshape([steps * batch, -1]), w_ih, b_ih).view([steps, batch, -1])
    if whole:
        given = gates.dtype
        work = torch.float64 if given == torch.float64 else torch.float32
        before: Optional[Tensor] = None
        if kind == 0:
            before = c.to(work)
        out, last, cell, values, extra = torch._rnn_layer(gates.to(work), h.to(work), before, w_hh.to(work),
                None if b_hh is None else b_hh.to(work), kind, reverse, torch.is_grad_enabled())
        return out.to(given), last.to(given), cell.to(given) if kind == 0 else c
    outputs: List[Tensor] = []
    for t in range(steps):
        h, c = torch._recurrent_step(gates[steps - 1 - t] if reverse else gates[t], h, c, w_hh, b_hh, w_hr, kind)
        outputs.append(h)
    if reverse:
        outputs.reverse()
    return torch.stack(outputs), h, c
def _packed_direction(x: Tensor, sizes: List[int], h: Tensor, c: Tensor, w_ih: Tensor, w_hh: Tensor,
        b_ih: Optional[Tensor], b_hh: Optional[Tensor], w_hr: Optional[Tensor], kind: int,
        reverse: bool) -> Tuple[Tensor, Tensor, Tensor]:
    rows = torch.split_with_sizes(torch.linear(x, w_ih, b_ih), sizes)
    outputs: List[Tensor] = []
    steps = len(sizes)
    for k in range(steps):
        t = steps - 1 - k if reverse else k
        n, rest = sizes[t], h.size(0) - sizes[t]
        nh, nc = torch._recurrent_step(rows[t], h.narrow(0, 0, n), c.narrow(0, 0, n), w_hh, b_hh, w_hr, kind)
        h = nh if rest == 0 else torch.cat([nh, h.narrow(0, n, rest)])
        c = nc if rest == 0 else torch.cat([nc, c.narrow(0, n, rest)])
        outputs.append(nh)
    if reverse:
        outputs.reverse()
    return torch.cat(outputs), h, c
def _recurrent_layers(x: Tensor, sizes: Optional[List[int]], h0: Tensor, c0: Tensor, params: List[Tensor],
        has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool,
        kind: int) -> Tuple[Tensor, Tensor, Tensor]:
    directions = 2 if bidirectional else 1
    count = len(params) // (num_layers * directions)
    hs: List[Tensor] = []
    cs: List[Tensor] = []
    for layer in range(num_layers):
        outputs: List[Tensor] = []
        for d in range(directions):
            k = layer * directions + d
            at = k * count
            b_ih: Optional[Tensor] = None
            b_hh: Optional[Tensor] = None
            w_hr: Optional[Tensor] = None
            if has_biases:
                b_ih, b_hh = params[at + 2], params[at + 3]
            if count % 2 == 1:
                w_hr = params[at + count - 1]
            if sizes is None:
                y, h, c = torch._recurrent_direction(x, h0[k], c0[k], params[at], params[at + 1], b_ih, b_hh, w_hr,
                        kind, d == 1)
            else:
                y, h, c = torch._packed_direction(x, sizes, h0[k], c0[k], params[at], params[at + 1], b_ih, b_hh, w_hr,
                        kind, d == 1)
            outputs.append(y)
            hs.append(h)
            cs.append(c)
        x = outputs[0] if directions == 1 else torch.cat(outputs, -1)
        if train and dropout > 0.0 and layer + 1 < num_layers:
            x = torch.dropout(x, dropout, True)
    return x, torch.stack(hs), torch.stack(cs)
def _padded_layers(input: Tensor, h0: Tensor, c0: Tensor, params: List[Tensor], has_biases: bool, num_layers: int,
        dropout: float, train: bool, bidirectional: bool, batch_first: bool,
        kind: int) -> Tuple[Tensor, Tensor, Tensor]:
    x = input.transpose(0, 1) if batch_first else input
    y, h, c = torch._recurrent_layers(x, None, h0, c0, params, has_biases, num_layers, dropout, train, bidirectional,
            kind)
    return (y.transpose(0, 1) if batch_first else y), h, c
def lstm(input: Tensor, hx: List[Tensor], params: List[Tensor], has_biases: bool, num_layers: int, dropout: float,
        train: bool, bidirectional: bool, batch_first: bool) -> Tuple[Tensor, Tensor, Tensor]:
    return torch._padded_layers(input, hx[0], hx[1], params, has_biases, num_layers, dropout, train, bidirectional,
            batch_first, 0)
def gru(input: Tensor, hx: Tensor, params: List[Tensor], has_biases: bool, num_layers: int, dropout: float,
        train: bool, bidirectional: bool, batch_first: bool) -> Tuple[Tensor, Tensor]:
    y, h, c = torch._padded_layers(input, hx, hx, params, has_biases, num_layers, dropout, train, bidirectional,
            batch_first, 1)
    return y, h
def rnn_tanh(input: Tensor, hx: Tensor, params: List[Tensor], has_biases: bool, num_layers: int, dropout: float,
        train: bool, bidirectional: bool, batch_first: bool) -> Tuple[Tensor, Tensor]:
    y, h, c = torch._padded_layers(input, hx, hx, params, has_biases, num_layers, dropout, train, bidirectional,
            batch_first, 2)
    return y, h
def rnn_relu(input: Tensor, hx: Tensor, params: List[Tensor], has_biases: bool, num_layers: int, dropout: float,
        train: bool, bidirectional: bool, batch_first: bool) -> Tuple[Tensor, Tensor]:
    y, h, c = torch._padded_layers(input, hx, hx, params, has_biases, num_layers, dropout, train, bidirectional,
            batch_first, 3)
    return y, h
def lstm__data(data: Tensor, batch_sizes: Tensor, hx: List[Tensor], params: List[Tensor], has_biases: bool,
        num_layers: int, dropout: float, train: bool, bidirectional: bool) -> Tuple[Tensor, Tensor, Tensor]:
    sizes: List[int] = batch_sizes.tolist()
    return torch._recurrent_layers(data, sizes, hx[0], hx[1], params, has_biases, num_layers, dropout, train,
            bidirectional, 0)
def gru__data(data: Tensor, batch_sizes: Tensor, hx: Tensor, params: List[Tensor], has_biases: bool,
        num_layers: int, dropout: float, train: bool, bidirectional: bool) -> Tuple[Tensor, Tensor]:
    sizes: List[int] = batch_sizes.tolist()
    y, h, c = torch._recurrent_layers(data, sizes, hx, hx, params, has_biases, num_layers, dropout, train,
            bidirectional, 1)
    return y, h
def rnn_tanh__data(data: Tensor, batch_sizes: Tensor, hx: Tensor, params: List[Tensor], has_biases: bool,
        num_layers: int, dropout: float, train: bool, bidirectional: bool) -> Tuple[Tensor, Tensor]:
    sizes: List[int] = batch_sizes.tolist()
    y, h, c = torch._recurrent_layers(data, sizes, hx, hx, params, has_biases, num_layers, dropout, train,
            bidirectional, 2)
    return y, h
def rnn_relu__data(data: Tensor, batch_sizes: Tensor, hx: Tensor, params: List[Tensor], has_biases: bool,
        num_layers: int, dropout: float, train: bool, bidirectional: bool) -> Tuple[Tensor, Tensor]:
    sizes: List[int] = batch_sizes.tolist()
    y, h, c = torch._recurrent_layers(data, sizes, hx, hx, params, has_biases, num_layers, dropout, train,
            bidirectional, 3)
    return y, h
def _convolution_mode(input: Tensor, weight: Tensor, bias: Optional[Tensor], stride: List[int], padding: str,
        dilation: List[int], groups: int) -> Tensor:
    if input.dim() - 2 == 1 or weight.dim() == 3:
        return torch.conv1d(input, weight, bias, stride, padding, dilation, groups)
    if weight.dim() == 4:
        return torch.conv2d(input, weight, bias, stride, padding, dilation, groups)
    return torch.conv3d(input, weight, bias, stride, padding, dilation, groups)
def _heads_of(t: Tensor, heads: int) -> Tensor:
    return t.view([t.size(0), t.size(1), heads, -1]).transpose(1, 2)
def _attention_mask(mask: Optional[Tensor], mask_type: Optional[int], like: Tensor) -> Optional[Tensor]:
    if mask is None:
        return None
    added = torch.zeros_like(mask, dtype=like.dtype).masked_fill_(mask.to(torch.bool), float("-inf"))
    if mask_type is not None and mask_type == 1:
        return added.view([mask.size(0), 1, 1, mask.size(-1)])
    return added
def _native_multi_head_attention(query: Tensor, key: Tensor, value: Tensor, embed_dim: int, num_head: int,
        qkv_weight: Tensor, qkv_bias: Tensor, proj_weight: Tensor, proj_bias: Tensor, mask: Optional[Tensor] = None,
        need_weights: bool = True, average_attn_weights: bool = True,
        mask_type: Optional[int] = None) -> Tuple[Tensor, Tensor]:
    w, b = torch.chunk(qkv_weight, 3), torch.chunk(qkv_bias, 3)
    q = torch._heads_of(torch.linear(query, w[0], b[0]), num_head)
    k = torch._heads_of(torch.linear(key, w[1], b[1]), num_head)
    v = torch._heads_of(torch.linear(value, w[2], b[2]), num_head)
    scores = torch.matmul(q * (1.0 / float(embed_dim // num_head)) ** 0.5, k.transpose(-2, -1))
    added = torch._attention_mask(mask, mask_type, q)
    if added is not None:
        scores = scores + added
    weights = torch.softmax(scores, -1)
    joined = torch.matmul(weights, v).transpose(1, 2).reshape([query.size(0), query.size(1), embed_dim])
    shown = torch.zeros([0])
    if need_weights:
        shown = weights.mean(1) if average_attn_weights else weights
    return torch.linear(joined, proj_weight, proj_bias), shown
def _transformer_encoder_layer_fwd(src: Tensor, embed_dim: int, num_heads: int, qkv_weight: Tensor, qkv_bias: Tensor,
        proj_weight: Tensor, proj_bias: Tensor, use_gelu: bool, norm_first: bool, eps: float, norm_weight_1: Tensor,
        norm_bias_1: Tensor, norm_weight_2: Tensor, norm_bias_2: Tensor, ffn_weight_1: Tensor, ffn_bias_1: Tensor,
        ffn_weight_2: Tensor, ffn_bias_2: Tensor, mask: Optional[Tensor] = None,
        mask_type: Optional[int] = None) -> Tensor:
    x = torch.layer_norm(src, [embed_dim], norm_weight_1, norm_bias_1, eps) if norm_first else src
    y, weights = torch._native_multi_head_attention(x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight,
            proj_bias, mask, False, True, mask_type)
    x = src + y
    if not norm_first:
        x = torch.layer_norm(x, [embed_dim], norm_weight_1, norm_bias_1, eps)
    y = torch.layer_norm(x, [embed_dim], norm_weight_2, norm_bias_2, eps) if norm_first else x
    y = torch.linear(y, ffn_weight_1, ffn_bias_1)
    y = torch.linear(torch.gelu(y) if use_gelu else torch.relu(y), ffn_weight_2, ffn_bias_2)
    x = x + y
    return x if norm_first else torch.layer_norm(x, [embed_dim], norm_weight_2, norm_bias_2, eps)
def _infer_size(a: List[int], b: List[int]) -> List[int]:
    out: List[int] = []
    n = max(len(a), len(b))
    for i in range(n):
        x = a[i + len(a) - n] if i + len(a) >= n else 1
        y = b[i + len(b) - n] if i + len(b) >= n else 1
        if x != y and x != 1 and y != 1:
            raise RuntimeError("The size of tensor a ({}) must match the size of tensor b ({}) at non-singleton "
                    "dimension {}".format(x, y, i))
        out.append(y if x == 1 else x)
    return out
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: List[int], target_lengths: List[int], blank: int = 0,
        reduction: int = 1, zero_infinity: bool = False) -> Tensor:
    batched = log_probs.dim() == 3
    x = log_probs if batched else log_probs.unsqueeze(1)
    labels = targets.unsqueeze(0) if not batched and targets.dim() == 1 else targets
    loss, alpha = torch._ctc_loss(x, labels, input_lengths, target_lengths, blank, zero_infinity)
    if zero_infinity:
        loss = torch.where(loss == float("inf"), torch.zeros_like(loss), loss)
    if reduction == 1:
        return (loss / torch.tensor(target_lengths, dtype=loss.dtype, device=loss.device).clamp(min=1)).mean()
    if reduction == 2:
        return loss.sum()
    return loss if batched else loss.squeeze(0)
def ctc_loss__data(log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int = 0,
        reduction: int = 1, zero_infinity: bool = False) -> Tensor:
    of_inputs: List[int] = input_lengths.reshape([-1]).tolist()
    of_targets: List[int] = target_lengths.reshape([-1]).tolist()
    return torch.ctc_loss(log_probs, targets, of_inputs, of_targets, blank, reduction, zero_infinity)
def _nested_tensor_from_mask_left_aligned(t: Tensor, mask: Tensor) -> bool:
    return False
def _nested_tensor_from_mask(t: Tensor, mask: Tensor, mask_check: bool = True) -> Tensor:
    raise RuntimeError("programs have no nested tensors")
    return t
def to_padded_tensor(self: Tensor, padding: float, output_size: Optional[List[int]] = None) -> Tensor:
    raise RuntimeError("programs have no nested tensors")
    return self
def _resampled(input: Tensor, output_size: Optional[List[int]], scale_factors: Optional[List[float]], mode: int,
        align_corners: bool = False) -> Tensor:
    sizes = [input.size(0), input.size(1)]
    steps: List[float] = []
    if output_size is not None:
        for size in output_size:
            sizes.append(size)
    elif scale_factors is not None:
        for i in range(len(scale_factors)):
            sizes.append(int(float(input.size(i + 2)) * scale_factors[i]))
            steps.append(1.0 / scale_factors[i])
    return torch._resample(input, sizes, steps, mode, align_corners)
def upsample_nearest1d(input: Tensor, output_size: Optional[List[int]],
        scale_factors: Optional[List[float]]) -> Tensor:
    return torch._resampled(input, output_size, scale_factors, 0)
def _upsample_nearest_exact1d(input: Tensor, output_size: Optional[List[int]],
        scale_factors: Optional[List[float]]) -> Tensor:
    return torch._resampled(input, output_size, scale_factors, 1)
def upsample_nearest2d(input: Tensor, output_size: Optional[List[int]],
        scale_factors: Optional[List[float]]) -> Tensor:
    return torch._resampled(input, output_size, scale_factors, 0)
def _upsample_nearest_exact2d(input: Tensor, output_size: Optional[List[int]],
        scale_factors: Optional[List[float]]) -> Tensor:
    return torch._resampled(input, output_size, scale_factors, 1)
def upsample_nearest3d(input: Tensor, output_size: Optional[List[int]],
        scale_factors: Optional[List[float]]) -> Tensor:
    return torch._resampled(input, output_size, scale_factors, 0)
def _upsample_nearest_exact3d(input: Tensor, output_size: Optional[List[int]],
        scale_factors: Optional[List[float]]) -> Tensor:
    return torch._resampled(input, output_size, scale_factors, 1)
def upsample_linear1d(input: Tensor, output_size: Optional[List[int]], align_corners: bool,
        scale_factors: Optional[List[float]]) -> Tensor:
    return torch._resampled(input, output_size, scale_factors, 2, align_corners)
def upsample_bilinear2d(input: Tensor, output_size: Optional[List[int]], align_corners: bool,
        scale_factors: Optional[List[float]]) -> Tensor:
    return torch._resampled(input, output_size, scale_factors, 2, align_corners)
def upsample_trilinear3d(input: Tensor, output_size: Optional[List[int]], align_corners: bool,
        scale_factors: Optional[List[float]]) -> Tensor:
    return torch._resampled(input, output_size, scale_factors, 2, align_corners)
def upsample_bicubic2d(input: Tensor, output_size: Optional[List[int]], align_corners: bool,
        scale_factors: Optional[List[float]]) -> Tensor:
    return torch._resampled(input, output_size, scale_factors, 3, align_corners)
def _upsample_bilinear2d_aa(input: Tensor, output_size: Optional[List[int]], align_corners: bool,
        scale_factors: Optional[List[float]]) -> Tensor:
    return torch._resampled(input, output_size, scale_factors, 4, align_corners)
def _upsample_bicubic2d_aa(input: Tensor, output_size: Optional[List[int]], align_corners: bool,
        scale_factors: Optional[List[float]]) -> Tensor:
    return torch._resampled(input, output_size, scale_factors, 5, align_corners)
)";

constexpr char kPortableSource[] = R"(
def _resample(input: Tensor, sizes: List[int], steps: List[float], mode: int, align: bool) -> Tensor:
    size: Optional[List[int]] = sizes[2:]
    scales: Optional[List[float]] = None
    if len(steps) > 0:
        factors: List[float] = []
        same = True
        for i in range(len(steps)):
            factors.append(1.0 / steps[i])
            same = same and int(float(input.size(i + 2)) * factors[i]) == sizes[i + 2]
        if same:
            size = None
            scales = factors
    if input.dim() == 3:
        if mode == 0:
            return torch.upsample_nearest1d(input, size, scales)
        if mode == 1:
            return torch._upsample_nearest_exact1d(input, size, scales)
        return torch.upsample_linear1d(input, size, align, scales)
    if input.dim() == 5:
        if mode == 0:
            return torch.upsample_nearest3d(input, size, scales)
        if mode == 1:
            return torch._upsample_nearest_exact3d(input, size, scales)
        return torch.upsample_trilinear3d(input, size, align, scales)
    if mode == 0:
        return torch.upsample_nearest2d(input, size, scales)
    if mode == 1:
        return torch._upsample_nearest_exact2d(input, size, scales)
    if mode == 2:
        return torch.upsample_bilinear2d(input, size, align, scales)
    if mode == 3:
        return torch.upsample_bicubic2d(input, size, align, scales)
    if mode == 4:
        return torch._upsample_bilinear2d_aa(input, size, align, scales)
    return torch._upsample_bicubic2d_aa(input, size, align, scales)
def _rnn_layer(gates: Tensor, h: Tensor, c: Optional[Tensor], w_hh: Tensor, b_hh: Optional[Tensor], kind: int,
        reverse: bool, for_backward: bool) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    cell = h if c is None else c
    outputs: List[Tensor] = []
    steps = gates.size(0)
    for t in range(steps):
        x = gates[steps - 1 - t] if reverse else gates[t]
        own = torch.linear(h, w_hh, b_hh)
        if kind == 0:
            i, f, g, o = torch.chunk(x + own, 4, -1)
            cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(cell)
        elif kind == 1:
            x_r, x_z, x_n = torch.chunk(x, 3, -1)
            h_r, h_z, h_n = torch.chunk(own, 3, -1)
            z = torch.sigmoid(x_z + h_z)
            n = torch.tanh(x_n + torch.sigmoid(x_r + h_r) * h_n)
            h = (h - n) * z + n
        else:
            h = torch.tanh(x + own) if kind == 2 else torch.relu(x + own)
        outputs.append(h)
    if reverse:
        outputs.reverse()
    return torch.stack(outputs), h, cell, h, h
)";

struct LibraryResolver final : Resolver {
  bool resolve(const std::string& name, const Range&, Sugar* out) override {
    if (name == "torch") return *out = Sugar(Sugar::kNamespace, "torch"), true;
    if (!name.starts_with("torch.")) return false;
    const std::string rest = name.substr(6);
    if (const auto dtype = schema_enum_value(TypeKind::kScalarType, rest))
      return *out = Sugar::of_constant(Value::of(int64_t{*dtype}), int_type()), true;
    *out = Sugar(Sugar::kOp, "aten::" + rest);
    return true;
  }
};

}  // namespace

Function* library_function(std::string_view name) {
  Unit& u = common_unit();
  const std::lock_guard lock(compile_lock());
  static bool read = false;
  if (!read) {
    read = true;
    auto resolver = make_intrusive<LibraryResolver>();
    for (const auto& [text, prefix] : {std::pair(kLibrarySource, "aten::"), std::pair(kPortableSource, kPortable)})
      for (const Ast* d : parse_source(u.add_source(text, "<library>", 1))->kids)
        define(u, *d, prefix + d->text, resolver);
  }
  return u.find_function(name);
}

}  // namespace tessera::jit
