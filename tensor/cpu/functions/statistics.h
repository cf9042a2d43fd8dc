// Counting values in bins, ordering rows.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"

namespace tessera::cpu {

// `count` bins of equal width from low to high, or between count + 1 ascending edges. The last one includes its upper
// edge.
struct HistogramBins {
  int64_t count;
  double low = 0, high = 0;
  const double* edges = nullptr;  // in the memory of the data
};
// counts[b] = how many of the n values lie in bin b, or the sum of their weights if these are not null. All contiguous.
void run_histogram(const HistogramBins& bins, int64_t n, const double* values, const double* weights, double* counts);

// order (n numbers) = the rows of a contiguous n x cols matrix (bool, integers, float16 ... float64) in lexicographic
// order; equal rows keep theirs.
void run_sort_rows(DType dtype, int64_t n, int64_t cols, const void* rows, int64_t* order);

}  // namespace tessera::cpu
