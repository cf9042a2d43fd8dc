// What the tests of this folder share: tensors of doubles, and errors by their text.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "autograd/variable.h"
#include "gtest/gtest.h"
#include "tensor/ops/api.h"

namespace tessera::autograd {

using Numbers = std::vector<double>;
using Names = std::vector<std::string>;

inline Tensor doubles(const Numbers& v) {
  const int64_t size[] = {static_cast<int64_t>(v.size())};
  Tensor t = empty_kernel(size, DType::kFloat64);
  std::copy(v.begin(), v.end(), t.data<double>());
  return t;
}
inline Tensor leaf(const Numbers& v) { return doubles(v).requires_grad_(); }

inline Numbers values(const Tensor& t) {
  if (!t.defined()) return {};
  const Tensor c = contiguous(detach(t));
  return Numbers(c.data<double>(), c.data<double>() + c.numel());
}

inline void expect_error(const std::function<void()>& f, const char* text) {
  try {
    f();
    FAIL() << "no error: " << text;
  } catch (const Error& e) { EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what(); }
}

}  // namespace tessera::autograd
