// How kernels tell that their data is wrong.
#pragma once

#include <cstdint>

#include "tensor/cuda/runtime/launch.h"

namespace tessera::cuda {

// The first report since the slot was read stays. `slot` is report_slot(); index, dim and size are what the message of
// the kind shows.
__device__ inline void report(Report* slot, ReportKind kind, int64_t index = 0, int64_t dim = 0, int64_t size = 0) {
  if (atomicCAS(&slot->kind, 0, static_cast<int>(kind)) != 0) return;
  slot->index = index;
  slot->dim = dim;
  slot->size = size;
}

}  // namespace tessera::cuda
