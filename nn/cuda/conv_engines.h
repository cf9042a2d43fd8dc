// Convolution, sliding blocks on CUDA devices: for each function of nn/engine/conv.h one with the same signature, on
// device memory.
#pragma once

#include "nn/engine/conv.h"

namespace tessera::cuda {

TESSERA_NN_CONV_ENGINES(TESSERA_ENGINE_DECLARATION)

// Fills the table of DeviceType::kCUDA.
inline void connect(nn::ConvEngines& engines) { TESSERA_NN_CONV_ENGINES(TESSERA_ENGINE_CONNECTION) }

}  // namespace tessera::cuda
