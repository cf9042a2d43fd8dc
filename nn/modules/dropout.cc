#include "nn/modules/layers.h"
#include "tensor/ops/random_ops.h"

namespace tessera::nn {

Dropout::Dropout(double p) : p(p) {
  TESSERA_CHECK_VALUE(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
}

Tensor Dropout::forward(const Tensor& input) { return dropout(input, p, is_training()); }

std::string Dropout::extra_repr() const { return "p=" + internal::repr(p) + ", inplace=False"; }

}  // namespace tessera::nn
