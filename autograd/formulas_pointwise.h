// Helpers for the formulas of tensor/ops/{arithmetic,functions}.textproto.
#pragma once

#include <array>
#include <optional>

#include "tensor/ops/api.h"

namespace tessera::autograd::formulas {

inline Tensor conj_of(const Tensor& t) { return t.is_complex() ? conj_physical(t) : t; }
inline Tensor maybe_multiply(const Tensor& t, const Scalar& s) { return s.equals(1.0) ? t : mul(t, s); }
// The gradients of arguments whose derivative nobody has written: asking for one raises NotImplementedError. A table
// says so with a formula that begins with this name.
[[noreturn]] void throw_not_implemented(const char* op);
template <size_t kInputs>
std::array<Tensor, kInputs> not_implemented(const char* op) {
  throw_not_implemented(op);
}
// Of special_i1, 1/2 at 0.
Tensor i1_backward(const Tensor& grad, const Tensor& self);
Scalar one_minus(const Scalar& s);
// A 0-dim zero of t's dtype and device: the other side of a where.
Tensor zero_of(const Tensor& t);

Tensor pow_backward_self(const Tensor& grad, const Tensor& self, const Tensor& exponent);
Tensor pow_backward_exponent(const Tensor& grad, const Tensor& self, const Tensor& exponent, const Tensor& result);
// floor(self / other), as remainder rounds.
Tensor floor_quotient(const Tensor& self, const Tensor& other);
Tensor xlogy_backward_self(const Tensor& grad, const Tensor& self, const Tensor& other);
Tensor log1p_backward(const Tensor& grad, const Tensor& self);
Tensor angle_backward(const Tensor& grad, const Tensor& self);
Tensor logit_double_backward(const Tensor& grad, const Tensor& grad_output, const Tensor& self,
                             std::optional<double> eps);
Tensor sinc_backward(const Tensor& grad, const Tensor& self);
Tensor sgn_backward(const Tensor& self, const Tensor& grad, const Tensor& sgn);
Tensor copysign_backward(const Tensor& grad, const Tensor& self, const Tensor& result);
// 1 where finite, else 0, in a dtype that multiplies with gradients.
Tensor isfinite_mask(const Tensor& self);
// maximum / minimum: all to the winner, halves to equals.
Tensor extreme_backward(const Tensor& grad, const Tensor& self, const Tensor& other, bool is_max);
Tensor clamp_backward(const Tensor& grad, const Tensor& self, const Scalar& min, const Scalar& max);
Tensor clamp_tensor_backward_self(const Tensor& grad, const Tensor& self, const Tensor& min, const Tensor& max);
Tensor clamp_tensor_backward_min(const Tensor& grad, const Tensor& self, const Tensor& min, const Tensor& max);
Tensor clamp_tensor_backward_max(const Tensor& grad, const Tensor& self, const Tensor& min, const Tensor& max);

}  // namespace tessera::autograd::formulas
