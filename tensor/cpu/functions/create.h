// Numbers made from their places alone: ranges, windows, indices of triangles.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"

namespace tessera::cpu {

enum class SequenceKind : uint8_t {
  kIntegers,  // first + step i, wrapping
  kSteps,     // a + b i
  kBetween,   // a + b i in the first half, end - b (count - 1 - i) in the second: both ends are exact; complex for
              // complex dtypes
  kFloats,    // the same in single precision with fused products
  kPowers,    // base to the number of kBetween
  // Windows over a span of points.
  kCosine,    // the sum over j of (-1)^k terms[j] cos(2 pi i k / span), k = first + j
  kTriangle,  // 1 - |2 i / span - 1|
  kBessel,    // i0(a sqrt(1 - (2 i / span - 1)^2)) / i0(a)
};
struct Sequence {
  SequenceKind kind;
  int64_t count;
  int64_t first = 0, step = 0;
  double a = 0, b = 0, end = 0;
  double a_imag = 0, b_imag = 0, end_imag = 0;
  double base = 0, span = 0;
  static constexpr int kMostTerms = 8;
  int num_terms = 0;
  double terms[kMostTerms] = {};
};
// Writes s.count numbers, computed in double precision or as 64-bit integers, to `out`: contiguous, of any dtype.
void run_sequence(const Sequence& s, DType dtype, void* out);

// The row numbers, then the column numbers (contiguous, `count` each) of the elements on one side of a diagonal, row by
// row: rows [first_row, end_row) have the columns from max(0, row + offset) on (upper) or up to row + offset (lower).
// Every such row has at least one element.
struct TriangleRows {
  int64_t first_row, end_row, cols, offset, count;
  bool upper;
};
void run_triangle_indices(const TriangleRows& t, DType dtype, void* out);

}  // namespace tessera::cpu
