// Indices and masks on CUDA devices: for each function of tensor/engine/index.h one with the same signature, on
// device memory.
#pragma once

#include "tensor/engine/index.h"

namespace tessera::cuda {

TESSERA_INDEX_ENGINES(TESSERA_ENGINE_DECLARATION)

// Fills the table of DeviceType::kCUDA.
inline void connect(IndexEngines& engines) { TESSERA_INDEX_ENGINES(TESSERA_ENGINE_CONNECTION) }

}  // namespace tessera::cuda
