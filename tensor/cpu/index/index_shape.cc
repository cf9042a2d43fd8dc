// tril, triu and flip: copies by element size.
#include <algorithm>
#include <cstring>

#include "tensor/core/parallel.h"
#include "tensor/cpu/index/index.h"
#include "tensor/cpu/index/index_internal.h"
#include "tensor/cpu/index/index_simd.h"
#include "tensor/cpu/support/pieces.h"
#include "tensor/cpu/support/simd_move.h"

namespace tessera::cpu {
namespace {

constexpr int64_t kGrain = 16384;

template <class T>
void copy_run(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t n) {
  if (n <= 0) return;
  if (to_step == sizeof(T) && from_step == sizeof(T)) {
    std::memmove(to, from, n * sizeof(T));  // in place is the same memory
    return;
  }
  if (to_step == sizeof(T) && from_step == -static_cast<int64_t>(sizeof(T)) && sizeof(T) <= 8) {
    reverse_elements(sizeof(T), to, from, n);
    return;
  }
  for (int64_t i = 0; i < n; ++i)
    *reinterpret_cast<T*>(to + i * to_step) = *reinterpret_cast<const T*>(from + i * from_step);
}
template <class T>
void zero_run(char* to, int64_t step, int64_t n) {
  if (n <= 0) return;
  if (step == sizeof(T)) {
    std::memset(to, 0, n * sizeof(T));
    return;
  }
  for (int64_t i = 0; i < n; ++i) *reinterpret_cast<T*>(to + i * step) = T{};
}

}  // namespace

void run_tril_triu(bool upper, int64_t diagonal, std::span<const int64_t> shape, const Operand& out,
                   const Operand& self) {
  const size_t rank = shape.size();
  TESSERA_CHECK(rank >= 2, upper ? "triu" : "tril", ": input tensor must have at least 2 dimensions");
  const int64_t rows = shape[rank - 2], cols = shape[rank - 1];
  if (element_count(shape) == 0) return;
  // Diagonals beyond the matrix change nothing more: this keeps the sums below from overflowing.
  diagonal = std::clamp(diagonal, -rows, cols);
  Nest<2> batches;
  for (size_t d = 0; d + 2 < rank; ++d) batches.push(shape[d], {out.strides[d], self.strides[d]});
  const int64_t so = out.strides[rank - 1], ss = self.strides[rank - 1];
  visit_size(item_size(out.dtype), [&](auto tag) {
    using T = typename decltype(tag)::type;
    parallel_for(batches.count() * rows, std::max<int64_t>(1, kGrain / cols), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t r = i % rows;
        int64_t offset[2];
        batches.offsets(i / rows, offset);
        char* to = at_byte(out.data, offset[0] + r * out.strides[rank - 2]);
        const char* from = at_byte(self.data, offset[1] + r * self.strides[rank - 2]);
        const int64_t cut = std::clamp<int64_t>(upper ? r + diagonal : r + diagonal + 1, 0, cols);
        if (upper) {
          copy_run<T>(to + cut * so, so, from + cut * ss, ss, cols - cut);
          zero_run<T>(to, so, cut);
        } else {
          copy_run<T>(to, so, from, ss, cut);
          zero_run<T>(to + cut * so, so, cols - cut);
        }
      }
    });
  });
}

void run_flip(std::span<const int64_t> shape, uint64_t flip_mask, const Operand& out, const Operand& self) {
  Nest<2> nest;
  int64_t start = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) return;
    const bool flip = flip_mask >> d & 1;
    if (flip) start += (shape[d] - 1) * self.strides[d];
    nest.push(shape[d], {out.strides[d], flip ? -self.strides[d] : self.strides[d]});
  }
  nest.sort_by(0);
  nest.coalesce();
  visit_size(item_size(out.dtype), [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int64_t kSize = sizeof(T);
    const bool stream = kSize <= 8 && 2 * nest.count() * kSize >= kStreamBytes && nest.inner_stride(0) == kSize &&
                        nest.inner_stride(1) == -kSize;
    parallel_ranges(nest.count(), stream ? kStreamedPiece : kGrain, [&](int64_t begin, int64_t end) {
      for_each_run(nest, begin, end, [&](const int64_t(&offset)[2], int64_t len) {
        if (stream)
          return stream_reversed(kSize, at_byte(out.data, offset[0]), at_byte(self.data, start + offset[1]), len);
        copy_run<T>(at_byte(out.data, offset[0]), nest.inner_stride(0), at_byte(self.data, start + offset[1]),
                    nest.inner_stride(1), len);
      });
      if (stream) stream_fence();
    });
  });
}

}  // namespace tessera::cpu
