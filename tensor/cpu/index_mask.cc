// Masks: nonzero, masked_select, masked_scatter. The row-major elements are cut into chunks of fixed size; each chunk's hits are counted, and from the
// running counts every chunk knows where its results belong.
#include <algorithm>
#include <cstring>
#include <vector>

#include "tensor/core/parallel.h"
#include "tensor/cpu/index.h"
#include "tensor/cpu/index_internal.h"
#include "tensor/cpu/reduce.h"
#include "tensor/cpu/scratch.h"

namespace tessera::cpu {
namespace {

constexpr int64_t kChunk = 32768;

// Bytes 0 or 1 for elements [begin, end) of the nest, operand k.
template <int N>
void bring_mask(const Nest<N>& nest, int k, const Operand& x, int64_t begin, int64_t end, uint8_t* mask) {
  const int64_t size = item_size(x.dtype);
  for_each_run(nest, begin, end, [&](const int64_t(&offset)[N], int64_t len) {
    char* p = at_byte(x.data, offset[k]);
    if (nest.inner_stride(k) == size || len == 1) {
      convert(DType::kBool, mask, x.dtype, p, len);
    } else {
      const int64_t shape[1] = {len}, dense[1] = {1}, strides[1] = {nest.inner_stride(k)};
      copy_strided(shape, Operand{mask, DType::kBool, dense}, Operand{p, x.dtype, strides});
    }
    mask += len;
  });
}

// Eight bytes at a time where all are 0.
template <class F>
void for_each_set(const uint8_t* mask, int64_t n, F&& f) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t w;
    std::memcpy(&w, mask + i, 8);
    while (w != 0) {
      const int bit = __builtin_ctzll(w);
      f(i + bit / 8);
      w &= w - 1;
    }
  }
  for (; i < n; ++i) if (mask[i]) f(i);
}

// first[c]: number of hits before chunk c; one more entry with the total.
template <int N>
std::vector<int64_t> count_chunks(const Nest<N>& nest, int k, const Operand& x) {
  const int64_t n = nest.count();
  std::vector<int64_t> first((n + kChunk - 1) / kChunk + 1, 0);
  parallel_for(n, kChunk, [&](int64_t begin, int64_t end) {
    const internal::ScratchArray<uint8_t> mask(end - begin);
    bring_mask(nest, k, x, begin, end, mask.get());
    int64_t hits = 0;
    for (int64_t i = 0; i < end - begin; ++i) hits += mask[i];
    first[begin / kChunk + 1] = hits;
  });
  for (size_t c = 1; c < first.size(); ++c) first[c] += first[c - 1];
  return first;
}

// Moves elements between self (strided, where the mask is set) and a dense array, in chunks. kToSelf: masked_scatter, else masked_select.
template <bool kToSelf, class T>
void move_masked(const Nest<2>& nest, const Operand& self, const Operand& mask_op, const std::vector<int64_t>& first, char* dense) {
  parallel_for(nest.count(), kChunk, [&](int64_t begin, int64_t end) {
    const internal::ScratchArray<uint8_t> mask(end - begin);
    bring_mask(nest, 1, mask_op, begin, end, mask.get());
    T* at = reinterpret_cast<T*>(dense) + first[begin / kChunk];
    const uint8_t* m = mask.get();
    for_each_run(nest, begin, end, [&](const int64_t(&offset)[2], int64_t len) {
      char* p = at_byte(self.data, offset[0]);
      const int64_t step = nest.inner_stride(0);
      for_each_set(m, len, [&](int64_t i) {
        T& element = *reinterpret_cast<T*>(p + i * step);
        if (kToSelf) {
          element = *at++;
        } else {
          *at++ = element;
        }
      });
      m += len;
    });
  });
}

Nest<2> mask_nest(std::span<const int64_t> shape, const Operand& self, const Operand& mask) {
  Nest<2> nest;
  for (size_t d = 0; d < shape.size(); ++d) nest.push(shape[d], {self.strides[d], mask.strides[d]});
  nest.coalesce();
  return nest;
}

}  // namespace

int64_t run_count_nonzero(std::span<const int64_t> shape, const Operand& in) {
  int64_t count = 0;
  int64_t zeros[kMaxNestRank] = {};
  TESSERA_CHECK(shape.size() <= static_cast<size_t>(kMaxNestRank), "tensors have at most ", kMaxNestRank, " dimensions");
  run_reduce(ReduceKind::kCountNonzero, DType::kBool, shape, ~uint64_t{0}, {&count, DType::kInt64, zeros}, in, nullptr);
  return count;
}

void run_nonzero(std::span<const int64_t> shape, const Operand& in, int64_t* out, int64_t out_row_bytes, int64_t out_col_bytes) {
  const int rank = static_cast<int>(shape.size());
  if (rank == 0) return;  // a row per hit, but no columns
  Nest<1> nest;
  for (int d = 0; d < rank; ++d) nest.push(shape[d], {in.strides[d]});
  nest.coalesce();
  const std::vector<int64_t> first = count_chunks(nest, 0, in);
  const int64_t last = shape[rank - 1];
  parallel_for(nest.count(), kChunk, [&](int64_t begin, int64_t end) {
    const internal::ScratchArray<uint8_t> mask(end - begin);
    bring_mask(nest, 0, in, begin, end, mask.get());
    char* row = at_byte(out, first[begin / kChunk] * out_row_bytes);
    int64_t coord[kMaxNestRank] = {}, row_begin = 0, row_end = 0;
    for_each_set(mask.get(), end - begin, [&](int64_t i) {
      const int64_t linear = begin + i;
      if (linear >= row_end) {  // on to another line of the last dimension
        int64_t rest = linear / last;
        row_begin = rest * last;
        row_end = row_begin + last;
        for (int d = rank - 2; d >= 0; --d) {
          coord[d] = rest % shape[d];
          rest /= shape[d];
        }
      }
      coord[rank - 1] = linear - row_begin;
      for (int d = 0; d < rank; ++d) *reinterpret_cast<int64_t*>(row + d * out_col_bytes) = coord[d];
      row += out_row_bytes;
    });
  });
}

int64_t run_masked_select(std::span<const int64_t> shape, void* out, const Operand& self, const Operand& mask) {
  const Nest<2> nest = mask_nest(shape, self, mask);
  const std::vector<int64_t> first = count_chunks(nest, 1, mask);
  visit_size(item_size(self.dtype), [&](auto v) { move_masked<false, decltype(v)>(nest, self, mask, first, static_cast<char*>(out)); });
  return first.back();
}

void run_masked_scatter(std::span<const int64_t> shape, const Operand& self, const Operand& mask, const void* src, int64_t src_n) {
  const Nest<2> nest = mask_nest(shape, self, mask);
  const std::vector<int64_t> first = count_chunks(nest, 1, mask);
  TESSERA_CHECK(first.back() <= src_n, "masked_scatter: expected self and source to have the same number of elements: Number of elements of source < number of ones in mask");
  visit_size(item_size(self.dtype), [&](auto v) { move_masked<true, decltype(v)>(nest, self, mask, first, static_cast<char*>(const_cast<void*>(src))); });
}

}  // namespace tessera::cpu
