// Ranges, windows, counts and orders on CUDA devices: for each function of tensor/engine/functions.h one with the
// same signature, on device memory.
#pragma once

#include "tensor/engine/functions.h"

namespace tessera::cuda {

TESSERA_FUNCTION_ENGINES(TESSERA_ENGINE_DECLARATION)

// Fills the table of DeviceType::kCUDA.
inline void connect(FunctionEngines& engines) { TESSERA_FUNCTION_ENGINES(TESSERA_ENGINE_CONNECTION) }

}  // namespace tessera::cuda
