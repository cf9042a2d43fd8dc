#include "nn/embedding_formulas.h"

#include "tensor/ops/api.h"

namespace tessera::autograd::formulas {

Tensor embedding_double_backward(const Tensor& grad, const Tensor& indices, SymInt padding_idx, bool scale_grad_by_freq) {
  const Tensor flat = reshape(to(indices, DType::kInt64), {-1});
  Tensor rows = index_select(grad, 0, flat);
  if (scale_grad_by_freq) {
    const Tensor counts = bincount(flat, Tensor(), grad.sizes()[0]);
    rows = div(rows, unsqueeze(to(index_select(counts, 0, flat), rows.dtype()), 1));
  }
  if (padding_idx.guard_int() >= 0) rows = masked_fill(rows, unsqueeze(eq(flat, padding_idx.guard_int()), 1), 0);
  IntVector sizes = to_vector(indices.sizes());
  sizes.push_back(grad.sizes()[1]);
  return view(rows, IntList(sizes));
}

}  // namespace tessera::autograd::formulas
