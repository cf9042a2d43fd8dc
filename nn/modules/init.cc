#include "nn/modules/init.h"

#include <cmath>

#include "tensor/ops/ops.h"

namespace tessera::nn::init {

double calculate_gain(std::string_view nonlinearity, double param) {
  for (std::string_view one :
       {"linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "sigmoid"})
    if (nonlinearity == one) return 1;
  if (nonlinearity == "tanh") return 5.0 / 3;
  if (nonlinearity == "relu") return std::sqrt(2.0);
  if (nonlinearity == "leaky_relu") return std::sqrt(2.0 / (1 + param * param));
  if (nonlinearity == "selu") return 3.0 / 4;
  internal::raise<ValueError>("Unsupported nonlinearity ", nonlinearity);
}

std::pair<int64_t, int64_t> fan_in_and_fan_out(const Tensor& tensor) {
  TESSERA_CHECK_VALUE(tensor.dim() >= 2,
                      "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions");
  int64_t field = 1;
  for (int64_t d = 2; d < tensor.dim(); ++d) field *= tensor.size(d);
  return {tensor.size(1) * field, tensor.size(0) * field};
}

Tensor uniform_(const Tensor& tensor, double a, double b, const Generator& generator) {
  NoGradGuard no_grad;
  return tessera::uniform_(tensor, a, b, generator);
}

Tensor normal_(const Tensor& tensor, double mean, double std, const Generator& generator) {
  NoGradGuard no_grad;
  return tessera::normal_(tensor, mean, std, generator);
}

Tensor constant_(const Tensor& tensor, double value) {
  NoGradGuard no_grad;
  return fill_(tensor, value);
}

Tensor ones_(const Tensor& tensor) { return constant_(tensor, 1); }
Tensor zeros_(const Tensor& tensor) { return constant_(tensor, 0); }

Tensor xavier_uniform_(const Tensor& tensor, double gain, const Generator& generator) {
  const auto [fan_in, fan_out] = fan_in_and_fan_out(tensor);
  const double a = std::sqrt(3.0) * (gain * std::sqrt(2.0 / static_cast<double>(fan_in + fan_out)));
  return init::uniform_(tensor, -a, a, generator);
}

Tensor xavier_normal_(const Tensor& tensor, double gain, const Generator& generator) {
  const auto [fan_in, fan_out] = fan_in_and_fan_out(tensor);
  return init::normal_(tensor, 0, gain * std::sqrt(2.0 / static_cast<double>(fan_in + fan_out)), generator);
}

namespace {

double kaiming_std(const Tensor& tensor, double a, FanMode mode, std::string_view nonlinearity) {
  const auto [fan_in, fan_out] = fan_in_and_fan_out(tensor);
  return calculate_gain(nonlinearity, a) / std::sqrt(static_cast<double>(mode == FanMode::kFanIn ? fan_in : fan_out));
}

}  // namespace

Tensor kaiming_uniform_(const Tensor& tensor, double a, FanMode mode, std::string_view nonlinearity,
                        const Generator& generator) {
  if (tensor.numel() == 0) return tensor;
  const double bound = std::sqrt(3.0) * kaiming_std(tensor, a, mode, nonlinearity);
  return init::uniform_(tensor, -bound, bound, generator);
}

Tensor kaiming_normal_(const Tensor& tensor, double a, FanMode mode, std::string_view nonlinearity,
                       const Generator& generator) {
  if (tensor.numel() == 0) return tensor;
  return init::normal_(tensor, 0, kaiming_std(tensor, a, mode, nonlinearity), generator);
}

Tensor trunc_normal_(const Tensor& tensor, double mean, double std, double a, double b, const Generator& generator) {
  NoGradGuard no_grad;
  const auto quantile = [&](double bound) { return std::erf((bound - mean) / std / std::sqrt(2.0)); };
  tessera::uniform_(tensor, quantile(a), quantile(b), generator);
  add_(mul_(erfinv_(tensor), std * std::sqrt(2.0)), mean);
  return clamp_(tensor, Scalar(a), Scalar(b));
}

Tensor eye_(const Tensor& tensor) {
  TESSERA_CHECK_VALUE(tensor.dim() == 2, "Only tensors with 2 dimensions are supported");
  NoGradGuard no_grad;
  fill_(diagonal(zero_(tensor)), 1);
  return tensor;
}

Tensor dirac_(const Tensor& tensor, int64_t groups) {
  const int64_t dims = tensor.dim();
  TESSERA_CHECK_VALUE(dims >= 3 && dims <= 5, "Only tensors with 3, 4, or 5 dimensions are supported");
  TESSERA_CHECK_VALUE(groups > 0 && tensor.size(0) % groups == 0, "dim 0 must be divisible by groups");
  NoGradGuard no_grad;
  zero_(tensor);
  Tensor center = tensor;  // (out, in)
  for (int64_t d = 2; d < dims; ++d) center = select(center, 2, tensor.size(d) / 2);
  const int64_t rows = tensor.size(0) / groups;
  for (int64_t g = 0; g < groups; ++g) fill_(diagonal(narrow(center, 0, g * rows, rows)), 1);
  return tensor;
}

Tensor sparse_(const Tensor& tensor, double sparsity, double std, const Generator& generator) {
  TESSERA_CHECK_VALUE(tensor.dim() == 2, "Only tensors with 2 dimensions are supported");
  NoGradGuard no_grad;
  const int64_t rows = tensor.size(0);
  const auto zeros = static_cast<int64_t>(std::ceil(sparsity * static_cast<double>(rows)));
  tessera::normal_(tensor, 0, std, generator);
  for (int64_t column = 0; column < tensor.size(1); ++column)
    index_fill_(select(tensor, 1, column), 0, narrow(randperm(rows), 0, 0, zeros), 0);
  return tensor;
}

void linear_defaults_(const Tensor& weight, const Tensor& bias) {
  kaiming_uniform_(weight, std::sqrt(5.0));  // with this a the bound is 1 / sqrt(fan_in)
  if (!bias.defined()) return;
  const int64_t fan_in = fan_in_and_fan_out(weight).first;
  const double bound = fan_in > 0 ? 1 / std::sqrt(static_cast<double>(fan_in)) : 0;
  init::uniform_(bias, -bound, bound);
}

}  // namespace tessera::nn::init
