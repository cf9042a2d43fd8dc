// Gradients of embeddings, bags of them, and rows with a single 1.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"

namespace tessera::cpu {

// dweight (rows_total x dim, zeroed here) += dy rows at index; rows equal to padding_idx (>= 0) get nothing;
// scale_by_freq divides by the row's count.
void embedding_backward(DType dtype, const void* dy, const int64_t* index, int64_t n, int64_t dim, int64_t rows_total,
                        int64_t padding_idx, bool scale_by_freq, void* dweight);

enum class BagMode : int64_t { kSum = 0, kMean = 1, kMax = 2 };

struct Bags {
  int64_t count;         // bags
  const int64_t* index;  // rows of the table, all checked
  const int64_t* begin;  // count + 1 positions in index
  int64_t padding;       // this row is left out; -1: none
};

// out (bags x dim) = sums, means or greatest elements of the rows (contiguous, `dim` long) of each bag, in their order;
// empty bags give 0. scale: a factor of dtype for each position, or null (kSum only). sizes (bags): rows that count.
// places (bags x dim; kMax only): the rows where the greatest elements were, 0 for empty bags. float16 and bfloat16 are
// added in float32.
void embedding_bag_forward(DType dtype, BagMode mode, const Bags& bags, int64_t dim, const void* table,
                           const void* scale, void* out, int64_t* sizes, int64_t* places);

// out (n x classes) = 1 at the place that index names, all of which are in range, else 0.
void one_hot(const int64_t* index, int64_t n, int64_t classes, int64_t* out);

}  // namespace tessera::cpu
