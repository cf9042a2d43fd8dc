// Masks: nonzero, masked_select, masked_scatter. The row-major elements are cut into chunks of fixed size; each chunk's
// hits are counted, and from the running counts every chunk knows where its results belong.
#include <algorithm>
#include <cstring>
#include <vector>

#include "tensor/core/parallel.h"
#include "tensor/cpu/index/index.h"
#include "tensor/cpu/index/index_internal.h"
#include "tensor/cpu/index/index_simd.h"
#include "tensor/cpu/pointwise/pointwise.h"
#include "tensor/cpu/reduce/reduce.h"
#include "tensor/cpu/support/scratch.h"

namespace tessera::cpu {
namespace {

constexpr int64_t kChunk = 16384;

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
      const int byte = __builtin_ctzll(w) / 8;
      f(i + byte);
      w &= ~(uint64_t{255} << 8 * byte);
    }
  }
  for (; i < n; ++i)
    if (mask[i]) f(i);
}

// The mask bytes of a chunk: where they lie if they lie densely, else brought together.
template <int N>
class ChunkMask {
 public:
  ChunkMask(const Nest<N>& nest, int k, const Operand& x, int64_t begin, int64_t end)
      : dense_(x.dtype == DType::kBool && nest.rank <= 1 && nest.inner_stride(k) == (nest.rank == 0 ? 0 : 1)),
        scratch_(dense_ ? 0 : end - begin) {
    bytes_ = dense_ ? static_cast<const uint8_t*>(x.data) + begin : scratch_.get();
    if (!dense_) bring_mask(nest, k, x, begin, end, scratch_.get());
  }
  const uint8_t* bytes() const { return bytes_; }

 private:
  const bool dense_;
  const internal::ScratchArray<uint8_t> scratch_;
  const uint8_t* bytes_;
};

// first[c]: number of hits before chunk c; one more entry with the total.
template <int N>
std::vector<int64_t> count_chunks(const Nest<N>& nest, int k, const Operand& x) {
  const int64_t n = nest.count();
  std::vector<int64_t> first((n + kChunk - 1) / kChunk + 1, 0);
  parallel_for(n, kChunk, [&](int64_t begin, int64_t end) {
    first[begin / kChunk + 1] = count_set(ChunkMask<N>(nest, k, x, begin, end).bytes(), end - begin);
  });
  for (size_t c = 1; c < first.size(); ++c) first[c] += first[c - 1];
  return first;
}

// Moves elements between self (strided, where the mask is set) and a dense array, in chunks. kToSelf: masked_scatter,
// else masked_select.
template <bool kToSelf, class T>
void move_masked(const Nest<2>& nest, const Operand& self, const Operand& mask_op, const std::vector<int64_t>& first,
                 char* dense) {
  const int64_t step = nest.inner_stride(0);
  parallel_for(nest.count(), kChunk, [&](int64_t begin, int64_t end) {
    const ChunkMask<2> mask(nest, 1, mask_op, begin, end);
    T* at = reinterpret_cast<T*>(dense) + first[begin / kChunk];
    T* const last = reinterpret_cast<T*>(dense) + first[begin / kChunk + 1];
    const uint8_t* m = mask.bytes();
    for_each_run(nest, begin, end, [&](const int64_t(&offset)[2], int64_t len) {
      char* const p = at_byte(self.data, offset[0]);
      const uint8_t* const set = m;
      m += len;
      if constexpr (!kToSelf && sizeof(T) <= 8) {
        if (step == static_cast<int64_t>(sizeof(T))) {
          at += select_elements(sizeof(T), set, p, len, at, last - at);
          return;
        }
      }
      // What is not set is moved as well and counts for nothing: no branch to guess.
      for (int64_t i = 0; i < len && at != last; ++i) {
        T& element = *reinterpret_cast<T*>(p + i * step);
        if (kToSelf) {
          element = set[i] ? *at : element;
        } else {
          *at = element;
        }
        at += set[i] != 0;
      }
    });
  });
}

Nest<2> mask_nest(std::span<const int64_t> shape, const Operand& self, const Operand& mask) {
  Nest<2> nest;
  for (size_t d = 0; d < shape.size(); ++d) nest.push(shape[d], {self.strides[d], mask.strides[d]});
  nest.coalesce();
  return nest;
}

// The coordinates of line number `line` of the last dimension, without that one.
void line_coordinates(std::span<const int64_t> shape, int64_t line, int64_t* coord) {
  for (int d = static_cast<int>(shape.size()) - 2; d >= 0; --d) {
    coord[d] = line % shape[d];
    line /= shape[d];
  }
}

