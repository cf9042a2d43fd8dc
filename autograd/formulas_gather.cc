#include "autograd/formulas_gather.h"

#include "autograd/formulas_index.h"
#include "tensor/core/layouts/sparse.h"

namespace tessera::autograd::formulas {

Tensor gather_gradient(const Tensor& grad, const Tensor& self, int64_t dim, const Tensor& index, bool sparse_grad) {
  if (!sparse_grad || self.dim() == 0 || (grad_mode_enabled() && grad.requires_grad()))
    return gather_backward(grad, self, dim, index);
  // Each element of the gradient at the place that it was taken from.
  const int64_t along = wrap_dim(dim, self.dim());
  // Rows of one tensor, and not a stack of tensors: programs that train link this.
  const int64_t count = index.numel();
  if (index.dim() == 0) return gather_gradient(reshape(grad, {1}), self, dim, reshape(index, {1}), true);
  const Tensor places = empty_tensor({{self.dim(), count}}, {}, DType::kInt64, index.device());
  for (int64_t d = 0; d < self.dim(); ++d) {
    IntVector shape(static_cast<size_t>(self.dim()), 1);
    shape[static_cast<size_t>(d)] = index.size(d);
    const Tensor at = d == along ? index : reshape(arange(Scalar(index.size(d)), DType::kInt64), IntList(shape));
    make_view(places, {{count}}, {{1}}, d * count).copy_(reshape(expand(at, index.sizes()), {-1}));
  }
  return sparse::make_coo(self.sizes(), places, contiguous(reshape(grad, {-1})), count == 0);
}

}  // namespace tessera::autograd::formulas
