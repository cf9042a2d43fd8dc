#include "nn/modules/init.h"
#include "nn/modules/layers.h"
#include "nn/norm_ops.h"
#include "tensor/ops/arithmetic_ops.h"
#include "tensor/ops/create_ops.h"

namespace tessera::nn {

BatchNorm::BatchNorm(int64_t num_features, BatchNormOptions options) : num_features(num_features), options(options) {
  const auto make = [&](bool wanted) {
    return wanted ? empty_kernel(IntVector{num_features}, options.dtype) : Tensor();
  };
  weight = register_parameter("weight", make(options.affine));
  bias = register_parameter("bias", make(options.affine));
  running_mean = register_buffer("running_mean", make(options.track_running_stats));
  running_var = register_buffer("running_var", make(options.track_running_stats));
  num_batches_tracked = register_buffer("num_batches_tracked",
                                        options.track_running_stats ? scalar_to_tensor(0, DType::kInt64) : Tensor());
  reset_running_stats();
  if (options.affine) init::ones_(weight), init::zeros_(bias);
}

void BatchNorm::reset_running_stats() {
  if (!options.track_running_stats) return;
  init::zeros_(running_mean);
  init::ones_(running_var);
  init::zeros_(num_batches_tracked);
}

Tensor BatchNorm::forward(const Tensor& input) {
  check_input(input);
  const bool tracks = is_training() && options.track_running_stats;
  if (tracks) add_(num_batches_tracked, 1);
  // Running statistics are written in training and read in evaluation.
  const auto normalize = [&](const Tensor& mean, const Tensor& var, double factor) {
    return batch_norm(input, weight, bias, mean, var, is_training() || !options.track_running_stats, factor,
                      options.eps, false);
  };
  if (!tracks || options.momentum) return normalize(running_mean, running_var, options.momentum.value_or(0));
  // The mean over all batches: a device that counts them is not waited for.
  const Tensor mean = zeros_like(running_mean), var = zeros_like(running_var);
  const Tensor result = normalize(mean, var, 1);
  const NoGradGuard no_grad;
  const Tensor factor = reciprocal(tessera::to(num_batches_tracked, running_mean.dtype()));
  lerp_(running_mean, mean, factor);
  lerp_(running_var, var, factor);
  return result;
}

std::string BatchNorm::extra_repr() const {
  return std::to_string(num_features) + ", eps=" + internal::repr(options.eps) +
         ", momentum=" + (options.momentum ? internal::repr(*options.momentum) : "None") +
         ", affine=" + internal::repr(options.affine) +
         ", track_running_stats=" + internal::repr(options.track_running_stats);
}

void BatchNorm1d::check_input(const Tensor& input) const {
  TESSERA_CHECK_VALUE(input.dim() == 2 || input.dim() == 3, "expected 2D or 3D input (got ", input.dim(), "D input)");
}

void BatchNorm2d::check_input(const Tensor& input) const {
  TESSERA_CHECK_VALUE(input.dim() == 4, "expected 4D input (got ", input.dim(), "D input)");
}

LayerNorm::LayerNorm(IntVector shape, LayerNormOptions options) : normalized_shape(std::move(shape)), options(options) {
  weight = register_parameter("weight",
                              options.elementwise_affine ? empty_kernel(normalized_shape, options.dtype) : Tensor());
  bias = register_parameter(
      "bias", options.elementwise_affine && options.bias ? empty_kernel(normalized_shape, options.dtype) : Tensor());
  if (weight.defined()) init::ones_(weight);
  if (bias.defined()) init::zeros_(bias);
}

Tensor LayerNorm::forward(const Tensor& input) {
  return layer_norm(input, normalized_shape, weight, bias, options.eps);
}

std::string LayerNorm::extra_repr() const {
  return internal::repr(normalized_shape) + ", eps=" + internal::repr(options.eps) +
         ", elementwise_affine=" + internal::repr(options.elementwise_affine);
}

}  // namespace tessera::nn
