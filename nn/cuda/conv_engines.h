// Convolution, sliding blocks on CUDA devices: for each function of nn/engine/conv.h one with the same signature, on
// device memory.
#pragma once

#include "nn/engine/conv.h"

namespace tessera::cuda {

TESSERA_NN_CONV_ENGINES(TESSERA_ENGINE_DECLARATION)

bool conv_relu(DType dtype, const cpu::ConvGeometry& g, const void* x, const void* w, const void* bias, const void* z,
               double alpha, void* y);

// Fills the table of DeviceType::kCUDA.
inline void connect(nn::ConvEngines& engines) {
  TESSERA_NN_CONV_ENGINES(TESSERA_ENGINE_CONNECTION)
  engines.conv_relu = conv_relu;
}

}  // namespace tessera::cuda
