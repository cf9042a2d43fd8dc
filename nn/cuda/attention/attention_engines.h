// Attention on CUDA devices: for each function of nn/engine/attention.h one with the same signature, on device
// memory.
#pragma once

#include "nn/engine/attention.h"

namespace tessera::cuda {

TESSERA_NN_ATTENTION_ENGINES(TESSERA_ENGINE_DECLARATION)

// Fills the table of DeviceType::kCUDA.
inline void connect(nn::AttentionEngines& engines) { TESSERA_NN_ATTENTION_ENGINES(TESSERA_ENGINE_CONNECTION) }

}  // namespace tessera::cuda
