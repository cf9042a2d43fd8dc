// Recurrent layers on CUDA devices: for each function of nn/engine/rnn.h one with the same signature, on device memory.
#pragma once

#include "nn/engine/rnn.h"

namespace tessera::cuda {

TESSERA_NN_RNN_ENGINES(TESSERA_ENGINE_DECLARATION)

// Fills the table of DeviceType::kCUDA.
inline void connect(nn::RnnEngines& engines) { TESSERA_NN_RNN_ENGINES(TESSERA_ENGINE_CONNECTION) }

}  // namespace tessera::cuda
