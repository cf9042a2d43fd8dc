// What the operators of view_copy.textproto make of a view.
#pragma once

#include <vector>

#include "tensor/core/error.h"
#include "tensor/ops/api.h"
#include "tensor/ops/promotion.h"

namespace tessera::kernels {

inline Tensor copied_view(const Tensor& view) { return clone(view, MemoryFormat::kContiguous); }
inline std::vector<Tensor> copied_view(const std::vector<Tensor>& views) {
  std::vector<Tensor> r;
  for (const Tensor& v : views) r.push_back(copied_view(v));
  return r;
}
// Each view into its tensor of `out`, which takes its size.
inline void copy_views_into(const char* name, const std::vector<Tensor>& views, TensorList out) {
  TESSERA_CHECK(out.size() == views.size(), name, "() expected an out= argument of size ", views.size(), ", got size ",
                out.size());
  for (size_t i = 0; i < views.size(); ++i)
    TESSERA_CHECK(out[i].dtype() == views[i].dtype(), "Expected out tensor to have dtype ", name_of(views[i].dtype()),
                  ", but got ", name_of(out[i].dtype()), " instead");
  for (size_t i = 0; i < views.size(); ++i) {
    resize_output(out[i], views[i].sizes());
    copy_(out[i], views[i]);
  }
}

}  // namespace tessera::kernels
