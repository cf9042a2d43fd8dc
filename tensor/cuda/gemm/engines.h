// Matrix products on CUDA devices: for each function of tensor/engine/gemm.h one with the same signature, on device
// memory.
#pragma once

#include "tensor/engine/gemm.h"

namespace tessera::cuda {

TESSERA_GEMM_ENGINES(TESSERA_ENGINE_DECLARATION)

// Products with an epilogue.
GemmBias gemm_bias;
// By tensor cores.
GemmInt8 gemm_int8;

// Fills the table of DeviceType::kCUDA.
inline void connect(GemmEngines& engines) {
  TESSERA_GEMM_ENGINES(TESSERA_ENGINE_CONNECTION)
  engines.gemm_bias = &gemm_bias;
  engines.gemm_int8 = &gemm_int8;
}

}  // namespace tessera::cuda
