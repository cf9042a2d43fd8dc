// Elementwise work, copies and fills on CUDA devices: for each function of tensor/engine/pointwise.h one with the
// same signature, on device memory.
#pragma once

#include "tensor/engine/pointwise.h"

namespace tessera::cuda {

TESSERA_POINTWISE_ENGINES(TESSERA_ENGINE_DECLARATION)

JoinRows join_rows;
CheckElements check_elements;

// Fills the table of DeviceType::kCUDA.
inline void connect(PointwiseEngines& engines) {
  TESSERA_POINTWISE_ENGINES(TESSERA_ENGINE_CONNECTION)
  engines.join_rows = &join_rows;
  engines.check_elements = &check_elements;
}

}  // namespace tessera::cuda
