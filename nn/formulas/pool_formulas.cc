#include "nn/formulas/pool_formulas.h"

#include "tensor/ops/api.h"

namespace tessera::autograd::formulas {

Tensor gather_windows(const Tensor& grad, const Tensor& indices, int64_t n) {
  // Not flatten(): of no elements it could not infer -1.
  auto flat = [n](const Tensor& t) {
    IntVector sizes(t.sizes().begin(), t.sizes().end() - n);
    int64_t plane = 1;
    for (int64_t s : last_sizes(t.sizes(), static_cast<size_t>(n))) plane *= s;
    sizes.push_back(plane);
    return reshape(t, sizes);
  };
  return reshape(gather(flat(grad), -1, flat(indices), false), indices.sizes());
}

}  // namespace tessera::autograd::formulas
