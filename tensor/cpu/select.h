// Order statistics along lines.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/cpu/pointwise.h"

namespace tessera::cpu {

// kNth: the k-th smallest (from 0), NaN above all. kMedian: the lower median, NaN if there is one. kNanMedian: the lower median of the numbers, NaN if there are none.
enum class SelectKind : uint8_t { kNth, kMedian, kNanMedian };

// Value and place (int64; either may have null data) of the chosen element along dim; of equals, the place is that in a stable sort. Outputs have stride 0 at dim.
void run_select(SelectKind kind, std::span<const int64_t> shape, int dim, int64_t k, const Operand& values, const Operand& indices, const Operand& in);

}  // namespace tessera::cpu
