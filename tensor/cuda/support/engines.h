// The engines of CUDA devices: for each function of tensor/engine/engines.inc one with the same signature, on device
// memory.
#pragma once

#include "tensor/engine/engines.h"

namespace tessera::cuda {

#define TESSERA_ENGINE(name) decltype(cpu::name) name;
#include "tensor/engine/engines.inc"
#undef TESSERA_ENGINE

}  // namespace tessera::cuda
