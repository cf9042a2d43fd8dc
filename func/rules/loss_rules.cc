// The losses that have kernels of their own, as other operators inside of the level.
#include "func/rules/rules.h"
#include "tensor/ops/api.h"

namespace tessera::func {
namespace {

enum : int64_t { kNone = 0, kMean = 1, kSum = 2 };

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
      const Tensor flat = index_select(weight, 0, reshape(safe, IntVector{-1}));
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
  c.rets[1] = Value::of(total);
}

void nll_backward(const BatchCall& c) {
  const Tensor grad = tensor_at(c, 0), self = tensor_at(c, 1), target = tensor_at(c, 2), total = tensor_at(c, 6);
  const int64_t reduction = c.args[4].integer();
  const Targets t(self, target, tensor_at(c, 3), c.args[5].integer());
  Tensor g = neg(mul(t.counts, reduction == kMean ? div(grad, total) : grad));
  g = where(eq(t.counts, Scalar(0.0)), zeros_like(g), g);
  // Both decide whether the result differs across the batch.
  const Tensor zeros = mul(zeros_like(self), zeros_like(unsqueeze(g, t.dim)));
  c.rets[0] = Value::of(scatter(zeros, t.dim, t.index, unsqueeze(g, t.dim)));
}

constexpr WrittenRule kRules[] = {
    {"nll_loss_forward", Family::kWritten, nll_forward, true},
    {"nll_loss2d_forward", Family::kWritten, nll_forward, true},
    {"nll_loss_backward", Family::kWritten, nll_backward, true},
    {"nll_loss2d_backward", Family::kWritten, nll_backward, true},
};

}  // namespace

std::span<const WrittenRule> loss_rules() { return kRules; }

}  // namespace tessera::func
