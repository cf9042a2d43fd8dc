// Activation functions: argument checks, and those that are made of other operators.
#include "nn/activation_extra.h"
#include "nn/activation_kernels.h"
#include "nn/nn_ops.h"
#include "tensor/core/transforms.h"
#include "tensor/ops/api.h"

namespace tessera::kernels {

void check_not_bool(const Tensor& self) {
  TESSERA_CHECK(self.dtype() != DType::kBool, "Boolean inputs not supported for relu");
}
void check_hardtanh(const Tensor& self, const Scalar& min_val, const Scalar& max_val) {
  TESSERA_CHECK_NOT_IMPLEMENTED(self.dtype() != DType::kBool, "Bool inputs not supported for hardtanh");
  TESSERA_CHECK(self.dtype() != DType::kUInt8 || (min_val.to_double() >= 0 && max_val.to_double() >= 0),
                "cannot do hardtanh on an unsigned type with negative limits");
}
void check_softshrink(const Tensor&, const Scalar& lambd) {
  TESSERA_CHECK(!(lambd.to_double() < 0), "lambda must be greater or equal to 0, but found to be ", lambd.to_double(),
                ".");
}
void check_celu(const Tensor&, const Scalar& alpha) {
  TESSERA_CHECK(alpha.to_double() != 0, "ZeroDivisionError: alpha cannot be 0 for CELU");
}
void check_leaky_relu_backward(const Tensor&, const Tensor&, const Scalar& negative_slope, bool self_is_result) {
  TESSERA_CHECK(!self_is_result || negative_slope.to_double() >= 0,
                "leaky_relu_backward: the result of a negative slope (", negative_slope.to_double(),
                ") does not tell the sign of the input");
}

bool is_tanh(std::string_view approximate) {
  TESSERA_CHECK(approximate == "none" || approximate == "tanh",
                "approximate argument must be either none or tanh, but got: ", approximate);
  return approximate == "tanh";
}

Tensor elu_backward_impl(const Tensor& grad_output, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale,
                         bool is_result, const Tensor& self_or_result) {
  TESSERA_CHECK(!is_result || alpha.to_double() >= 0, "elu_backward: the result of a negative alpha (",
                alpha.to_double(), ") does not tell the sign of the input");
  return is_result ? _elu_backward_result(grad_output, self_or_result, alpha, scale, input_scale)
                   : _elu_backward_self(grad_output, self_or_result, alpha, scale, input_scale);
}

// --- prelu ---

Tensor prelu_composite(const Tensor& self, const Tensor& weight) {
  TESSERA_CHECK(self.dtype() == weight.dtype(), "prelu: Type promoting not supported. Got ", name_of(self.dtype()),
                " and ", name_of(weight.dtype()));
  if (weight.numel() == 1) return _prelu_kernel(self, weight.dim() == 0 ? weight : reshape(weight, {}));
  TESSERA_CHECK(self.dim() > 0, "Not allow zero-dim input tensor.");
  const int64_t channels = self.dim() > 1 ? self.sizes()[1] : 1;
  TESSERA_CHECK(channels == weight.numel(),
                "Mismatch of parameter numbers and input channel size. Found parameter numbers = ", weight.numel(),
                " and channel size = ", channels, ".");
  TESSERA_CHECK(weight.dim() <= 1,
                "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = ", weight.dim());
  IntVector shape(static_cast<size_t>(self.dim()), 1);
  if (self.dim() > 1) shape[1] = channels;
  return _prelu_kernel(self, reshape(weight, IntList(shape)));
}
std::tuple<Tensor, Tensor> prelu_kernel_backward_composite(const Tensor& grad_output, const Tensor& self,
                                                           const Tensor& weight) {
  const Tensor positive = gt(self, 0);
  return {where(positive, grad_output, mul(weight, grad_output)), masked_fill(mul(self, grad_output), positive, 0)};
}

// --- rrelu ---

namespace {
void check_slopes(const Scalar& lower, const Scalar& upper) {
  TESSERA_CHECK(lower.to_double() <= upper.to_double(),
                "Lower bound should be less than or equal to the upper bound, got ", lower.to_double(), " and ",
                upper.to_double());
}
Scalar mean_slope(const Scalar& lower, const Scalar& upper) { return (lower.to_double() + upper.to_double()) / 2; }
// 1 where self is positive, elsewhere a number of [lower, upper), drawn in the order of the elements.
Tensor random_slopes(const Tensor& self, const Scalar& lower, const Scalar& upper, const Generator& generator) {
  const Tensor x = detach(self), drawn_for = le(x, 0);
  const int64_t n[1] = {values_unknown(x) ? x.numel() : item(sum(drawn_for)).to_int()};
  const Tensor numbers =
      uniform_(empty_tensor(n, {}, DType::kFloat64, x.device()), lower.to_double(), upper.to_double(), generator);
  return masked_scatter(ones_like(x), drawn_for, to(numbers, x.dtype()));
}
}  // namespace

Tensor rrelu_composite(const Tensor& self, const Scalar& lower, const Scalar& upper, bool training,
                       const Generator& generator) {
  check_slopes(lower, upper);
  return training ? mul(self, random_slopes(self, lower, upper, generator))
                  : leaky_relu(self, mean_slope(lower, upper));
}
const Tensor& rrelu_inplace(const Tensor& self, const Scalar& lower, const Scalar& upper, bool training,
                            const Generator& generator) {
  check_slopes(lower, upper);
  return training ? mul_(self, random_slopes(self, lower, upper, generator))
                  : leaky_relu_(self, mean_slope(lower, upper));
}

// --- glu ---

namespace {
std::pair<Tensor, Tensor> halves(const Tensor& self, int64_t dim) {
  TESSERA_CHECK(self.dim() > 0, "glu does not support 0-dimensional tensors");
  TESSERA_CHECK_NOT_IMPLEMENTED(!self.is_complex(), "\"glu_cpu\" not implemented for '", type_name_of(self.dtype()),
                                "'");
  const int64_t d = wrap_dim(dim, self.dim()), n = self.sizes()[d];
  TESSERA_CHECK(n % 2 == 0, "Halving dimension must be even, but dimension ", d, " is size ", n);
  return {narrow(self, d, 0, n / 2), narrow(self, d, n / 2, n / 2)};
}
}  // namespace

Tensor glu_composite(const Tensor& self, int64_t dim) {
  const auto [a, b] = halves(self, dim);
  return mul(a, sigmoid(b));
}
Tensor glu_backward_composite(const Tensor& grad_output, const Tensor& self, int64_t dim) {
  const auto [a, b] = halves(self, dim);
  const Tensor s = sigmoid(b), first = mul(grad_output, s);
  const Tensor parts[2] = {first, mul(mul(first, a), rsub(s, 1))};
  return cat(TensorList(parts), dim);
}

}  // namespace tessera::kernels
