// What the operators of view_copy.textproto make of a view.
#pragma once

#include <vector>

#include "tensor/ops/api.h"

namespace tessera::kernels {

inline Tensor copied(const Tensor& view) { return clone(view, MemoryFormat::kContiguous); }
inline std::vector<Tensor> copied(const std::vector<Tensor>& views) {
  std::vector<Tensor> r;
  for (const Tensor& v : views) r.push_back(copied(v));
  return r;
}

}  // namespace tessera::kernels
