#include "nn/formulas/activation_formulas.h"

#include <cmath>
#include <numbers>

#include "tensor/ops/api.h"

namespace tessera::autograd::formulas {

Tensor prelu_tangent(const Tensor& self_t, const Tensor& weight_t, const Tensor& self, const Tensor& weight) {
  const Tensor above = gt(self, Scalar(0));
  Tensor below = self_t.defined() ? self_t * weight : Tensor();
  if (weight_t.defined()) below = below.defined() ? below + self * weight_t : self * weight_t;
  return self_t.defined() ? where(above, self_t, below) : masked_fill(below, above, Scalar(0));
}

Tensor elu_double_backward(const Tensor& grad, const Tensor& g, const Scalar& alpha, const Scalar& scale,
                           const Scalar& input_scale, bool is_result, const Tensor& x) {
  const Tensor both = grad * g;
  const double k = input_scale.to_double();
  // The slope below 0 is k (y + alpha scale) by the result y, and k alpha scale exp(k x) by the input.
  const Tensor below = is_result ? both * Scalar(k)
                                 : both * exp(x * input_scale) * Scalar(k * k * alpha.to_double() * scale.to_double());
  return masked_fill(below, gt(x, 0), 0);
}

Tensor gelu_double_backward(const Tensor& grad, const Tensor& g, const Tensor& x, std::string_view approximate) {
  if (!kernels::is_tanh(approximate)) {
    // (Phi + x phi)' = phi (2 - x^2)
    const Tensor density = exp(x * x * Scalar(-0.5)) * Scalar(std::numbers::inv_sqrtpi / std::numbers::sqrt2);
    return grad * g * density * rsub(x * x, 2);
  }
  const double beta = std::numbers::sqrt2 * std::numbers::inv_sqrtpi, kappa = 0.044715;
  const Tensor xx = x * x;
  const Tensor t = tanh((x + x * xx * Scalar(kappa)) * Scalar(beta));
  const Tensor u1 = (xx * Scalar(3 * kappa) + 1) * Scalar(beta), u2 = x * Scalar(6 * kappa * beta);
  const Tensor sech2 = rsub(t * t, 1), t1 = sech2 * u1;
  const Tensor t2 = sech2 * u2 - t * t1 * u1 * Scalar(2);
  return grad * g * (t1 + x * t2 * Scalar(0.5));
}

Tensor silu_double_backward(const Tensor& grad, const Tensor& g, const Tensor& x) {
  const Tensor s = sigmoid(x), rest = rsub(s, 1);
  const Tensor second = s * rest * (x * (rest - s) + 2);
  return conj(grad) * g * conj(second);
}

Tensor mish_double_backward(const Tensor& grad, const Tensor& g, const Tensor& x) {
  const Tensor s = sigmoid(x), t = tanh(softplus(x, 1, 20));
  const Tensor t1 = rsub(t * t, 1) * s;
  const Tensor t2 = t1 * (rsub(s, 1) - t * s * Scalar(2));
  return grad * g * (t1 * Scalar(2) + x * t2);
}

Tensor hardswish_double_backward(const Tensor& grad, const Tensor& g, const Tensor& x) {
  return masked_fill(grad * g * Scalar(1.0 / 3), logical_or(le(x, -3), ge(x, 3)), 0);
}

Tensor softplus_double_backward(const Tensor& grad, const Tensor& g, const Tensor& x, const Scalar& beta,
                                const Scalar& threshold) {
  const Tensor z = x * beta, s = sigmoid(z);
  return masked_fill(grad * g * s * rsub(s, 1) * beta, gt(z, threshold), 0);
}

Tensor log_sigmoid_double_backward(const Tensor& grad, const Tensor& g, const Tensor& x) {
  const Tensor s = sigmoid(x);
  return neg(grad * g * s * rsub(s, 1));
}

}  // namespace tessera::autograd::formulas
