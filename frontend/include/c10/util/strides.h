// Strides of a contiguous tensor.
#pragma once

#include <cstdint>
#include <vector>

#include "c10/util/ArrayRef.h"

namespace c10 {

// In elements; a dimension of size 0 counts as one of 1.
inline std::vector<int64_t> contiguous_strides(IntArrayRef sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * (sizes[i] > 1 ? sizes[i] : 1);
  return strides;
}

}  // namespace c10
