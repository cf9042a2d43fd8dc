// The negative log likelihood on CUDA devices: for each function of nn/engine/loss.h one with the same signature, on
// device memory.
#pragma once

#include "nn/engine/loss.h"

namespace tessera::cuda {

TESSERA_NN_LOSS_ENGINES(TESSERA_ENGINE_DECLARATION)

nn::SmoothedLossForward smoothed_loss_forward;
nn::SmoothedLossBackward smoothed_loss_backward;

// Fills the table of DeviceType::kCUDA.
inline void connect(nn::LossEngines& engines) {
  TESSERA_NN_LOSS_ENGINES(TESSERA_ENGINE_CONNECTION)
  engines.smoothed_loss_forward = &smoothed_loss_forward;
  engines.smoothed_loss_backward = &smoothed_loss_backward;
}

}  // namespace tessera::cuda
