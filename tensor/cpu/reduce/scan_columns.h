// Running sums and products in vectors.
#pragma once

#include "tensor/core/dtype.h"
#include "tensor/cpu/reduce/lines.h"

namespace tessera::cpu {

// Lines that lie side by side. load: float32 (running values in float64), float64 or int64. stream: results go past the
// caches.
void scan_columns(bool product, DType load, bool stream, const Columns& columns);

// Sums along n elements of each line. load: float32 or int64, of which sums in any order are the same but for what
// float64 rounds away.
void scan_sum_lines(DType load, const Lines& lines, int64_t n);

}  // namespace tessera::cpu
