#include "nn/cuda/engines.h"

#include "nn/cuda/pointwise_tables.h"

namespace tessera::cuda {

void connect(nn::Engines& engines) {
#define TESSERA_ENGINE(name) engines.name = &cuda::name;
#include "nn/engine/engines.inc"
#undef TESSERA_ENGINE
  for (const PointwiseTable& table : {activation_kernels(), activation_backward_kernels(), loss_kernels()})
    add_pointwise_table(table);
}

}  // namespace tessera::cuda
