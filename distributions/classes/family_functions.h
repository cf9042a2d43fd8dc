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
