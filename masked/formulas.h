// Derivatives of masked.textproto.
#pragma once

#include <algorithm>
#include <string_view>

#include "autograd/formulas.h"
#include "masked/masked.h"

namespace tessera::autograd::formulas {

// rank: of the elements that were summed.
Tensor masked_sum_backward(const Tensor& grad, const Tensor& mask, int64_t rank, IntList dim, bool keepdim, bool mean);
Tensor masked_reduce_backward(const Tensor& grad, const Tensor& self, const Tensor& mask, const Tensor& result,
                              std::string_view kind, IntList dim, bool keepdim, double param);
// tangent: 0 where nothing counts.
Tensor softmax_under_tangent(const Tensor& tangent, const Tensor& result, int64_t dim, bool log);

}  // namespace tessera::autograd::formulas
