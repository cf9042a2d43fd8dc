// Helpers for the formulas of tensor/ops/tables/composed.textproto.
#pragma once

#include "tensor/ops/api.h"

namespace tessera::autograd::formulas {

// reduce: 0 sum, 1 prod, 2 mean, 3 amax, 4 amin, as _scatter_reduce counts them.
Tensor scatter_reduce_backward_self(const Tensor& grad, const Tensor& self, int64_t dim, const Tensor& index,
                                    const Tensor& src, int64_t reduce, bool include_self, const Tensor& result);
Tensor scatter_reduce_backward_src(const Tensor& grad, const Tensor& self, int64_t dim, const Tensor& index,
                                   const Tensor& src, int64_t reduce, bool include_self, const Tensor& result);

}  // namespace tessera::autograd::formulas
