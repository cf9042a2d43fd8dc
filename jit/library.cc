// Operators that other programs name and that are made of ours, in TorchScript: aten::NAME, with NAME__data for a
// second overload. Programs have no nested tensors: they are told that no mask makes one. And the other way round: what
// archives say instead of operators that only this library has.
#include <mutex>

#include "jit/source/ast.h"
#include "jit/function.h"
#include "jit/operator.h"
#include "jit/source/sugar.h"

namespace tessera::jit {

namespace {

constexpr char kLibrarySource[] = R"(
def lstm_cell(input: Tensor, hx: List[Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Optional[Tensor] = None,
        b_hh: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
    return torch._rnn_cell(input, hx, w_ih, w_hh, b_ih, b_hh, 0)
def gru_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Optional[Tensor] = None,
        b_hh: Optional[Tensor] = None) -> Tensor:
    return torch._rnn_cell(input, [hx], w_ih, w_hh, b_ih, b_hh, 1)[0]
def rnn_tanh_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Optional[Tensor] = None,
        b_hh: Optional[Tensor] = None) -> Tensor:
    return torch._rnn_cell(input, [hx], w_ih, w_hh, b_ih, b_hh, 2)[0]
def rnn_relu_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Optional[Tensor] = None,
        b_hh: Optional[Tensor] = None) -> Tensor:
    return torch._rnn_cell(input, [hx], w_ih, w_hh, b_ih, b_hh, 3)[0]
def _padded_layers(input: Tensor, hx: List[Tensor], params: List[Tensor], has_biases: bool, dropout: float,
        bidirectional: bool, batch_first: bool, kind: int) -> Tuple[Tensor, Tensor, Tensor]:
    x = input.transpose(0, 1) if batch_first else input
    y, h, c = torch._rnn_layers(x, hx, params, kind, has_biases, dropout, bidirectional)
    return (y.transpose(0, 1) if batch_first else y), h, c
def lstm(input: Tensor, hx: List[Tensor], params: List[Tensor], has_biases: bool, num_layers: int, dropout: float,
        train: bool, bidirectional: bool, batch_first: bool) -> Tuple[Tensor, Tensor, Tensor]:
    return torch._padded_layers(input, hx, params, has_biases, dropout if train else 0.0, bidirectional, batch_first, 0)
def lstm__data(data: Tensor, batch_sizes: Tensor, hx: List[Tensor], params: List[Tensor], has_biases: bool,
        num_layers: int, dropout: float, train: bool, bidirectional: bool) -> Tuple[Tensor, Tensor, Tensor]:
    sizes: List[int] = batch_sizes.tolist()
    return torch._rnn_layers(data, hx, params, 0, has_biases, dropout if train else 0.0, bidirectional, sizes)
def gru(input: Tensor, hx: Tensor, params: List[Tensor], has_biases: bool, num_layers: int, dropout: float,
        train: bool, bidirectional: bool, batch_first: bool) -> Tuple[Tensor, Tensor]:
    return torch._padded_layers(input, [hx], params, has_biases, dropout if train else 0.0, bidirectional, batch_first,
            1)[:2]
def gru__data(data: Tensor, batch_sizes: Tensor, hx: Tensor, params: List[Tensor], has_biases: bool,
        num_layers: int, dropout: float, train: bool, bidirectional: bool) -> Tuple[Tensor, Tensor]:
    sizes: List[int] = batch_sizes.tolist()
    return torch._rnn_layers(data, [hx], params, 1, has_biases, dropout if train else 0.0, bidirectional, sizes)[:2]
def rnn_tanh(input: Tensor, hx: Tensor, params: List[Tensor], has_biases: bool, num_layers: int, dropout: float,
        train: bool, bidirectional: bool, batch_first: bool) -> Tuple[Tensor, Tensor]:
    return torch._padded_layers(input, [hx], params, has_biases, dropout if train else 0.0, bidirectional, batch_first,
            2)[:2]
def rnn_tanh__data(data: Tensor, batch_sizes: Tensor, hx: Tensor, params: List[Tensor], has_biases: bool,
        num_layers: int, dropout: float, train: bool, bidirectional: bool) -> Tuple[Tensor, Tensor]:
    sizes: List[int] = batch_sizes.tolist()
    return torch._rnn_layers(data, [hx], params, 2, has_biases, dropout if train else 0.0, bidirectional, sizes)[:2]
def rnn_relu(input: Tensor, hx: Tensor, params: List[Tensor], has_biases: bool, num_layers: int, dropout: float,
        train: bool, bidirectional: bool, batch_first: bool) -> Tuple[Tensor, Tensor]:
    return torch._padded_layers(input, [hx], params, has_biases, dropout if train else 0.0, bidirectional, batch_first,
            3)[:2]
def rnn_relu__data(data: Tensor, batch_sizes: Tensor, hx: Tensor, params: List[Tensor], has_biases: bool,
        num_layers: int, dropout: float, train: bool, bidirectional: bool) -> Tuple[Tensor, Tensor]:
    sizes: List[int] = batch_sizes.tolist()
    return torch._rnn_layers(data, [hx], params, 3, has_biases, dropout if train else 0.0, bidirectional, sizes)[:2]
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
def type(self: Tensor, dtype: int, non_blocking: bool = False) -> Tensor:
    return self.to(dtype, non_blocking)
def norm__data(self: Tensor, p: str = "fro", dim: Optional[List[int]] = None, keepdim: bool = False) -> Tensor:
    if p == "fro":
        return torch.linalg_vector_norm(self, 2, dim, keepdim)
    return torch.linalg_matrix_norm(self, p, [-2, -1] if dim is None else dim, keepdim)
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
def _rnn_layers(input: Tensor, hx: List[Tensor], params: List[Tensor], kind: int, has_biases: bool, dropout: float,
        bidirectional: bool, batch_sizes: List[int]) -> Tuple[Tensor, Tensor, Tensor]:
    layers = hx[0].size(0) // (2 if bidirectional else 1)
    train = dropout > 0.0
    rows: Optional[Tensor] = None
    if len(batch_sizes) > 0:
        rows = torch.tensor(batch_sizes)
    if kind == 0:
        if rows is None:
            return torch.lstm(input, hx, params, has_biases, layers, dropout, train, bidirectional, False)
        return torch.lstm(input, rows, hx, params, has_biases, layers, dropout, train, bidirectional)
    h = hx[0]
    if kind == 1:
        if rows is None:
            y, n = torch.gru(input, h, params, has_biases, layers, dropout, train, bidirectional, False)
        else:
            y, n = torch.gru(input, rows, h, params, has_biases, layers, dropout, train, bidirectional)
    elif kind == 2:
        if rows is None:
            y, n = torch.rnn_tanh(input, h, params, has_biases, layers, dropout, train, bidirectional, False)
        else:
            y, n = torch.rnn_tanh(input, rows, h, params, has_biases, layers, dropout, train, bidirectional)
    else:
        if rows is None:
            y, n = torch.rnn_relu(input, h, params, has_biases, layers, dropout, train, bidirectional, False)
        else:
            y, n = torch.rnn_relu(input, rows, h, params, has_biases, layers, dropout, train, bidirectional)
    return y, n, n
def _written(out: Tensor, value: Tensor) -> Tensor:
    if out.size() != value.size():
        out.resize_(value.size())
    return out.copy_(value)
def _rnn_cell(input: Tensor, hx: List[Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Optional[Tensor],
        b_hh: Optional[Tensor], kind: int) -> Tuple[Tensor, Tensor]:
    if kind == 0:
        return torch.lstm_cell(input, hx, w_ih, w_hh, b_ih, b_hh)
    if kind == 1:
        h = torch.gru_cell(input, hx[0], w_ih, w_hh, b_ih, b_hh)
    elif kind == 2:
        h = torch.rnn_tanh_cell(input, hx[0], w_ih, w_hh, b_ih, b_hh)
    else:
        h = torch.rnn_relu_cell(input, hx[0], w_ih, w_hh, b_ih, b_hh)
    return h, h
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
