// Where the elements of several strided operands lie, by a running number: what a kernel needs to go over tensors of
// any strides.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "tensor/core/error.h"
#include "tensor/cpu/support/operand.h"
#include "tensor/cuda/runtime/launch.h"

namespace tessera::cuda {

using cpu::Operand;
inline constexpr int kMaxRank = 24;  // after joining: a tensor of more dimensions that cannot be joined is refused

// Row-major over `sizes` (after joining): number i -> one byte offset per operand. Passed to kernels by value.
template <int kOperands>
struct Walk {
  int rank = 0;
  int64_t numel = 1;
  int64_t sizes[kMaxRank];               // innermost first
  int64_t strides[kMaxRank][kOperands];  // bytes

  __device__ void offsets(int64_t i, int64_t (&out)[kOperands]) const {
    for (int k = 0; k < kOperands; ++k) out[k] = 0;
    for (int d = 0; d < rank; ++d) {
      // 32-bit division is several times faster than 64-bit division.
      const int64_t q = (static_cast<uint64_t>(i) >> 32) || (static_cast<uint64_t>(sizes[d]) >> 32)
                            ? i / sizes[d]
                            : static_cast<uint32_t>(i) / static_cast<uint32_t>(sizes[d]);
      const int64_t r = i - q * sizes[d];
      for (int k = 0; k < kOperands; ++k) out[k] += r * strides[d][k];
      i = q;
    }
  }
};

// keep_order: numbers follow the row-major order of `shape`. Else dimensions may be walked in the order of the first
// operand's memory, which is faster.
template <int kOperands>
Walk<kOperands> make_walk(std::span<const int64_t> shape, const int64_t* const (&strides)[kOperands],
                          bool keep_order = true) {
  struct Dim {
    int64_t size;
    int64_t stride[kOperands];
  };
  Dim dims[64];
  int n = 0;
  Walk<kOperands> w;
  for (size_t i = shape.size(); i-- > 0;) {
    w.numel *= shape[i];
    if (shape[i] == 1) continue;
    TESSERA_CHECK(n < 64, "tensors of more than 64 dimensions are not supported");
    dims[n].size = shape[i];
    for (int k = 0; k < kOperands; ++k) dims[n].stride[k] = strides[k][i];
    ++n;
  }
  if (!keep_order)
    std::stable_sort(dims, dims + n, [](const Dim& a, const Dim& b) {
      return (a.stride[0] < 0 ? -a.stride[0] : a.stride[0]) < (b.stride[0] < 0 ? -b.stride[0] : b.stride[0]);
    });
  for (int i = 0; i < n; ++i) {
    if (w.rank > 0) {
      bool joins = true;
      for (int k = 0; k < kOperands; ++k)
        joins = joins && dims[i].stride[k] == w.strides[w.rank - 1][k] * w.sizes[w.rank - 1];
      if (joins) {
        w.sizes[w.rank - 1] *= dims[i].size;
        continue;
      }
    }
    TESSERA_CHECK(w.rank < kMaxRank, "a tensor with more than ", kMaxRank,
                  " dimensions that do not lie one behind the other is not supported on CUDA devices");
    w.sizes[w.rank] = dims[i].size;
    for (int k = 0; k < kOperands; ++k) w.strides[w.rank][k] = dims[i].stride[k];
    ++w.rank;
  }
  return w;
}

// True if the elements of operand k lie one behind the other in the walk's order.
template <int kOperands>
bool is_dense(const Walk<kOperands>& w, int k, int64_t item_size) {
  return w.rank == 0 || (w.rank == 1 && w.strides[0][k] == item_size);
}

}  // namespace tessera::cuda
