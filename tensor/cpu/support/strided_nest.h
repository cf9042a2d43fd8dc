// Loop nests over strided operands: what the reduction, scan, sort and index engines share.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <span>

#include "tensor/core/error.h"

namespace tessera::cpu {

// The shapes of the public API have at most this many dimensions.
inline constexpr int kMaxNestRank = 64;

// A loop nest over N operands, outermost dimension first: sizes and, for each operand, byte strides. Dimensions of size
// 1 are never kept.
template <int N>
struct Nest {
  int rank = 0;
  int64_t size[kMaxNestRank];
  int64_t stride[kMaxNestRank][N];

  void push(int64_t n, const int64_t (&s)[N]) {
    if (n == 1) return;
    TESSERA_CHECK(rank < kMaxNestRank, "tensors have at most ", kMaxNestRank, " dimensions");
    size[rank] = n;
    for (int k = 0; k < N; ++k) stride[rank][k] = s[k];
    ++rank;
  }
  int64_t count() const {
    int64_t n = 1;
    for (int d = 0; d < rank; ++d) n *= size[d];
    return n;
  }
  // Largest stride of operand `op` first, so that memory is walked in order; broadcast dimensions (stride 0) are
  // outermost.
  void sort_by(int op) {
    auto key = [&](int d) {
      const int64_t s = std::abs(stride[d][op]);
      return s == 0 ? INT64_MAX : s;
    };
    for (int i = 1; i < rank; ++i) {
      for (int j = i; j > 0 && key(j - 1) < key(j); --j) swap_dims(j - 1, j);
    }
  }
  // Joins neighbours that all operands walk with one stride.
  void coalesce() {
    int last = 0;
    for (int d = 1; d < rank; ++d) {
      bool joins = true;
      for (int k = 0; k < N; ++k) joins &= stride[last][k] == stride[d][k] * size[d];
      if (joins) {
        size[last] *= size[d];
      } else {
        ++last;
        size[last] = size[d];
      }
      for (int k = 0; k < N; ++k) stride[last][k] = stride[d][k];
    }
    if (rank > 0) rank = last + 1;
  }
  // Byte offsets of the element with this row-major number.
  void offsets(int64_t linear, int64_t (&out)[N]) const {
    for (int k = 0; k < N; ++k) out[k] = 0;
    for (int d = rank - 1; d >= 0 && linear != 0; --d) {
      const int64_t c = linear % size[d];
      linear /= size[d];
      for (int k = 0; k < N; ++k) out[k] += c * stride[d][k];
    }
  }
  int64_t inner_size() const { return rank == 0 ? 1 : size[rank - 1]; }
  int64_t inner_stride(int op) const { return rank == 0 ? 0 : stride[rank - 1][op]; }

 private:
  void swap_dims(int a, int b) {
    const int64_t n = size[a];
    size[a] = size[b];
    size[b] = n;
    for (int k = 0; k < N; ++k) {
      const int64_t s = stride[a][k];
      stride[a][k] = stride[b][k];
      stride[b][k] = s;
    }
  }
};

// Calls fn(offsets, length) for the runs of the innermost dimension that make up the row-major elements [begin, end) of
// the nest.
template <int N, class F>
void for_each_run(const Nest<N>& nest, int64_t begin, int64_t end, F&& fn) {
  if (begin >= end) return;
  int64_t offset[N], coord[kMaxNestRank];
  int64_t rest = begin;
  for (int k = 0; k < N; ++k) offset[k] = 0;
  for (int d = nest.rank - 1; d >= 0; --d) {
    coord[d] = rest % nest.size[d];
    rest /= nest.size[d];
    for (int k = 0; k < N; ++k) offset[k] += coord[d] * nest.stride[d][k];
  }
  const int64_t inner = nest.inner_size();
  int64_t at = nest.rank == 0 ? 0 : coord[nest.rank - 1];
  while (begin < end) {
    const int64_t len = inner - at < end - begin ? inner - at : end - begin;
    fn(static_cast<const int64_t(&)[N]>(offset), len);
    begin += len;
    if (begin >= end) return;
    for (int k = 0; k < N; ++k) offset[k] -= at * nest.inner_stride(k);
    at = 0;
    for (int d = nest.rank - 2; d >= 0; --d) {
      for (int k = 0; k < N; ++k) offset[k] += nest.stride[d][k];
      if (++coord[d] < nest.size[d]) break;
      for (int k = 0; k < N; ++k) offset[k] -= nest.stride[d][k] * nest.size[d];
      coord[d] = 0;
    }
  }
}

inline char* at_byte(void* p, int64_t offset) { return static_cast<char*>(p) + offset; }
inline const char* at_byte(const void* p, int64_t offset) { return static_cast<const char*>(p) + offset; }

inline int64_t element_count(std::span<const int64_t> shape) {
  int64_t n = 1;
  for (int64_t s : shape) n *= s;
  return n;
}

}  // namespace tessera::cpu
