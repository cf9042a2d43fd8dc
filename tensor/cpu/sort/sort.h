// Sorting, order statistics and search along lines, below the Tensor.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/core/dtype.h"
#include "tensor/cpu/support/operand.h"

namespace tessera::cpu {

// Sorts along dim into values and indices (int64), stable if asked (the order of equals is then kept; always stable is
// fine), NaN counts as largest.
void run_sort(std::span<const int64_t> shape, int dim, bool descending, const Operand& values, const Operand& indices,
              const Operand& in);
// The k largest/smallest along dim, sorted; NaN counts as largest.
void run_topk(std::span<const int64_t> shape, int dim, int64_t k, bool largest, bool sorted, const Operand& values,
              const Operand& indices, const Operand& in);
// First position whose boundary is >= value (right=false) or > value (right=true); boundaries sorted along their last
// dimension (contiguous), with `rows` rows or 1; values: rows x n contiguous; out int64 or int32. sorter: null or int64
// permutation of each row.
void run_searchsorted(DType dtype, const void* boundaries, int64_t m, bool shared_boundaries, const int64_t* sorter,
                      const void* values, int64_t rows, int64_t n, bool right, bool out_int32, void* out);

// kNth: the k-th smallest (from 0), NaN above all. kMedian: the lower median, NaN if there is one. kNanMedian: the
// lower median of the numbers, NaN if there are none.
enum class SelectKind : uint8_t { kNth, kMedian, kNanMedian };

// Value and place (int64; either may have null data) of the chosen element along dim; of equals, the place is that in a
// stable sort. Outputs have stride 0 at dim.
void run_select(SelectKind kind, std::span<const int64_t> shape, int dim, int64_t k, const Operand& values,
                const Operand& indices, const Operand& in);

}  // namespace tessera::cpu
