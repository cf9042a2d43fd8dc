// What tests of distributions are written with.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "distributions/distributions.h"
#include "tensor/ops/api.h"

namespace tessera::distributions {

inline Tensor number(double x) { return full(IntVector{}, Scalar(x), DType::kFloat64); }
inline Tensor numbers(const std::vector<double>& x) {
  const Tensor t = empty(IntVector{static_cast<int64_t>(x.size())}, DType::kFloat64);
  std::copy(x.begin(), x.end(), t.data<double>());
  return t;
}
inline Tensor matrix(int64_t rows, const std::vector<double>& x) { return reshape(numbers(x), IntVector{rows, -1}); }
inline double value_of(const Tensor& t) { return t.item<double>(); }
inline double largest_difference(const Tensor& a, const Tensor& b) { return value_of(max(abs(a - b))); }
inline std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const ValueError& e) { return e.what(); }
  return "nothing was thrown";
}

}  // namespace tessera::distributions
