// The recursions of nn/cpu/ctc.cc as operators.
#include "nn/formulas/ctc_formulas.h"

#include <limits>

#include "tensor/core/dispatch_key.h"
#include "tensor/ops/api.h"
#include "tensor/ops/dual.h"

namespace tessera::autograd::formulas {
namespace {

// Stands for the logarithm of 0; its multiples are finite, so that gradients are 0 there and not NaN.
double never_of(const Tensor& t) { return t.dtype() == DType::kFloat32 ? -1e30 : -1e300; }

Tensor filled(const Tensor& like, int64_t n, const Scalar& value) {
  const int64_t sizes[1] = {n};
  return new_full(like, IntList(sizes), value);
}
Tensor joined(const Tensor& a, const Tensor& b) {
  const Tensor parts[] = {a, b};
  return cat(parts, 0);
}

// The labels of a target with blanks around them.
Tensor with_blanks(const Tensor& labels, int64_t blank) {
  const int64_t n = labels.size(0);
  const Tensor pairs[] = {filled(labels, n, blank), labels};
  return joined(flatten(stack(pairs, 1), 0, -1), filled(labels, 1, blank));
}

// Rows of log of the probability of all beginnings that end in a state: (steps, states).
Tensor recursion(const Tensor& scores, const Tensor& labels, int64_t blank) {
  const int64_t steps = scores.size(0), count = scores.size(1);
  const double never = never_of(scores);
  const int64_t first[1] = {0};
  const auto behind = [&](const Tensor& row, int64_t n) {
    return joined(filled(row, std::min(n, count), never), narrow(row, 0, 0, std::max<int64_t>(count - n, 0)));
  };
  Tensor skips = to(filled(labels, std::min<int64_t>(count, 2), 1), DType::kBool);
  if (count > 2) {
    const Tensor later = narrow(labels, 0, 2, count - 2), before = narrow(labels, 0, 0, count - 2);
    skips = joined(skips, logical_or(eq(later, Scalar(blank)), eq(later, before)));
  }
  const int64_t starts = std::min<int64_t>(count, 2);
  std::vector<Tensor> rows{joined(narrow(select(scores, 0, 0), 0, 0, starts), filled(scores, count - starts, never))};
  for (int64_t t = 1; t < steps; ++t) {
    const Tensor& last = rows.back();
    const Tensor ways[] = {last, behind(last, 1), masked_fill(behind(last, 2), skips, Scalar(never))};
    rows.push_back(clamp_min(add(logsumexp(stack(ways, 0), IntList(first)), select(scores, 0, t)), Scalar(never)));
  }
  return stack(rows, 0);
}

// (steps, classes) of one sequence, all of whose steps count.
Tensor sequence_gradient(const Tensor& grad, const Tensor& log_probs, const Tensor& target, int64_t blank,
                         bool zero_infinity) {
  const Tensor labels = with_blanks(target, blank);
  const int64_t count = labels.size(0), steps = log_probs.size(0), ends = std::min<int64_t>(count, 2);
  const double never = never_of(log_probs);
  const int64_t both[2] = {0, 1}, first[1] = {0};
  const Tensor scores = clamp_min(index_select(log_probs, 1, labels), Scalar(never));
  const Tensor alpha = recursion(scores, labels, blank),
               beta = flip(recursion(flip(scores, IntList(both)), flip(labels, IntList(first)), blank), IntList(both));
  const Tensor total = logsumexp(narrow(select(alpha, 0, steps - 1), 0, count - ends, ends), IntList(first));
  const Tensor visits = exp(sub(sub(add(alpha, beta), scores), total));
  const Tensor gradient = mul(sub(exp(log_probs), index_add(zeros_like(log_probs), 1, labels, visits)), grad);
  const double bad = zero_infinity ? 0.0 : std::numeric_limits<double>::quiet_NaN();
  return masked_fill(gradient, lt(total, Scalar(never / 10)), Scalar(bad));
}

}  // namespace

Tensor ctc_gradient(const Tensor& grad, const Tensor& log_probs, const Tensor& targets, IntList input_lengths,
                    IntList target_lengths, const Tensor& loss, const Tensor& log_alpha, int64_t blank,
                    bool zero_infinity) {
  if (!grad_mode_enabled() && !any_dual(grad, log_probs, targets))
    return _ctc_loss_backward(grad, log_probs, targets, input_lengths, target_lengths, loss, log_alpha, blank,
                              zero_infinity);
  std::vector<Tensor> all;
  int64_t next = 0;
  for (size_t n = 0; n < input_lengths.size(); ++n) {
    const int64_t index = static_cast<int64_t>(n), steps = input_lengths[n], rest = log_probs.size(0) - steps;
    const Tensor row = targets.dim() == 1 ? targets : select(targets, 0, index);
    const Tensor target = to(narrow(row, 0, targets.dim() == 1 ? next : 0, target_lengths[n]), DType::kInt64);
    next += target_lengths[n];
    const Tensor scores = select(log_probs, 1, index), unused = zeros_like(narrow(scores, 0, steps, rest));
    all.push_back(steps == 0 ? unused
                             : joined(sequence_gradient(select(grad, 0, index), narrow(scores, 0, 0, steps), target,
                                                        blank, zero_infinity),
                                      unused));
  }
  return stack(all, 1);
}

}  // namespace tessera::autograd::formulas
