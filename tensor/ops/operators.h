// a + b, -a, a < 2 ... on tensors and numbers.
#pragma once

#include "tensor/core/tensor.h"
#include "tensor/ops/ops.h"

namespace tessera {

#define TESSERA_BINARY(op, name)                                                     \
  inline Tensor operator op(const Tensor& a, const Tensor& b) { return name(a, b); } \
  inline Tensor operator op(const Tensor& a, const Scalar& b) { return name(a, b); }
TESSERA_BINARY(+, add)
TESSERA_BINARY(-, sub)
TESSERA_BINARY(*, mul)
TESSERA_BINARY(/, div)
TESSERA_BINARY(%, remainder)
TESSERA_BINARY(<, lt)
TESSERA_BINARY(<=, le)
TESSERA_BINARY(>, gt)
TESSERA_BINARY(>=, ge)
#undef TESSERA_BINARY
inline Tensor operator+(const Scalar& a, const Tensor& b) { return add(b, a); }
inline Tensor operator-(const Scalar& a, const Tensor& b) { return rsub(b, a); }
inline Tensor operator*(const Scalar& a, const Tensor& b) { return mul(b, a); }
inline Tensor operator/(const Scalar& a, const Tensor& b) { return div(wrapped_number(a), b); }
inline Tensor Tensor::operator-() const { return neg(); }
inline const Tensor& operator+=(const Tensor& a, const Tensor& b) { return add_(a, b); }
inline const Tensor& operator-=(const Tensor& a, const Tensor& b) { return sub_(a, b); }
inline const Tensor& operator*=(const Tensor& a, const Tensor& b) { return mul_(a, b); }
inline const Tensor& operator/=(const Tensor& a, const Tensor& b) { return div_(a, b); }

}  // namespace tessera
