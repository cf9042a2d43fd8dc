// What the index engines share: positions read from index tensors, and elements moved several at a time.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <span>

#include "tensor/cuda/support/report.h"
#include "tensor/cuda/support/types.h"
#include "tensor/cuda/support/walk.h"

namespace tessera::cuda {

inline constexpr int kMaxDims = 64;
inline constexpr int64_t kNowhere = INT64_MIN;  // the place of a bad index

// Walks are made of at most 64 dimensions, which lie here.
struct Strides {
  int64_t of[kMaxDims] = {};
  Strides() = default;
  explicit Strides(const int64_t* from, size_t rank) { std::copy(from, from + rank, of); }
};

// 32-bit division is several times faster than 64-bit division. a, b >= 0.
__device__ inline int64_t quotient(int64_t a, int64_t b) {
  return static_cast<uint64_t>(a | b) >> 32 ? a / b
                                            : static_cast<int64_t>(static_cast<uint32_t>(a) / static_cast<uint32_t>(b));
}

// An index tensor on the device: its numbers, checked, become byte offsets.
struct Index {
  const char* data;     // int64, addressed by a walk's offset
  int64_t size, scale;  // of the indexed dimension: elements, bytes from one to the next
  int64_t dim;          // its number, for the report
  ReportKind kind = ReportKind::kIndexOutOfBounds;
  bool wraps = false;     // negative numbers count from the end
  bool resolved = false;  // the numbers are byte offsets already, or kNowhere
  Report* slot = nullptr;

  __device__ int64_t offset(int64_t at) const {
    int64_t v = *reinterpret_cast<const int64_t*>(data + at);
    if (resolved) return v;
    const int64_t given = v;
    if (wraps && v < 0) v += size;
    if (v >= 0 && v < size) return v * scale;
    report(slot, kind, given, dim, size);
    return kNowhere;
  }
};

// Where the walk's innermost dimension is dense in the operands of `dense` (a set of bits) and all others stay where
// they are, elements can be moved as larger ones, of up to 16 bytes. Makes the walk one over these and returns their
// size. alignment: the addresses and other byte distances that matter, or-ed.
template <int kOperands>
int64_t widen(Walk<kOperands>& w, int64_t item, unsigned dense, uint64_t alignment) {
  if (w.rank == 0) return item;
  uint64_t bits = alignment | static_cast<uint64_t>(w.sizes[0] * item);
  for (int k = 0; k < kOperands; ++k) {
    if (w.strides[0][k] != (dense >> k & 1 ? item : 0)) return item;
    for (int d = 1; d < w.rank; ++d)
      if (dense >> k & 1) bits |= static_cast<uint64_t>(w.strides[d][k]);
  }
  int64_t wide = 16;
  while (wide > item && bits % wide != 0) wide /= 2;
  w.sizes[0] = w.sizes[0] * item / wide;
  w.numel = w.numel * item / wide;
  for (int k = 0; k < kOperands; ++k)
    if (dense >> k & 1) w.strides[0][k] = wide;
  return wide;
}

inline uint64_t address(const void* p) { return reinterpret_cast<uint64_t>(p); }

}  // namespace tessera::cuda
