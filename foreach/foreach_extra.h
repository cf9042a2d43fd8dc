// What the expressions of foreach.textproto call besides operators.
#pragma once

#include <vector>

#include "tensor/core/error.h"
#include "tensor/ops/api.h"

namespace tessera::kernels {

inline void check_list(TensorList tensors) { TESSERA_CHECK(!tensors.empty(), "Tensor list must have at least one tensor."); }

template <class F>
std::vector<Tensor> each(TensorList tensors, F f) {
  check_list(tensors);
  std::vector<Tensor> results;
  results.reserve(tensors.size());
  for (const Tensor& t : tensors) results.push_back(f(t));
  return results;
}
template <class F>
void each_in_place(TensorList tensors, F f) {
  check_list(tensors);
  for (const Tensor& t : tensors) f(t);
}

}  // namespace tessera::kernels
