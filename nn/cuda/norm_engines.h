// Normalisation on CUDA devices: for each function of nn/engine/norm.h one with the same signature, on device
// memory.
#pragma once

#include "nn/engine/norm.h"

namespace tessera::cuda {

TESSERA_NN_NORM_ENGINES(TESSERA_ENGINE_DECLARATION)

void batch_norm(const nn::BatchNormCall& call);
void batch_norm_gradient(const nn::BatchNormGradientCall& call);
nn::RmsNormForward rms_norm_forward;
nn::RmsNormBackward rms_norm_backward;
inline constexpr int64_t kLongestRmsNorm = 8192;

// Fills the table of DeviceType::kCUDA.
inline void connect(nn::NormEngines& engines) {
  TESSERA_NN_NORM_ENGINES(TESSERA_ENGINE_CONNECTION)
  engines.batch_norm = &batch_norm;
  engines.batch_norm_gradient = &batch_norm_gradient;
  engines.rms_norm_forward = &rms_norm_forward;
  engines.rms_norm_backward = &rms_norm_backward;
  engines.rms_norm_longest = kLongestRmsNorm;
}

}  // namespace tessera::cuda