// The coordinates of what is set among the elements [begin, end), each dimension's densely; line by line of the last
// dimension.
void write_columns(std::span<const int64_t> shape, const uint8_t* mask, int64_t begin, int64_t end, char* out,
                   int64_t out_col_bytes, int64_t hits) {
  const int rank = static_cast<int>(shape.size());
  const int64_t last = shape[rank - 1];
  int64_t coord[kMaxNestRank];
  for (int64_t i = begin; i < end && hits > 0;) {
    const int64_t line = i / last, from = i - line * last, n = std::min(last - from, end - i);
    const int64_t written =
        write_positions(mask, n, from, reinterpret_cast<int64_t*>(out + (rank - 1) * out_col_bytes), hits);
    if (rank > 1 && written > 0) {
      line_coordinates(shape, line, coord);
      for (int d = 0; d < rank - 1; ++d)
        std::fill_n(reinterpret_cast<int64_t*>(out + d * out_col_bytes), written, coord[d]);
    }
    out += written * static_cast<int64_t>(sizeof(int64_t));
    hits -= written;
    mask += n;
    i += n;
  }
}

// The same hit by hit, for short lines and any strides of the result.
void write_rows(std::span<const int64_t> shape, const uint8_t* mask, int64_t begin, int64_t end, char* row,
                int64_t out_row_bytes, int64_t out_col_bytes) {
  const int rank = static_cast<int>(shape.size());
  const int64_t last = shape[rank - 1];
  int64_t coord[kMaxNestRank] = {}, row_begin = 0, row_end = 0;
  for_each_set(mask, end - begin, [&](int64_t i) {
    const int64_t linear = begin + i;
    if (linear >= row_end) {  // on to another line of the last dimension
      const int64_t line = linear / last;
      row_begin = line * last;
      row_end = row_begin + last;
      line_coordinates(shape, line, coord);
    }
    coord[rank - 1] = linear - row_begin;
    for (int d = 0; d < rank; ++d) *reinterpret_cast<int64_t*>(row + d * out_col_bytes) = coord[d];
    row += out_row_bytes;
  });
}

}  // namespace

int64_t run_count_nonzero(std::span<const int64_t> shape, const Operand& in) {
  int64_t count = 0;
  int64_t zeros[kMaxNestRank] = {};
  TESSERA_CHECK(shape.size() <= static_cast<size_t>(kMaxNestRank), "tensors have at most ", kMaxNestRank,
                " dimensions");
  run_reduce(ReduceKind::kCountNonzero, DType::kBool, shape, ~uint64_t{0}, {&count, DType::kInt64, zeros}, in, nullptr);
  return count;
}

void run_nonzero(std::span<const int64_t> shape, const Operand& in, int64_t* out, int64_t out_row_bytes,
                 int64_t out_col_bytes) {
  const int rank = static_cast<int>(shape.size());
  if (rank == 0) return;  // a row per hit, but no columns
  Nest<1> nest;
  for (int d = 0; d < rank; ++d) nest.push(shape[d], {in.strides[d]});
  nest.coalesce();
  const std::vector<int64_t> first = count_chunks(nest, 0, in);
  const int64_t last = shape[rank - 1];
  const bool columns = out_row_bytes == static_cast<int64_t>(sizeof(int64_t)) && (rank == 1 || last >= 32);
  parallel_for(nest.count(), kChunk, [&](int64_t begin, int64_t end) {
    const ChunkMask<1> mask(nest, 0, in, begin, end);
    const int64_t to = first[begin / kChunk], hits = first[begin / kChunk + 1] - to;
    char* const row = at_byte(out, to * out_row_bytes);
    if (columns) {
      write_columns(shape, mask.bytes(), begin, end, row, out_col_bytes, hits);
    } else {
      write_rows(shape, mask.bytes(), begin, end, row, out_row_bytes, out_col_bytes);
    }
  });
}

int64_t run_masked_select(std::span<const int64_t> shape, void* out, const Operand& self, const Operand& mask) {
  const Nest<2> nest = mask_nest(shape, self, mask);
  const std::vector<int64_t> first = count_chunks(nest, 1, mask);
  visit_size(item_size(self.dtype), [&](auto tag) {
    move_masked<false, typename decltype(tag)::type>(nest, self, mask, first, static_cast<char*>(out));
  });
  return first.back();
}

void run_masked_scatter(std::span<const int64_t> shape, const Operand& self, const Operand& mask, const void* src,
                        int64_t src_n) {
  const Nest<2> nest = mask_nest(shape, self, mask);
  const std::vector<int64_t> first = count_chunks(nest, 1, mask);
  TESSERA_CHECK(first.back() <= src_n,
                "masked_scatter: expected self and source to have the same number of elements: Number of elements of "
                "source < number of ones in mask");
  visit_size(item_size(self.dtype), [&](auto tag) {
    move_masked<true, typename decltype(tag)::type>(nest, self, mask, first,
                                                    static_cast<char*>(const_cast<void*>(src)));
  });
}

}  // namespace tessera::cpu
