// Sorting, selection, search on CUDA devices: for each function of tensor/engine/sort.h one with the same signature,
// on device memory.
#pragma once

#include "tensor/engine/sort.h"

namespace tessera::cuda {

TESSERA_SORT_ENGINES(TESSERA_ENGINE_DECLARATION)

// Fills the table of DeviceType::kCUDA.
inline void connect(SortEngines& engines) { TESSERA_SORT_ENGINES(TESSERA_ENGINE_CONNECTION) }

}  // namespace tessera::cuda
