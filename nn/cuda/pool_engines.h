// Pooling on CUDA devices: for each function of nn/engine/pool.h one with the same signature, on device memory.
#pragma once

#include "nn/engine/pool.h"

namespace tessera::cuda {

TESSERA_NN_POOL_ENGINES(TESSERA_ENGINE_DECLARATION)

// Fills the table of DeviceType::kCUDA.
inline void connect(nn::PoolEngines& engines) { TESSERA_NN_POOL_ENGINES(TESSERA_ENGINE_CONNECTION) }

}  // namespace tessera::cuda
