// Running sums and products of lines that lie side by side, in vectors.
#pragma once

#include "tensor/core/dtype.h"
#include "tensor/cpu/lines.h"

namespace tessera::cpu {

// load: float32 (running values in float64), float64 or int64.
void scan_columns(bool product, DType load, const Columns& columns);

}  // namespace tessera::cpu
