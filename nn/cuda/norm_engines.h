// Normalisation on CUDA devices: for each function of nn/engine/norm.h one with the same signature, on device
// memory.
#pragma once

#include "nn/engine/norm.h"

namespace tessera::cuda {

TESSERA_NN_NORM_ENGINES(TESSERA_ENGINE_DECLARATION)

// Fills the table of DeviceType::kCUDA.
inline void connect(nn::NormEngines& engines) { TESSERA_NN_NORM_ENGINES(TESSERA_ENGINE_CONNECTION) }

}  // namespace tessera::cuda
