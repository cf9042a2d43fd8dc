// Resizing on CUDA devices: for each function of nn/engine/resample.h one with the same signature, on device memory.
#pragma once

#include "nn/engine/resample.h"

namespace tessera::cuda {

TESSERA_NN_RESAMPLE_ENGINES(TESSERA_ENGINE_DECLARATION)

// Fills the table of DeviceType::kCUDA.
inline void connect(nn::ResampleEngines& engines) { TESSERA_NN_RESAMPLE_ENGINES(TESSERA_ENGINE_CONNECTION) }

}  // namespace tessera::cuda
