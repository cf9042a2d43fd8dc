// Special functions on CUDA devices.
#pragma once

namespace tessera::cuda {

// Gives the elementwise engine the kernels of this library's ops.
void add_special_pointwise_tables();

}  // namespace tessera::cuda
