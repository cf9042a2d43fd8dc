// CUPTI's stand-in: the records of an emulated device's work, in the buffers that the caller brings.
//
// Environment: TESSERA_EMULATED_CUPTI=none: the library is missing; =refused: it lets nobody trace.
#pragma once

#include "tensor/cuda/libraries/cupti.h"
#include "tensor/cuda/libraries/libraries.h"

namespace tessera::cuda::emulation {

Library<cupti::Functions> cupti_library();

}  // namespace tessera::cuda::emulation
