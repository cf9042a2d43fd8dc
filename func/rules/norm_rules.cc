// Normalisation. What is normalised together never crosses the batch, so the batch joins channels or images; parameters
// that differ across the batch are applied behind the normalisation.
#include "func/rules/rules.h"
#include "tensor/ops/api.h"

namespace tessera::func {
namespace {

Value value_or_none(const Tensor& t) { return t.defined() ? Value::of(t) : Value::none(); }
// (c) of each element as (batch * c).
Value channels(const Part& p, int64_t batch) { return p.defined() ? Value::of(folded(p, batch)) : Value::none(); }

// The batch joins the channels.
void batch_norm_rule(const BatchCall& c) {
  std::vector<Value> args = copy_args(c);
  const Part input = part(c, 0);
  args[0] = Value::of(folded(input, c.batch, 1));
  for (size_t i = 1; i < 7; ++i) {
    const Part p = part(c, i);
    const bool running = i >= 5;  // they are written to
    TESSERA_CHECK(!running || !p.defined() || p.batched() || !c.args[7].boolean(),
                  "vmap: batch_norm would update running_mean and running_var in place, which are not being vmapped "
                  "over, with statistics of an input that is. Replace the batch norm layers, for example by "
                  "torch.func.replace_all_batch_norm_modules_.");
    args[i] = channels(p, c.batch);
  }
  call_outside(c, args, c.rets);
  for (size_t i = 5; i < 7; ++i) {
    const Part p = part(c, i);
    if (p.defined() && c.args[7].boolean()) copy_(in_front(p, c.batch), unfolded(args[i].tensor(), c.batch));
  }
  put(c, 0, unfolded(c.rets[0].tensor(), c.batch, 1), 1);
  for (size_t i = 1; i < 3; ++i) {
    const Tensor t = c.rets[i].tensor();
    if (t.defined()) put(c, i, t.numel() ? unfolded(t, c.batch) : expand(unsqueeze(t, 0), IntVector{c.batch, 0}), 0);
  }
}

void batch_norm_backward_rule(const BatchCall& c) {
  std::vector<Value> args = copy_args(c);
  args[0] = Value::of(folded(part(c, 0), c.batch, 1));
  args[1] = Value::of(folded(part(c, 1), c.batch, 1));
  for (size_t i = 2; i < 7; ++i) {
    const Part p = part(c, i);
    args[i] = p.defined() && p.value.numel() == 0 ? value_or_none(Tensor()) : channels(p, c.batch);
  }
  call_outside(c, args, c.rets);
  const Tensor grad = c.rets[0].tensor();
  if (grad.defined()) put(c, 0, unfolded(grad, c.batch, 1), 1);
  for (size_t i = 1; i < 3; ++i)
    if (const Tensor t = c.rets[i].tensor(); t.defined()) put(c, i, unfolded(t, c.batch), 0);
}

// Calls the operator outside of the level, without parameters; f gets the arguments with the batch in front.
struct Normalised {
  Tensor out, mean, rstd;  // inside of the level
};

Tensor with_parameters(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  Tensor r = weight.defined() ? mul(x, weight) : x;
  return bias.defined() ? add(r, bias) : r;
}

// --- layer norm: leading dimensions are a batch anyway ---

void layer_norm_rule(const BatchCall& c) {
  const Tensor weight = tensor_at(c, 2), bias = tensor_at(c, 3);
  const bool apart = part(c, 2).batched() || part(c, 3).batched();
  {
    Hidden hidden;
    std::vector<Value> args = copy_args(c);
    args[0] = Value::of(in_front(part(c, 0), c.batch));
    if (apart) args[2] = args[3] = Value::none();
    call_outside(c, args, c.rets);
    wrap_results(c);
  }
  if (apart) c.rets[0] = Value::of(with_parameters(c.rets[0].tensor(), weight, bias));
}

// Sum over the dimensions in front of the last `kept`.
Tensor sum_leading(const Tensor& t, int64_t kept) {
  IntVector dims;
  for (int64_t d = 0; d < t.dim() - kept; ++d) dims.push_back(d);
  return dims.empty() ? t : sum(t, IntList(dims));
}

// (x - mean) * rstd over the last `kept` dimensions. Where this is differentiated again, mean and rstd are functions of
// x, too: eps is what makes rstd of x's variance.
Tensor normalised(const Tensor& x, const Tensor& mean, const Tensor& rstd, int64_t kept) {
  const bool again = (has_history(x) && grad_mode_enabled()) || has_tangent(x);
  if (!again) return mul(sub(x, detach(mean)), detach(rstd));
  IntVector dims;
  for (int64_t d = x.dim() - kept; d < x.dim(); ++d) dims.push_back(d);
  const Tensor variance = var(x, IntList(dims), Scalar(0), true);
  const Tensor eps = detach(sub(pow(rstd, Scalar(-2)), variance));
  return mul(sub(x, tessera::mean(x, IntList(dims), true)), rsqrt(add(variance, eps)));
}

void layer_norm_backward_rule(const BatchCall& c) {
  const Tensor grad = tensor_at(c, 0), input = tensor_at(c, 1), mean = tensor_at(c, 3), rstd = tensor_at(c, 4),
               weight = tensor_at(c, 5);
  const std::span<const bool> mask = c.args[7].bool_list();
  const auto kept = static_cast<int64_t>(c.args[2].int_list().size());
  TESSERA_CHECK(mask.size() == 3 && kept <= input.dim() && kept <= grad.dim(),
                "native_layer_norm_backward: expected an output_mask of 3 values and an input of at least ", kept,
                " dimensions");
  if (mask[0]) {
    // A weight for each element is part of the gradient that arrives.
    const bool apart = part(c, 5).batched();
    const Tensor g = apart ? mul(grad, weight) : grad;
    const int64_t level = c.level;
    Hidden hidden;
    const bool only_input[] = {true, false, false};
    std::vector<Value> args = copy_args(c);
    args[0] = Value::of(in_front(part_of(g, level), c.batch));
    for (size_t i : {size_t{1}, size_t{3}, size_t{4}}) args[i] = Value::of(in_front(part(c, i), c.batch));
    if (apart) args[5] = Value::none();
    args[6] = Value::none();
    args[7] = Value::borrow(std::span<const bool>(only_input));
    Value r[3];
    call_outside(c, args, r);
    put(c, 0, Tensor(r[0].tensor()), 0);
  }
  if (mask[1]) c.rets[1] = Value::of(sum_leading(mul(grad, normalised(input, mean, rstd, kept)), kept));
  if (mask[2]) c.rets[2] = Value::of(sum_leading(grad, kept));
}

// --- group norm: (N, C, ...) with N, C and HxW as numbers ---

IntVector channel_shape(int64_t channels, int64_t rank) {
  IntVector shape(static_cast<size_t>(rank), 1);
  shape[1] = channels;
  return shape;
}
Tensor as_channels(const Tensor& t, int64_t rank) {
  TESSERA_CHECK(!t.defined() || (t.dim() == 1 && rank >= 2), "weight and bias must be vectors of the channels");
  return t.defined() ? view(t, IntList(channel_shape(t.sizes()[0], rank))) : t;
}

void group_norm_rule(const BatchCall& c) {
  const Tensor weight = tensor_at(c, 1), bias = tensor_at(c, 2);
  const bool apart = part(c, 1).batched() || part(c, 2).batched();
  const int64_t rank = tensor_at(c, 0).dim();
  {
    Hidden hidden;
    std::vector<Value> args = copy_args(c);
    args[0] = Value::of(folded(part(c, 0), c.batch));
    args[3] = Value::of(c.args[3].integer() * c.batch);
    if (apart) args[1] = args[2] = Value::none();
    call_outside(c, args, c.rets);
    for (size_t i = 0; i < 3; ++i) c.rets[i] = Value::of(unfolded(c.rets[i].tensor(), c.batch));
    wrap_results(c);
  }
  if (apart)
    c.rets[0] = Value::of(with_parameters(c.rets[0].tensor(), as_channels(weight, rank), as_channels(bias, rank)));
}

void group_norm_backward_rule(const BatchCall& c) {
  const Tensor grad = tensor_at(c, 0), input = tensor_at(c, 1), mean = tensor_at(c, 2), rstd = tensor_at(c, 3),
               weight = tensor_at(c, 4);
  const int64_t images = c.args[5].integer(), groups = c.args[8].integer(), chans = c.args[6].integer();
  const std::span<const bool> mask = c.args[9].bool_list();
  TESSERA_CHECK(mask.size() == 3 && groups > 0 && chans % groups == 0 && grad.dim() >= 2,
                "native_group_norm_backward: expected an output_mask of 3 values and channels that ", groups,
                " groups divide, got ", chans);
  if (mask[0]) {
    const bool apart = part(c, 4).batched();
    const Tensor g = apart ? mul(grad, as_channels(weight, grad.dim())) : grad;
    Hidden hidden;
    const bool only_input[] = {true, false, false};
    std::vector<Value> args = copy_args(c);
    args[0] = Value::of(folded(part_of(g, c.level), c.batch));
    for (size_t i = 1; i < 4; ++i) args[i] = Value::of(folded(part(c, i), c.batch));
    if (apart) args[4] = Value::none();
    args[5] = Value::of(images * c.batch);
    args[9] = Value::borrow(std::span<const bool>(only_input));
    Value r[3];
    call_outside(c, args, r);
    put(c, 0, unfolded(r[0].tensor(), c.batch), 0);
  }
  if (!mask[1] && !mask[2]) return;
  const IntVector grouped{images, groups, chans / groups, -1}, pixels{images, chans, -1}, over{0, 2};
  if (mask[1]) {
    const auto stat = [&](const Tensor& t) { return view(t, IntVector{images, groups, 1, 1}); };
    const Tensor x = normalised(reshape(input, IntList(grouped)), stat(mean), stat(rstd), 2);
    const Tensor product = reshape(mul(x, reshape(grad, IntList(grouped))), IntList(pixels));
    c.rets[1] = Value::of(sum(product, IntList(over)));
  }
  if (mask[2]) c.rets[2] = Value::of(sum(reshape(grad, IntList(pixels)), IntList(over)));
}

constexpr WrittenRule kRules[] = {
    {"_batch_norm", Family::kWritten, batch_norm_rule},
    {"native_batch_norm_backward", Family::kWritten, batch_norm_backward_rule},
    {"_native_layer_norm", Family::kWritten, layer_norm_rule, true},
    {"native_layer_norm_backward", Family::kWritten, layer_norm_backward_rule, true},
    {"native_group_norm", Family::kWritten, group_norm_rule, true},
    {"native_group_norm_backward", Family::kWritten, group_norm_backward_rule, true},
};

}  // namespace

std::span<const WrittenRule> norm_rules() { return kRules; }

}  // namespace tessera::func
