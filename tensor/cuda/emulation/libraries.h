// The functions of NVIDIA's libraries on the emulated device: plain loops with the documented meaning.
#pragma once

#include "tensor/cuda/libraries/blas.h"
#include "tensor/cuda/libraries/blas_lt.h"
#include "tensor/cuda/libraries/dnn.h"

namespace tessera::cuda::emulation {

Blas blas_functions();
BlasLt blas_lt_functions();
Dnn dnn_functions();

}  // namespace tessera::cuda::emulation
