// The engines of neural networks on CUDA devices: for each function of nn/engine/engines.inc one with the same
// signature, on device memory.
#pragma once

#include "nn/engine/engines.h"

namespace tessera::cuda {

#define TESSERA_ENGINE(name) decltype(cpu::name) name;
#include "nn/engine/engines.inc"
#undef TESSERA_ENGINE

// Fills the table of DeviceType::kCUDA, and gives the elementwise engine the kernels of this library's ops.
void connect(nn::Engines& engines);

}  // namespace tessera::cuda
