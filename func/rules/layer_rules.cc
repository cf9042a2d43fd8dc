// Layers over images: convolution, pooling, padding, resampling; attention and recurrent layers.
#include <algorithm>

#include "func/rules/rules.h"
#include "tensor/ops/api.h"

namespace tessera::func {
namespace {

// --- convolution ---
//
// The batch joins the images where the weight is one for all. Where each element of the batch has its own weight, it
// joins the channels, and each element is a group.

enum : size_t { kInput = 0, kWeight, kBias, kStride, kPadding, kDilation, kTransposed, kOutputPadding, kGroups };

Tensor channels_of(const Tensor& bias, int64_t rank) {  // (c) as (1, c, 1 ...)
  TESSERA_CHECK(bias.dim() == 1 && rank >= 2, "convolution: bias must be a vector, but got ", bias.dim(),
                " dimensions");
  IntVector shape(static_cast<size_t>(rank), 1);
  shape[1] = bias.sizes()[0];
  return view(bias, IntList(shape));
}

// Inside of the level: the bias, if it can't go along with the convolution.
void convolution_rule(const BatchCall& c) {
  const Part input = part(c, kInput), weight = part(c, kWeight);
  const Tensor bias = tensor_at(c, kBias);
  const bool apart = bias.defined() && (weight.batched() || part(c, kBias).batched());
  Tensor made;
  {
    Hidden hidden;
    std::vector<Value> args = copy_args(c);
    if (apart) args[kBias] = Value::none();
    Value r;
    int64_t dim = 0;
    if (!weight.batched()) {
      args[kInput] = Value::of(folded(input, c.batch));
    } else if (!input.batched() && c.args[kGroups].integer() == 1) {
      // All weights at once, as output channels.
      args[kWeight] = Value::of(folded(weight, c.batch, c.args[kTransposed].boolean() ? 1 : 0));
      dim = 1;
    } else {
      args[kInput] = Value::of(folded(input, c.batch, 1));
      args[kWeight] = Value::of(folded(weight, c.batch));
      args[kGroups] = Value::of(c.args[kGroups].integer() * c.batch);
      dim = 1;
    }
    call_outside(c, args, &r);
    made = unfolded(r.tensor(), c.batch, dim);
    made = make_batched(made, dim, c.level);
  }
  c.rets[0] = Value::of(apart ? add(made, channels_of(bias, made.dim())) : made);
}

enum : size_t { kGradOutput = 0, kGradInput, kGradWeight, kBiasSizes, kFirstOption, kBackwardGroups = 9, kMask };

void convolution_backward_rule(const BatchCall& c) {
  const Part grad = part(c, kGradOutput), input = part(c, kGradInput), weight = part(c, kGradWeight);
  const std::span<const bool> mask = c.args[kMask].bool_list();
  TESSERA_CHECK(mask.size() == 3 && input.defined() && weight.defined() && grad.defined(),
                "convolution_backward: expected three tensors and an output_mask of 3 values, but got ", mask.size());
  const bool only_input[] = {true, false, false}, only_weight[] = {false, true, false};
  std::vector<Value> args = copy_args(c);
  args[kBiasSizes] = Value::none();
  Value r[3];
  const bool shared = !weight.batched();
  if (mask[0] && shared) {
    args[kGradOutput] = Value::of(folded(grad, c.batch));
    args[kGradInput] = Value::of(folded(input, c.batch));
    args[kMask] = Value::borrow(std::span<const bool>(only_input));
    call_outside(c, args, r);
    put(c, 0, unfolded(r[0].tensor(), c.batch), 0);
  }
  if (mask[1] || (mask[0] && !shared)) {
    args[kGradOutput] = Value::of(folded(grad, c.batch, 1));
    args[kGradInput] = Value::of(folded(input, c.batch, 1));
    args[kGradWeight] = Value::of(folded(weight, c.batch));
    args[kBackwardGroups] = Value::of(c.args[kBackwardGroups].integer() * c.batch);
    const bool both[] = {mask[0] && !shared, mask[1], false};
    args[kMask] = Value::borrow(std::span<const bool>(shared ? only_weight : both));
    call_outside(c, args, r);
    if (both[0]) put(c, 0, unfolded(r[0].tensor(), c.batch, 1), 1);
    if (mask[1]) put(c, 1, unfolded(r[1].tensor(), c.batch), 0);
  }
  if (mask[2]) {
    TESSERA_CHECK(grad.rank() >= 2, "convolution_backward: the gradient must have at least 2 dimensions");
    const Tensor g = in_front(grad, c.batch);
    IntVector dims;
    for (int64_t d = 1; d < g.dim(); ++d)
      if (d != 2) dims.push_back(d);
    put(c, 2, sum(g, IntList(dims)), 0);
  }
}

// --- resampling: images of any number of dimensions ---

void resample_rule(const BatchCall& c) {
  std::vector<Value> args = copy_args(c);
  const Part p = part(c, 0);
  args[0] = Value::of(folded(p, c.batch));
  for (size_t i = 0; i < args.size(); ++i)
    if (c.plan.roles[i] == Role::kInputSizes || c.plan.schema.arguments[i].name == "output_size") {
      IntVector sizes(args[i].int_list().begin(), args[i].int_list().end());
      if (static_cast<int64_t>(sizes.size()) == p.rank()) sizes[0] *= c.batch;
      args[i] = Value::of(std::move(sizes));
    }
  call_outside(c, args, c.rets);
  put(c, 0, unfolded(c.rets[0].tensor(), c.batch), 0);
}

// --- attention: (n, heads, length, width) ---

void attention_rule(const BatchCall& c) {
  std::vector<Value> args = copy_args(c);
  int64_t images = -1;
  for (size_t i = 0; i < args.size(); ++i) {
    if (!args[i].is_tensor() || !args[i].tensor().defined()) continue;
    const Part p = part(c, i);
    if (c.plan.schema.arguments[i].name == "attn_mask") {
      // For every image: masks may be smaller than what they are for.
      Tensor m = in_front_padded({in_front(p, c.batch), 0}, 4);
      IntVector sizes(m.sizes().begin(), m.sizes().end());
      TESSERA_CHECK(sizes.size() == 5, "attn_mask: expected at most 4 dimensions");
      sizes[1] = images;
      m = expand(m, IntList(sizes));
      args[i] = Value::of(folded({m, 0}, c.batch));
    } else {
      TESSERA_CHECK(p.rank() == 4 || c.plan.schema.arguments[i].name == "logsumexp", c.plan.schema.base_name(),
                    ": expected tensors of 4 dimensions, but got ", p.rank());
      if (images < 0) images = in_front(p, c.batch).sizes()[1];
      args[i] = Value::of(folded(p, c.batch));
    }
  }
  call_outside(c, args, c.rets);
  for (size_t i = 0; i < c.num_rets; ++i)
    if (c.rets[i].is_tensor() && c.rets[i].tensor().defined())
      c.rets[i] = Value::of(unfolded(c.rets[i].tensor(), c.batch));
  wrap_results(c);
}

// --- recurrent layers ---

// Where all share the weights, the batch joins the sequences. Where they don't, each has products of its own at every
// step anyway: one layer after the other; so are sequences of different lengths. The other tensors have the sequences
// in the dimension before the last; empty ones (a cell that there is not) are 1-dimensional.
void recurrent_rule(const BatchCall& c) {
  std::vector<Value> args = copy_args(c);
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string_view name = c.plan.schema.arguments[i].name;
    if (name == "batch_sizes" && !args[i].int_list().empty()) return run_loop(c);
    if (!args[i].is_tensor() || !args[i].tensor().defined()) continue;
    const Part p = part(c, i);
    if (name == "w_hh" || name == "b_hh" || name == "w_hr") {
      if (p.batched()) return run_loop(c);
    } else if (p.rank() > 1) {
      args[i] = Value::of(folded(p, c.batch, p.rank() - 2));
    } else if (p.batched()) {
      args[i] = Value::of(select(p.value, p.batch_dim, 0));
    }
  }
  call_outside(c, args, c.rets);
  for (size_t i = 0; i < c.num_rets; ++i) {
    const Tensor r = c.rets[i].tensor();
    if (r.defined() && r.dim() > 1) put(c, i, unfolded(r, c.batch, r.dim() - 2), r.dim() - 2);
  }
}

constexpr WrittenRule fold(std::string_view name, int rank) { return {name, Family::kFold, nullptr, false, rank}; }

constexpr WrittenRule kRules[] = {
    {"convolution", Family::kWritten, convolution_rule, true},
    {"convolution_backward", Family::kWritten, convolution_backward_rule},
    fold("reflection_pad1d", 2),
    fold("reflection_pad2d", 3),
    fold("reflection_pad3d", 4),
    fold("reflection_pad1d_backward", 2),
    fold("reflection_pad2d_backward", 3),
    fold("reflection_pad3d_backward", 4),
    fold("replication_pad1d", 2),
    fold("replication_pad2d", 3),
    fold("replication_pad3d", 4),
    fold("replication_pad1d_backward", 2),
    fold("replication_pad2d_backward", 3),
    fold("replication_pad3d_backward", 4),
    fold("im2col", 3),
    fold("col2im", 2),
    fold("max_pool2d_with_indices", 3),
    fold("max_pool2d_with_indices_backward", 3),
    fold("max_pool3d_with_indices", 4),
    fold("max_pool3d_with_indices_backward", 4),
    fold("avg_pool2d", 3),
    fold("avg_pool2d_backward", 3),
    fold("avg_pool3d", 4),
    fold("avg_pool3d_backward", 4),
    fold("_adaptive_avg_pool2d", 3),
    fold("_adaptive_avg_pool2d_backward", 3),
    fold("_adaptive_avg_pool3d", 4),
    fold("_adaptive_avg_pool3d_backward", 4),
    fold("adaptive_max_pool2d", 3),
    fold("adaptive_max_pool2d_backward", 3),
    fold("adaptive_max_pool3d", 4),
    fold("adaptive_max_pool3d_backward", 4),
    {"_resample", Family::kWritten, resample_rule},
    {"_resample_backward", Family::kWritten, resample_rule},
    fold("_grid_sample", 3),
    fold("_grid_sample_backward", 3),
    {"_scaled_dot_product_flash_attention_for_cpu", Family::kWritten, attention_rule},
    {"_scaled_dot_product_flash_attention_for_cpu_backward", Family::kWritten, attention_rule},
    {"_rnn_layer", Family::kWritten, recurrent_rule},
    {"_rnn_layer_backward", Family::kWritten, recurrent_rule},
    fold("max_unpool2d", 3),
    fold("max_unpool3d", 4),
    {"_cdist_forward", Family::kFront},
    {"_cdist_backward", Family::kFront},
};

}  // namespace

std::span<const WrittenRule> layer_rules() { return kRules; }

}  // namespace tessera::func
