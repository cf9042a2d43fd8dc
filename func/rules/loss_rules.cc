// The losses that have kernels of their own, as other operators inside of the level.
#include <algorithm>

#include "func/rules/rules.h"
#include "tensor/ops/api.h"

namespace tessera::func {
namespace {

enum Reduction : int64_t { kNone = 0, kMean = 1, kSum = 2 };

// What one target counts: its class weight, or 1; 0 where it is to be ignored.
struct Targets {
  int64_t dim;   // of the classes
  Tensor index;  // of self's rank: the class, 0 where ignored
  Tensor counts;
  Targets(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t ignored)
      : dim(self.dim() == 1 ? 0 : 1) {
    const Tensor skip = eq(target, Scalar(ignored));
    const Tensor safe = masked_fill(target, skip, Scalar(int64_t{0}));
    index = unsqueeze(to(safe, DType::kInt64), dim);
    if (weight.defined()) {
      const Tensor flat = index_select(detach(weight), 0, reshape(safe, IntVector{-1}));
      counts = masked_fill(view(flat, target.sizes()), skip, Scalar(0.0));
    } else {
      counts = to(logical_not(skip), self.dtype());
    }
  }
};

void nll_forward(const BatchCall& c) {
  const Tensor self = tensor_at(c, 0), target = tensor_at(c, 1);
  const int64_t reduction = c.args[3].integer();
  const Targets t(self, target, tensor_at(c, 2), c.args[4].integer());
  const Tensor losses = neg(mul(squeeze(gather(self, t.dim, t.index), t.dim), t.counts));
  // Ignored positions give 0 whatever is there.
  const Tensor clean = where(eq(t.counts, Scalar(0.0)), zeros_like(losses), losses);
  if (reduction == kNone) {
    c.rets[0] = Value::of(clean);
    c.rets[1] = Value::of(new_zeros(self, IntVector{}));
    return;
  }
  const Tensor total = sum(t.counts);
  c.rets[0] = Value::of(reduction == kMean ? div(sum(clean), total) : sum(clean));
  c.rets[1] = Value::of(detach(total));
}

void nll_backward(const BatchCall& c) {
  const Tensor grad = tensor_at(c, 0), self = tensor_at(c, 1), target = tensor_at(c, 2),
               total = detach(tensor_at(c, 6));
  const int64_t reduction = c.args[4].integer();
  const Targets t(self, target, tensor_at(c, 3), c.args[5].integer());
  Tensor g = neg(mul(t.counts, reduction == kMean ? div(grad, total) : grad));
  g = where(eq(t.counts, Scalar(0.0)), zeros_like(g), g);
  // Both decide whether the result differs across the batch.
  const Tensor zeros = mul(zeros_like(self), zeros_like(unsqueeze(g, t.dim)));
  c.rets[0] = Value::of(scatter(zeros, t.dim, t.index, unsqueeze(g, t.dim)));
}

// Elementwise with a reduction: the elements by the operator itself, the reduction of each element's own.
void reduced_rule(const BatchCall& c) {
  size_t at = 0;
  while (c.plan.schema.arguments[at].name != "reduction") ++at;
  const int64_t reduction = c.args[at].integer();
  Tensor elements;
  {
    Hidden hidden;
    std::vector<Value> args = copy_args(c);
    int64_t rank = 0;
    for (const Value& v : c.args)
      if (v.is_tensor() && v.tensor().defined()) rank = std::max(rank, part_of(v.tensor(), c.level).rank());
    for (size_t i = 0; i < args.size(); ++i)
      if (args[i].is_tensor() && args[i].tensor().defined())
        args[i] = Value::of(in_front_padded({in_front(part(c, i), c.batch), 0}, rank));
    args[at] = Value::of(int64_t{kNone});
    call_outside(c, args, c.rets);
    elements = make_batched(c.rets[0].tensor(), 0, c.level);
  }
  c.rets[0] = Value::of(reduction == kNone ? elements : reduction == kMean ? mean(elements) : sum(elements));
}

constexpr WrittenRule kRules[] = {
    {"mse_loss", Family::kWritten, reduced_rule, true},
    {"smooth_l1_loss", Family::kWritten, reduced_rule, true},
    {"huber_loss", Family::kWritten, reduced_rule, true},
    {"binary_cross_entropy", Family::kWritten, reduced_rule, true},
    {"binary_cross_entropy_with_logits", Family::kWritten, reduced_rule, true},
    {"gelu", Family::kPointwise},
    {"gelu_backward", Family::kPointwise},
    {"elu_backward", Family::kPointwise},
    {"nll_loss_forward", Family::kWritten, nll_forward, true},
    {"nll_loss2d_forward", Family::kWritten, nll_forward, true},
    {"nll_loss_backward", Family::kWritten, nll_backward, true},
    {"nll_loss2d_backward", Family::kWritten, nll_backward, true},
};

}  // namespace

std::span<const WrittenRule> loss_rules() { return kRules; }

}  // namespace tessera::func
