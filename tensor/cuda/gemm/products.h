// Products with an epilogue (tensor/engine/engines.h).
#pragma once

#include "tensor/engine/engines.h"

namespace tessera::cuda {

GemmBias gemm_bias;

}  // namespace tessera::cuda
