#include "nn/loss_ops.h"

#include "nn/modules/loss.h"

namespace tessera::nn {

CrossEntropyLoss::CrossEntropyLoss(ClassLossOptions options)
    : Loss(options.reduction), ignore_index(options.ignore_index), label_smoothing(options.label_smoothing) {
  weight = register_buffer("weight", options.weight);
}

Tensor CrossEntropyLoss::forward(const Tensor& input, const Tensor& target) {
  return cross_entropy_loss(input, target, weight, static_cast<int64_t>(reduction), ignore_index, label_smoothing);
}

NLLLoss::NLLLoss(ClassLossOptions options) : Loss(options.reduction), ignore_index(options.ignore_index) {
  TESSERA_CHECK_VALUE(options.label_smoothing == 0, "NLLLoss has no label smoothing");
  weight = register_buffer("weight", options.weight);
}

Tensor NLLLoss::forward(const Tensor& input, const Tensor& target) {
  return nll_loss_nd(input, target, weight, static_cast<int64_t>(reduction), ignore_index);
}

Tensor MSELoss::forward(const Tensor& input, const Tensor& target) {
  return mse_loss(input, target, static_cast<int64_t>(reduction));
}

}  // namespace tessera::nn
