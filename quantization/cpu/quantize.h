// Numbers to integers and back, over contiguous memory.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"

namespace tessera::cpu {

// How the integers of a piece stand for numbers: (q - zero_point) * scale.
struct Affine {
  float scale, inverse;
  int64_t zero_point, low, high;
};

// out = clamp(round(x * inverse) + zero_point), of uint8, int8 or int32.
void quantize(const float* x, int64_t n, const Affine& a, DType dtype, void* out);
// out = (x - zero_point) * scale, of uint8, int8 or int32.
void dequantize(DType dtype, const void* x, int64_t n, const Affine& a, float* out);
// Both after each other; mask says where nothing was cut off.
void fake_quantize(const float* x, int64_t n, const Affine& a, float* out, uint8_t* mask);
// out = mask ? x : 0.
void keep_where(const float* x, const uint8_t* mask, int64_t n, float* out);

// Sums (rows, columns), row by row. offset, bias: null or of each column; factor of each column.
struct SumsOf {
  const int32_t* sums;
  int64_t rows, columns;
  const int32_t* offset;
  const float *factor, *bias;
  int64_t zero_point, low, high;
  int64_t sums_row = 0, out_row = 0;  // from row to row; 0: columns

  void from_column(int64_t j) {
    if (offset) offset += j;
    if (bias) bias += j;
    factor += j;
  }
};
// round((sum - offset + bias) * factor) + zero_point as uint8 or int8; (sum - offset) * factor + bias as float32.
void requantize(const SumsOf& s, DType dtype, void* out);
// The same on the calling thread.
void requantize_block(const SumsOf& s, DType dtype, void* out);

}  // namespace tessera::cpu
