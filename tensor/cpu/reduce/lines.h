// Walks lines along one dimension: what scan, softmax, sort, topk and argmax share. Lines that are dense and of the
// right dtype are used where they lie; others are brought to scratch several at a time (so that a line's neighbours in
// memory share the cache misses) and results go back the same way.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "tensor/core/dtype.h"
#include "tensor/cpu/support/operand.h"

namespace tessera::cpu {

// How many of `n` equal items make a piece for parallel_for, if each piece is to have about `least` units of work of
// all `work`: a power of two of pieces of one size, so that two or four threads get the same share.
inline int64_t even_grain(int64_t n, int64_t work, int64_t least) {
  int64_t pieces = 1;
  while (2 * pieces * least <= work && 2 * pieces <= n) pieces *= 2;
  return (n + pieces - 1) / pieces;
}

struct LineOperand {
  Operand operand;  // null data: absent
  DType as;         // the dtype that the kernel sees
  int64_t length;   // elements along the dimension (outputs may be shorter or longer than inputs)
  bool output;
};
inline constexpr int kMaxLineOperands = 3;

// `rows` lines; operand k's first line is at data[k], its next row_stride[k] bytes further (null if absent). Elements
// of a line are dense.
struct Lines {
  int64_t rows;
  char* data[kMaxLineOperands];
  int64_t row_stride[kMaxLineOperands];
  template <class T>
  T* row(int k, int64_t r) const {
    return reinterpret_cast<T*>(data[k] + r * row_stride[k]);
  }
};

// Calls fn for groups of lines, on several threads. The last operand decides the order. A group has at most max_rows
// lines.
void run_lines_erased(std::span<const int64_t> shape, int dim, std::span<const LineOperand> operands, int64_t max_rows,
                      void (*fn)(void* context, const Lines&), void* context);

template <class F>
void run_lines(std::span<const int64_t> shape, int dim, std::span<const LineOperand> operands, F&& fn,
               int64_t max_rows = 256) {
  using Fn = std::remove_reference_t<F>;
  run_lines_erased(
      shape, dim, operands, max_rows, [](void* c, const Lines& lines) { (*static_cast<Fn*>(c))(lines); },
      const_cast<void*>(static_cast<const void*>(&fn)));
}

// Lines that lie side by side: row i of the block holds element i of `cols` neighbouring lines.
struct Columns {
  int64_t rows, cols;
  const char* in;
  char* out;
  int64_t in_stride, out_stride;  // bytes from row to row
  const char* mask;               // of the elements that count, or null
  int64_t mask_stride, mask_step;
};

// The same for argmax: values and indices (null if absent) take one element for each column.
struct ArgColumnBlock {
  int64_t rows, cols;
  const char* in;
  int64_t in_stride;
  char* values;
  int64_t value_step;
  char* indices;
  int64_t index_step;
};

// If in and out have dtype `as` and both are dense along some dimension other than dim (and not along dim), calls fn
// for blocks of columns on several threads and returns true. Else does nothing. least: elements worth a thread of their
// own, rather many, since threads share the cache lines between their columns.
bool run_columns_erased(std::span<const int64_t> shape, int dim, DType as, const Operand& out, const Operand& in,
                        int64_t least, const Operand* mask, void (*fn)(void* context, const Columns&), void* context);

template <class F>
bool run_columns(std::span<const int64_t> shape, int dim, DType as, const Operand& out, const Operand& in,
                 int64_t least, F&& fn, const Operand* mask = nullptr) {
  using Fn = std::remove_reference_t<F>;
  return run_columns_erased(
      shape, dim, as, out, in, least, mask, [](void* c, const Columns& columns) { (*static_cast<Fn*>(c))(columns); },
      const_cast<void*>(static_cast<const void*>(&fn)));
}

}  // namespace tessera::cpu
