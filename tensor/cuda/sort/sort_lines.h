// Rows to sort or to select from: where their elements lie, and where results go.
#pragma once

#include <cstdint>

#include "tensor/cuda/support/index_elements.h"
#include "tensor/cuda/sort/sort_keys.h"

namespace tessera::cuda {

// Operands of the walk over rows: values, indices, in. values and indices may be null.
struct SortLines {
  Walk<3> rows;
  char* data[3];
  int64_t step[3];  // bytes from one element of a row to the next
  int64_t n;        // elements of a row of `in`
  int64_t k;        // how many of them are results
  KeyRule rule;
  bool across =
      false;  // neighbouring rows lie closer together than neighbours in a row: threads take one row after the other

  // Element x of `count` rows of `length` elements.
  __device__ void split(int64_t x, int64_t count, int64_t length, int64_t& row, int64_t& i) const {
    const int64_t q = quotient(x, across ? count : length), r = x - q * (across ? count : length);
    row = across ? r : q;
    i = across ? q : r;
  }
  __device__ uint64_t key(int64_t row, int64_t i) const {
    int64_t at[3];
    rows.offsets(row, at);
    return rule.key(load_bits(data[2] + at[2] + i * step[2], rule.size));
  }
  // Result number i: the element with this key, which stood at `position`.
  __device__ void write(int64_t row, int64_t i, uint64_t key, int64_t position) const {
    int64_t at[3];
    rows.offsets(row, at);
    if (data[0])
      store_bits(data[0] + at[0] + i * step[0], rule.size,
                 rule.element_bits(key, data[2] + at[2] + position * step[2]));
    if (data[1]) *reinterpret_cast<int64_t*>(data[1] + at[1] + i * step[1]) = position;
  }
};

// Candidates of a selection, k for each row in the order of their positions; keys: uint64_t if wide, else uint32_t.
struct Candidates {
  const void* keys = nullptr;  // null: there are none, the rows are sorted whole
  const void* positions = nullptr;
  bool wide_keys = false, wide_positions = false;
  __device__ uint64_t key(int64_t i) const {
    return wide_keys ? static_cast<const uint64_t*>(keys)[i] : static_cast<const uint32_t*>(keys)[i];
  }
  __device__ int64_t position(int64_t i) const {
    return wide_positions ? static_cast<int64_t>(static_cast<const uint64_t*>(positions)[i])
                          : static_cast<int64_t>(static_cast<const uint32_t*>(positions)[i]);
  }
};

inline constexpr int64_t kShortRow = 4096;  // rows up to here are sorted in shared memory

// Sorts rows [first_row, first_row + rows) of at most kShortRow elements, or that many candidates of each, and writes
// lines.k results of each row.
void sort_short_rows(const SortLines& lines, int64_t first_row, int64_t rows, const Candidates& candidates);

}  // namespace tessera::cuda
