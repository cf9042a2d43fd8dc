// What the operators of view_copy.textproto make of a view.
#pragma once

#include <vector>

#include "tensor/ops/api.h"

namespace tessera::kernels {

inline Tensor copy_of_view(const Tensor& view) { return clone(view, MemoryFormat::kContiguous); }
inline std::vector<Tensor> copy_of_view(const std::vector<Tensor>& views) {
  std::vector<Tensor> r;
  for (const Tensor& v : views) r.push_back(copy_of_view(v));
  return r;
}

}  // namespace tessera::kernels
