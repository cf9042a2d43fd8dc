// What the tables of families are written with.
#pragma once

#include <limits>
#include <type_traits>

#include "distributions/all_ops.h"
#include "special/all_ops.h"
#include "tensor/ops/api.h"

namespace tessera::distributions {

inline double tiny_of(const Tensor& x) {
  return x.dtype() == DType::kFloat64 ? std::numeric_limits<double>::min()
                                      : static_cast<double>(std::numeric_limits<float>::min());
}
inline double epsilon_of(const Tensor& x) {
  return x.dtype() == DType::kFloat64 ? std::numeric_limits<double>::epsilon()
                                      : static_cast<double>(std::numeric_limits<float>::epsilon());
}

// Random numbers of the parameters' shape, dtype and device, without history.
inline Tensor normal_like(const Tensor& p, const Generator& g) { return empty_like(p.detach()).normal_(0, 1, g); }
inline Tensor uniform_like(const Tensor& p, const Generator& g) { return empty_like(p.detach()).uniform_(0, 1, g); }
inline Tensor exponential_like(const Tensor& p, const Generator& g) {
  return empty_like(p.detach()).exponential_(1, g);
}
inline Tensor gamma_numbers(const Tensor& concentration, const Tensor& rate, const Generator& g) {
  return clamp_min(_standard_gamma(concentration, g) / rate, tiny_of(concentration));
}

// log(p / (1 - p)), p no nearer to 0 and 1 than the dtype's precision, as documented.
inline Tensor logits_of(const Tensor& probs) {
  const double epsilon = epsilon_of(probs);
  const Tensor p = clamp(probs, epsilon, 1 - epsilon);
  return log(p) - log1p(neg(p));
}
// log of the integral of exp(logits * x) over [0, 1]: log(expm1(logits) / logits), near 0 its series.
inline Tensor continuous_bernoulli_log_normalizer(const Tensor& logits) {
  const Tensor near = lt(abs(logits.detach()), 0.02), size = abs(masked_fill(logits, near, 1));
  const Tensor far = clamp_min(logits, 0) + log(neg(expm1(neg(size))) / size), squared = square(logits);
  return where(near, logits / 2 + squared / 24 - square(squared) / 2880, far);
}

// Functions of a table, by operators that take value and parameters.
template <auto kOp>
Tensor of_value(const Tensor& value, const Tensor* p) {
  if constexpr (std::is_invocable_v<decltype(kOp), const Tensor&, const Tensor&>)
    return kOp(value, p[0]);
  else if constexpr (std::is_invocable_v<decltype(kOp), const Tensor&, const Tensor&, const Tensor&>)
    return kOp(value, p[0], p[1]);
  else
    return kOp(value, p[0], p[1], p[2]);
}
template <auto kOp>
Tensor of_parameters(const Tensor* p) {
  if constexpr (std::is_invocable_v<decltype(kOp), const Tensor&>)
    return kOp(p[0]);
  else
    return kOp(p[0], p[1]);
}
template <auto kOp>
Tensor of_pairs(const Tensor* p, const Tensor* q) {
  if constexpr (std::is_invocable_v<decltype(kOp), const Tensor&, const Tensor&>)
    return kOp(p[0], q[0]);
  else
    return kOp(p[0], p[1], q[0], q[1]);
}
}  // namespace tessera::distributions
