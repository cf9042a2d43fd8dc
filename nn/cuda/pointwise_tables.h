// The kernels of this library's elementwise ops: a table per file.
#pragma once

#include "tensor/cuda/pointwise/pointwise.h"

namespace tessera::cuda {

PointwiseTable activation_kernels();
PointwiseTable activation_backward_kernels();
PointwiseTable loss_kernels();

}  // namespace tessera::cuda
