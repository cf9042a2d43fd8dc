// Random numbers on CUDA devices: for each function of tensor/engine/random.h one with the same signature, on device
// memory.
#pragma once

#include "tensor/engine/random.h"

namespace tessera::cuda {

TESSERA_RANDOM_ENGINES(TESSERA_ENGINE_DECLARATION)

RandomDropout random_dropout;

// Fills the table of DeviceType::kCUDA.
inline void connect(RandomEngines& engines) {
  TESSERA_RANDOM_ENGINES(TESSERA_ENGINE_CONNECTION)
  engines.random_dropout = &random_dropout;
}

}  // namespace tessera::cuda
