#include "autograd/formulas_index.h"

#include <algorithm>

#include "autograd/formulas_view.h"
#include "tensor/core/transforms.h"

namespace tessera::autograd::formulas {

std::vector<SymInt> parts_of(TensorList tensors) {
  std::vector<SymInt> r;
  for (const Tensor& t : tensors) {
    for (const int64_t n : {t.dim(), static_cast<int64_t>(t.dtype()), static_cast<int64_t>(t.device().type),
                            static_cast<int64_t>(t.device().index)})
      r.push_back(SymInt(n));
    for (const SymInt& n : t.sym_sizes()) r.push_back(n);
  }
  return r;
}

std::vector<Tensor> cat_tensors_backward(const Tensor& grad, SymIntList parts, int64_t dim) {
  std::vector<Tensor> r;
  SymInt at = 0;
  for (size_t i = 0; i < parts.size();) {
    const auto number = [&](size_t k) { return parts[i + k].guard_int(); };
    const int64_t rank = number(0);
    const DType dtype = static_cast<DType>(number(1));
    const Device device(static_cast<DeviceType>(number(2)), static_cast<int>(number(3)));
    const size_t sizes = i + 4;
    i = sizes + static_cast<size_t>(rank);
    if (!grad.defined()) {
      r.emplace_back();
    } else if (rank == 1 && grad.dim() != 1) {  // an empty one, which counts for nothing
      r.push_back(zeros({0}, dtype, std::nullopt, device));
    } else {
      const SymInt n = parts[sizes + static_cast<size_t>(wrap_dim(dim, grad.dim()))];
      r.push_back(gradient_as(narrow(grad, dim, at, n), dtype, device));
      at = at + n;
    }
  }
  return r;
}

Tensor gather_backward(const Tensor& grad, const Tensor& self, int64_t dim, const Tensor& index) {
  return scatter_add(zeros(self.sym_sizes(), grad.dtype(), std::nullopt, grad.device()), dim, index, grad);
}

Tensor index_select_backward(const Tensor& grad, IntList sizes, int64_t dim, const Tensor& index) {
  if (sizes.empty()) return reshape(grad, {});
  return index_add(zeros(sizes, grad.dtype(), std::nullopt, grad.device()), dim,
                   index.dim() == 0 ? reshape(index, {1}) : index, grad);
}

Tensor index_source_backward(const Tensor& grad, const Tensor& source, int64_t dim, const Tensor& index) {
  if (grad.dim() == 0) return expand_as(grad, source);
  const Tensor g = index_select(grad, dim, index);
  return source.dim() == 0 ? reshape(g, {}) : reshape(g, source.sym_sizes());
}

Tensor index_backward(const Tensor& grad, IntList sizes, const TensorOptions& options, TensorList indices) {
  return index_put(zeros(sizes, grad.dtype(), std::nullopt, options.device), indices, grad, /*accumulate=*/true);
}

Tensor masked_select_backward(const Tensor& grad, const Tensor& self, const Tensor& mask) {
  // Put back where it was taken from; broadcast dimensions of self are summed by the engine.
  const IntVector shape = infer_broadcast(self.sizes(), mask.sizes());
  return masked_scatter(zeros(shape, grad.dtype(), std::nullopt, grad.device()), mask, grad);
}

Tensor masked_scatter_backward(const Tensor& grad, const Tensor& mask, IntList sizes) {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  // How many a mask takes differs across a batch: there each element of grad goes to the place that its running count
  // gives, and those that the mask leaves out add 0 somewhere.
  if (is_transformed(grad.keys() | mask.keys()) && n > 0) {
    const Tensor places = expand(mask, grad.sizes());
    const Tensor numbers = sub(cumsum(reshape(places, {-1}), 0, DType::kInt64), Scalar(int64_t{1}));
    const Tensor given = masked_fill(grad, logical_not(places), Scalar(0));
    return view(scatter_add(zeros({n}, grad.dtype(), std::nullopt, grad.device()), 0,
                            clamp_min(numbers, Scalar(int64_t{0})), reshape(given, {-1})),
                sizes);
  }
  Tensor taken = masked_select(grad, mask);
  const int64_t missing = n - taken.numel();
  if (missing > 0) {
    const Tensor parts[2] = {taken, zeros({missing}, taken.dtype(), std::nullopt, taken.device())};
    taken = cat(parts, 0);
  }
  return view(taken, sizes);
}

}  // namespace tessera::autograd::formulas
