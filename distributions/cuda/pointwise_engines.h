// The distributions on CUDA devices.
#pragma once

namespace tessera::cuda {

// Gives the elementwise engine the kernels of this library's ops.
void add_distribution_pointwise_tables();

}  // namespace tessera::cuda
