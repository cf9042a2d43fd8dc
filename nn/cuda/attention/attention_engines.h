// Attention on CUDA devices: for each function of nn/engine/attention.h one with the same signature, on device
// memory.
#pragma once

#include "nn/engine/attention.h"

namespace tessera::cuda {

TESSERA_NN_ATTENTION_ENGINES(TESSERA_ENGINE_DECLARATION)

nn::AttentionDropoutForward attention_dropout_forward;
nn::AttentionDropoutBackward attention_dropout_backward;
nn::AttentionDropoutKept attention_dropout_kept;

// Fills the table of DeviceType::kCUDA.
inline void connect(nn::AttentionEngines& engines) {
  TESSERA_NN_ATTENTION_ENGINES(TESSERA_ENGINE_CONNECTION)
  engines.attention_dropout_forward = &attention_dropout_forward;
  engines.attention_dropout_backward = &attention_dropout_backward;
  engines.attention_dropout_kept = &attention_dropout_kept;
}

}  // namespace tessera::cuda
