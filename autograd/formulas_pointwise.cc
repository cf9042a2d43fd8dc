#include "autograd/formulas_pointwise.h"

#include <limits>
#include <numbers>

namespace tessera::autograd::formulas {

void throw_not_implemented(const char* op) {
  throw NotImplementedError(std::string("the derivative of ") + op + " is not implemented");
}

Tensor i1_backward(const Tensor& grad, const Tensor& self) {
  // Next to 0 the quotient is a constant: i1(x) / x = 1/2 + x^2 / 16.
  const Tensor small = lt(abs(self), std::numeric_limits<float>::epsilon());
  const Tensor x = masked_fill(self, small, 1);
  return grad * (i0(self) - where(small, full_like(self, 0.5), special_i1(x) / x));
}

Scalar one_minus(const Scalar& s) {
  return s.is_complex() ? Scalar(1.0 - s.to_complex()) : Scalar(1.0 - s.to_double());
}

Tensor zero_of(const Tensor& t) { return zeros({}, t.dtype(), std::nullopt, t.device()); }

Tensor pow_backward_self(const Tensor& grad, const Tensor& self, const Tensor& exponent) {
  // Where the exponent is 0 the derivative is 0, also at self == 0.
  const Tensor slope = grad * conj_of(exponent * pow(self, exponent - 1));
  if (exponent.impl()->is_wrapped_number()) return exponent.item_scalar().equals(0.0) ? zeros_like(slope) : slope;
  return where(eq(exponent, 0), zero_of(slope), slope);
}

Tensor pow_backward_exponent(const Tensor& grad, const Tensor& self, const Tensor& exponent, const Tensor& result) {
  // 0 ** y is flat for y >= 0 (for complex y: where its real part is).
  const Tensor y = exponent.is_complex() ? real(exponent) : exponent;
  const Tensor flat = logical_and(eq(self, 0), ge(y, 0));
  // A negative base has a logarithm among complex numbers.
  const Tensor base = result.is_complex() && !self.is_complex() ? to(self, result.dtype()) : self;
  const Tensor slope = grad * conj_of(result * log(base));
  return where(flat, zero_of(slope), slope);
}

Tensor floor_quotient(const Tensor& self, const Tensor& other) { return floor_divide(self, other); }

Tensor xlogy_backward_self(const Tensor& grad, const Tensor& self, const Tensor& other) {
  const Tensor slope = grad * log(other);
  return masked_fill(slope, logical_and(eq(self, 0), le(other, 0)), 0);
}

Tensor log1p_backward(const Tensor& grad, const Tensor& self) {
  if (self.layout() == Layout::kStrided) return grad / conj_of(self + 1);
  return grad + grad * conj_of(expm1(-log1p(self)));  // 1 / (1 + x) - 1 is 0 where self has no element
}
Tensor angle_backward(const Tensor& grad, const Tensor& self) {
  if (!self.is_complex()) return zeros_like(grad);
  const Tensor size = abs(self);
  const Tensor slope = mul(self, Scalar(std::complex<double>(0, 1))) * (grad / square(size));
  return where(eq(self, 0), zero_of(slope), slope);
}

Tensor logit_double_backward(const Tensor& grad, const Tensor& grad_output, const Tensor& self,
                             std::optional<double> eps) {
  const Tensor w = self * rsub(self, 1);
  const Tensor slope = grad * grad_output * (self * 2 - 1) / square(w);
  if (!eps) return slope;
  return where(logical_or(lt(self, *eps), gt(self, 1 - *eps)), zero_of(slope), slope);
}

// With u = pi x the slope is pi (cos u - sin(u) / u) / u; by its series, -u / 3 + u^3 / 30 - ..., where that cancels.
Tensor sinc_backward(const Tensor& grad, const Tensor& self) {
  const Tensor u = self * std::numbers::pi, is_near = lt(abs(u), 0.4), square_of_u = square(u);
  Tensor series = square_of_u * (-1.0 / 518918400);
  for (double term : {1.0 / 3991680, -1.0 / 45360, 1.0 / 840, -1.0 / 30}) series = (series + term) * square_of_u;
  const Tensor far = masked_fill(u, is_near, 1), near = (rsub(series, -1.0 / 3)) * u;
  const Tensor slope = where(is_near, near, (cos(far) - sin(far) / far) / far);
  return grad * conj_of(slope * std::numbers::pi);
}

Tensor sgn_backward(const Tensor& self, const Tensor& grad, const Tensor& sgn) {
  if (!self.is_complex()) return zeros_like(grad);
  const Tensor size = abs(self);
  const Tensor slope = (grad - sgn * real(grad * conj_of(sgn))) / size;
  return where(eq(size, 0), zero_of(slope), slope);
}

Tensor copysign_backward(const Tensor& grad, const Tensor& self, const Tensor& result) {
  const Tensor slope = grad * (result / self);
  return where(eq(self, 0), zero_of(slope), slope);
}

Tensor isfinite_mask(const Tensor& self) { return isfinite(self); }

Tensor extreme_backward(const Tensor& grad, const Tensor& self, const Tensor& other, bool is_max) {
  const Tensor shared = where(eq(self, other), grad / 2, grad);
  return masked_fill(shared, is_max ? lt(self, other) : gt(self, other), 0);
}

Tensor clamp_backward(const Tensor& grad, const Tensor& self, const Scalar& min, const Scalar& max) {
  return where(logical_and(ge(self, min), le(self, max)), grad, zero_of(grad));
}
Tensor clamp_tensor_backward_self(const Tensor& grad, const Tensor& self, const Tensor& min, const Tensor& max) {
  return where(logical_and(ge(self, min), le(self, max)), grad, zero_of(grad));
}
Tensor clamp_tensor_backward_min(const Tensor& grad, const Tensor& self, const Tensor& min, const Tensor& max) {
  return where(logical_and(lt(min, max), lt(self, min)), grad, zero_of(grad));
}
Tensor clamp_tensor_backward_max(const Tensor& grad, const Tensor& self, const Tensor& min, const Tensor& max) {
  return where(logical_or(gt(self, max), lt(max, min)), grad, zero_of(grad));
}

}  // namespace tessera::autograd::formulas
