// Products with an epilogue (tensor/engine/steps.h).
#pragma once

#include "tensor/engine/steps.h"

namespace tessera::cuda {

GemmBias gemm_bias;

}  // namespace tessera::cuda
