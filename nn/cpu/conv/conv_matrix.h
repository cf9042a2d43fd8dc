// What the ways through matrix products share.
#pragma once

#include <cstdint>

#include "tensor/core/visit.h"
#include "tensor/cpu/gemm/gemm.h"

namespace tessera::cpu::internal {

inline MatrixRef matrix(const void* data, int64_t row_stride, int64_t col_stride) {
  return {const_cast<void*>(data), row_stride, col_stride};
}

template <class E>
void fill_rows(E* to, int64_t stride, const E* values, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < n; ++i) to[r * stride + i] = values[r];
}
// Row r of n elements = values[r].
inline void broadcast_rows(int64_t item, void* to, int64_t stride, const void* values, int64_t rows, int64_t n) {
  visit_size(item, [&](auto tag) {
    using E = typename decltype(tag)::type;
    fill_rows(static_cast<E*>(to), stride, static_cast<const E*>(values), rows, n);
  });
}

}  // namespace tessera::cpu::internal
