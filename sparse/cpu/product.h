// Products with a matrix in rows, softmax over groups. Unless a function says otherwise, numbers are checked before, by
// all_inside.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/core/dtype.h"

namespace tessera::cpu {

struct RowsView {
  const int64_t* pointers;  // height + 1
  const int64_t* columns;
  const void* values;
  int64_t height, width;
};

// Whether 0 <= p[i] < size for all of n numbers.
bool all_inside(const int64_t* p, int64_t n, int64_t size);

// out (height, n) = a @ b, b (width, n), both row-major. Columns are checked on the way: false if one is outside, and
// out holds anything. f32, f64, c64, c128, int64.
bool multiply_rows(DType t, const RowsView& a, const void* b, int64_t n, void* out);

// values[k] = the product of row i of a (height, depth) and row columns[k] of b (width, depth), for element k of line
// i. f32, f64.
void sample_products(DType t, const RowsView& pattern, const void* a, const void* b, int64_t depth, void* values);

// a @ b, both in rows; b has `width` columns. f64, c128, int64. Columns ascend.
struct RowsResult {
  std::vector<int64_t> pointers, columns;
  std::vector<char> values;
};
RowsResult multiply_sparse(DType t, const RowsView& a, const RowsView& b, int64_t width);

enum class Reduce { kSum, kMean, kMax, kMin };
// The same as multiply_rows with another way of bringing terms together; chosen (may be null): which element gave the
// greatest or least one, the number of elements where there is none. f32, f64.
void reduce_rows(DType t, Reduce how, const RowsView& a, const void* b, int64_t n, void* out, int64_t* chosen);

// Over groups of rows of `width` elements: begins of `groups` groups, order (or null) of their rows. f32, f64.
// Forward: out = softmax or log_softmax of in. Backward: in is the gradient, y the result of forward.
void group_softmax(DType t, bool log, const int64_t* begins, int64_t groups, const uint32_t* order, int64_t width,
                   const void* in, const void* y, void* out);

}  // namespace tessera::cpu
