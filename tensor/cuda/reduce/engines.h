// Reductions, scans, softmax on CUDA devices: for each function of tensor/engine/reduce.h one with the same
// signature, on device memory.
#pragma once

#include "tensor/engine/reduce.h"

namespace tessera::cuda {

TESSERA_REDUCE_ENGINES(TESSERA_ENGINE_DECLARATION)

// Fills the table of DeviceType::kCUDA.
inline void connect(ReduceEngines& engines) { TESSERA_REDUCE_ENGINES(TESSERA_ENGINE_CONNECTION) }

}  // namespace tessera::cuda
