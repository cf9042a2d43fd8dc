// Indices of sparse tensors.
#pragma once

#include "ATen/ATen.h"
#include "ATen/TensorUtils.h"

namespace at::sparse {

using SparseTensor = Tensor;

// The places of elements (d, nnz) in the first d dimensions as one number each, in row-major order.
inline Tensor flatten_indices(const Tensor& indices, IntArrayRef full_size, bool force_clone = false) {
  const int64_t d = indices.size(0);
  TORCH_CHECK(static_cast<size_t>(d) <= full_size.size(), "flatten_indices: ", d, " dimensions have indices, but ",
              full_size.size(), " have sizes");
  if (d == 1) return force_clone ? indices.squeeze(0).clone() : indices.squeeze(0);
  std::vector<int64_t> steps(static_cast<size_t>(d), 1);
  for (size_t i = static_cast<size_t>(d); i-- > 1;) steps[i - 1] = steps[i] * full_size[i];
  const Tensor factors = at::empty({d, 1}, indices.options());
  for (int64_t i = 0; i < d; ++i) factors.select(0, i).fill_(steps[static_cast<size_t>(i)]);
  return indices.mul(factors).sum(0);
}
// Where each of `dim` rows begins among sorted indices of rows.
inline Tensor coo_to_csr(const int64_t* indices, int64_t dim, int64_t nnz) {
  const Tensor rows = at::empty({dim + 1}, kLong);
  int64_t* begins = rows.data_ptr<int64_t>();
  for (int64_t i = 0, row = 0; row <= dim; ++row) {
    while (i < nnz && indices[i] < row) ++i;
    begins[row] = i;
  }
  return rows;
}

}  // namespace at::sparse
