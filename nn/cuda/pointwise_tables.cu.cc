#include "nn/cuda/pointwise_tables.h"

#include "nn/cuda/pointwise_engines.h"

namespace tessera::cuda {

void add_nn_pointwise_tables() {
  for (const PointwiseTable& table : {activation_kernels(), activation_backward_kernels(), loss_kernels()})
    add_pointwise_table(table);
}

}  // namespace tessera::cuda
