// Many dense tensors as one, and back.
#pragma once

#include "ATen/ATen.h"

namespace torch::utils {

inline at::Tensor flatten_dense_tensors(at::TensorList tensors) {
  TORCH_CHECK(!tensors.empty(), "flatten_dense_tensors: expected at least one tensor");
  std::vector<at::Tensor> rows;
  for (const at::Tensor& t : tensors) rows.push_back(t.reshape({-1}));
  return rows.size() == 1 ? rows[0] : at::cat(rows);
}
// Views of a flat tensor in the shapes of others, one behind the other.
inline std::vector<at::Tensor> unflatten_dense_tensors(const at::Tensor& flat, at::TensorList tensors) {
  std::vector<at::Tensor> views;
  int64_t from = 0;
  for (const at::Tensor& t : tensors) {
    views.push_back(flat.narrow(0, from, t.numel()).view(t.sizes()));
    from += t.numel();
  }
  return views;
}

}  // namespace torch::utils
