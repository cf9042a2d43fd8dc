// First values of parameters: each works in place, without gradients, and returns its tensor. A seed draws the numbers
// that it draws in Python.
#pragma once

#include "nn/modules/init.h"

#include <torch/nn/functional/options.h>

namespace torch::nn::init {

using NonlinearityType =
    std::variant<enumtype::kLinear, enumtype::kConv1D, enumtype::kConv2D, enumtype::kConv3D, enumtype::kConvTranspose1D,
                 enumtype::kConvTranspose2D, enumtype::kConvTranspose3D, enumtype::kSigmoid, enumtype::kTanh,
                 enumtype::kReLU, enumtype::kLeakyReLU>;
using FanModeType = std::variant<enumtype::kFanIn, enumtype::kFanOut>;

namespace detail {
namespace base = tessera::nn::init;
inline const char* name(const NonlinearityType& kind) {
  static constexpr const char* kNames[] = {
      "linear",           "conv1d",  "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
      "conv_transpose3d", "sigmoid", "tanh",   "relu",   "leaky_relu"};
  return kNames[kind.index()];
}
// Error, where the functions below would say ValueError.
inline const Tensor& of_dims(const Tensor& t, int64_t least, int64_t most = 64) {
  TORCH_CHECK(t.dim() >= least && t.dim() <= most, "Only tensors with ", least, " to ", most,
              " dimensions are supported, but got ", t.dim());
  return t;
}
inline base::FanMode fan(const FanModeType& mode) {
  return mode.index() == 0 ? base::FanMode::kFanIn : base::FanMode::kFanOut;
}
}  // namespace detail

// The recommended gain; param: the slope of kLeakyReLU.
inline double calculate_gain(NonlinearityType nonlinearity, double param = 0.01) {
  return detail::base::calculate_gain(detail::name(nonlinearity), param);
}
inline std::tuple<int64_t, int64_t> _calculate_fan_in_and_fan_out(const Tensor& tensor) {
  const auto [in, out] = detail::base::fan_in_and_fan_out(detail::of_dims(tensor, 2));
  return {in, out};
}

inline Tensor uniform_(Tensor tensor, double low = 0, double high = 1) {
  return detail::base::uniform_(tensor, low, high);
}
inline Tensor normal_(Tensor tensor, double mean = 0, double std = 1) {
  return detail::base::normal_(tensor, mean, std);
}
inline Tensor constant_(Tensor tensor, at::Scalar value) {
  at::NoGradGuard no_grad;
  return at::fill_(tensor, value);
}
inline Tensor ones_(Tensor tensor) { return detail::base::ones_(tensor); }
inline Tensor zeros_(Tensor tensor) { return detail::base::zeros_(tensor); }
inline Tensor xavier_uniform_(Tensor tensor, double gain = 1.0) {
  return detail::base::xavier_uniform_(detail::of_dims(tensor, 2), gain);
}
inline Tensor xavier_normal_(Tensor tensor, double gain = 1.0) {
  return detail::base::xavier_normal_(detail::of_dims(tensor, 2), gain);
}
inline Tensor kaiming_uniform_(Tensor tensor, double a = 0, FanModeType mode = kFanIn,
                               NonlinearityType nonlinearity = kLeakyReLU) {
  return detail::base::kaiming_uniform_(detail::of_dims(tensor, 2), a, detail::fan(mode), detail::name(nonlinearity));
}
inline Tensor kaiming_normal_(Tensor tensor, double a = 0, FanModeType mode = kFanIn,
                              NonlinearityType nonlinearity = kLeakyReLU) {
  return detail::base::kaiming_normal_(detail::of_dims(tensor, 2), a, detail::fan(mode), detail::name(nonlinearity));
}
// N(mean, std^2) restricted to [a, b].
inline Tensor trunc_normal_(Tensor tensor, double mean = 0, double std = 1, double a = -2, double b = 2) {
  return detail::base::trunc_normal_(tensor, mean, std, a, b);
}
inline Tensor eye_(Tensor matrix) { return detail::base::eye_(detail::of_dims(matrix, 2, 2)); }
// Weights of a convolution that pass its input's channels on.
inline Tensor dirac_(Tensor tensor) { return detail::base::dirac_(detail::of_dims(tensor, 3, 5)); }
// A share `sparsity` of each column is zero, the rest of N(0, std^2).
inline Tensor sparse_(Tensor tensor, double sparsity, double std = 0.01) {
  return detail::base::sparse_(detail::of_dims(tensor, 2, 2), sparsity, std);
}
// A (semi) orthogonal matrix, the trailing dimensions taken as one (Saxe et al. 2013).
inline Tensor orthogonal_(Tensor tensor, double gain = 1.0) {
  using Raw = at::Tensor;
  TORCH_CHECK(tensor.dim() >= 2, "Only tensors with 2 or more dimensions are supported");
  if (tensor.numel() == 0) return tensor;
  at::NoGradGuard no_grad;
  const int64_t rows = tensor.size(0), columns = tensor.numel() / rows;
  const Raw& t = tensor;
  const Raw normal = at::empty({rows, columns}, t.options()).normal_(0, 1);
  const auto [q, r] = at::linalg_qr(rows < columns ? Raw(at::t(normal)) : normal);
  const Raw upright = at::mul(q, at::sign(at::diagonal(r)));
  tensor.copy_(at::reshape(rows < columns ? Raw(at::t(upright)) : upright, tensor.sizes()));
  return tensor.mul_(gain);
}

}  // namespace torch::nn::init
