#include "nn/formulas/embedding_formulas.h"

#include "tensor/ops/api.h"

namespace tessera::autograd::formulas {

Tensor embedding_double_backward(const Tensor& grad, const Tensor& indices, SymInt padding_idx,
                                 bool scale_grad_by_freq) {
  const Tensor flat = reshape(to(indices, DType::kInt64), {-1});
  Tensor rows = index_select(grad, 0, flat);
  if (scale_grad_by_freq) {
    const Tensor counts =
        scatter_add(zeros({grad.sizes()[0]}, flat.dtype(), std::nullopt, flat.device()), 0, flat, ones_like(flat));
    rows = div(rows, unsqueeze(to(index_select(counts, 0, flat), rows.dtype()), 1));
  }
  if (padding_idx.guard_int() >= 0) rows = masked_fill(rows, unsqueeze(eq(flat, padding_idx.guard_int()), 1), 0);
  IntVector sizes = to_vector(indices.sizes());
  sizes.push_back(grad.sizes()[1]);
  return view(rows, IntList(sizes));
}

namespace {
// Each index's row of what belongs to bags; zeros behind the last bag.
Tensor rows_of_bags(const Tensor& of_bags, const Tensor& offset2bag) {
  return masked_fill(index_select(of_bags, 0, clamp_min(offset2bag, Scalar(0))),
                     unsqueeze(lt(offset2bag, Scalar(0)), 1), Scalar(0));
}
}  // namespace

Tensor embedding_bag_backward(const Tensor& grad, const Tensor& indices, const Tensor& offset2bag,
                              const Tensor& bag_size, const Tensor& max_indices, int64_t num_weights,
                              bool scale_grad_by_freq, int64_t mode, bool sparse, const Tensor& per_sample_weights,
                              int64_t padding_idx) {
  if (mode == 2) {
    const Tensor g = masked_fill(grad, unsqueeze(eq(bag_size, Scalar(0)), 1), Scalar(0));
    return scatter_add(zeros({num_weights, grad.sizes()[1]}, grad.dtype(), std::nullopt, grad.device()), 0, max_indices,
                       g);
  }
  const Tensor g = mode == 1 ? div(grad, unsqueeze(to(clamp_min(bag_size, Scalar(1)), grad.dtype()), 1)) : grad;
  if (g.sizes()[0] == 0) return zeros({num_weights, grad.sizes()[1]}, grad.dtype(), std::nullopt, grad.device());
  Tensor rows = rows_of_bags(g, offset2bag);
  if (per_sample_weights.defined()) rows = mul(rows, unsqueeze(per_sample_weights, 1));
  return embedding_backward(rows, indices, num_weights, padding_idx, scale_grad_by_freq, sparse);
}
Tensor embedding_bag_weights_backward(const Tensor& grad, const Tensor& weight, const Tensor& indices,
                                      const Tensor& offset2bag, int64_t padding_idx) {
  const int64_t dims[1] = {1};
  if (grad.sizes()[0] == 0) return zeros(indices.sizes(), grad.dtype(), std::nullopt, grad.device());
  const Tensor flat = to(indices, DType::kInt64);
  const Tensor g = sum(mul(index_select(weight, 0, flat), rows_of_bags(grad, offset2bag)), IntList(dims));
  return padding_idx < 0 ? g : masked_fill(g, eq(flat, Scalar(padding_idx)), Scalar(0));
}

}  // namespace tessera::autograd::formulas
