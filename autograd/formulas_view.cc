#include "autograd/formulas_view.h"

#include <algorithm>

namespace tessera::autograd::formulas {

Tensor gradient_as(const Tensor& grad, DType dtype, Device device) {
  const Tensor g = grad.is_complex() && !is_complex(dtype) ? real(grad) : grad;
  return g.dtype() == dtype && g.device() == device ? g : to(g, device, dtype);
}

IntVector inverse_permutation(IntList dims) {
  IntVector r(dims.size());
  for (size_t i = 0; i < dims.size(); ++i)
    r[wrap_dim(dims[i], static_cast<int64_t>(dims.size()))] = static_cast<int64_t>(i);
  return r;
}

Tensor as_strided_grad(const Tensor& grad, IntList base_size, IntList base_stride, int64_t base_offset, SymIntList size,
                       SymIntList stride, std::optional<SymInt> offset) {
  return as_strided_backward(grad, base_size, base_stride, base_offset, size, stride, offset.value_or(base_offset));
}

namespace {
Tensor join(TensorList grads, const IntVector& lengths, int64_t dim, IntList sizes, const TensorOptions& options) {
  std::vector<Tensor> parts;
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (i < grads.size() && grads[i].defined()) {
      parts.push_back(grads[i]);
      continue;
    }
    IntVector shape(sizes.begin(), sizes.end());
    shape[dim] = lengths[i];
    parts.push_back(zeros(shape, options.dtype, options.layout, options.device));
  }
  return cat(parts, dim);
}
}  // namespace

Tensor split_backward(TensorList grads, SymInt split_size, int64_t dim, IntList sizes, const TensorOptions& options) {
  dim = wrap_dim(dim, static_cast<int64_t>(sizes.size()));
  const int64_t n = sizes[dim], step = split_size.guard_int();
  IntVector lengths;
  if (n == 0) lengths.push_back(0);
  for (int64_t at = 0; at < n; at += step) lengths.push_back(std::min(step, n - at));
  return join(grads, lengths, dim, sizes, options);
}

Tensor split_with_sizes_backward(TensorList grads, SymIntList split_sizes, int64_t dim, IntList sizes,
                                 const TensorOptions& options) {
  return join(grads, to_vector(split_sizes.ints()), wrap_dim(dim, static_cast<int64_t>(sizes.size())), sizes, options);
}

Tensor unbind_backward(TensorList grads, int64_t dim, IntList sizes, const TensorOptions& options) {
  dim = wrap_dim(dim, static_cast<int64_t>(sizes.size()));
  IntVector shape(sizes.begin(), sizes.end());
  const int64_t n = shape[dim];
  shape.erase(shape.begin() + dim);
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < n; ++i) {
    const bool known = i < static_cast<int64_t>(grads.size()) && grads[i].defined();
    parts.push_back(known ? grads[i] : zeros(shape, options.dtype, options.layout, options.device));
  }
  if (parts.empty()) return zeros(sizes, options.dtype, options.layout, options.device);
  return stack(parts, dim);
}

}  // namespace tessera::autograd::formulas
