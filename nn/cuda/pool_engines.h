// Pooling on CUDA devices: for each function of nn/engine/pool.h one with the same signature, on device memory.
#pragma once

#include "nn/engine/pool.h"

namespace tessera::cuda {

TESSERA_NN_POOL_ENGINES(TESSERA_ENGINE_DECLARATION)

nn::MaxPoolWindowsBackward max_pool_backward_windows;

// Fills the table of DeviceType::kCUDA.
inline void connect(nn::PoolEngines& engines) {
  TESSERA_NN_POOL_ENGINES(TESSERA_ENGINE_CONNECTION)
  engines.max_pool_backward_windows = &max_pool_backward_windows;
}

}  // namespace tessera::cuda
