#pragma once
#include "ATen/ATen.h"

namespace at {

// The dimension that a negative number means; IndexError outside of [-n, n).
inline int64_t maybe_wrap_dim(int64_t dim, int64_t n, bool wrap_scalar = true) {
  if (n == 0 && wrap_scalar) n = 1;
  TORCH_CHECK_INDEX(n > 0, "Dimension specified as ", dim, " but tensor has no dimensions");
  TORCH_CHECK_INDEX(dim >= -n && dim < n, "Dimension out of range (expected to be in range of [", -n, ", ", n - 1,
                    "], but got ", dim, ")");
  return dim < 0 ? dim + n : dim;
}
inline int64_t maybe_wrap_dim(int64_t dim, const Tensor& t) { return maybe_wrap_dim(dim, t.dim()); }
inline int64_t maybe_wrap_dim(int64_t dim, TensorList l) { return l.empty() ? dim : maybe_wrap_dim(dim, l[0].dim()); }

}  // namespace at
