#include "special/cuda/pointwise_engines.h"
#include "special/cuda/pointwise_kernels.h"

namespace tessera::cuda {

void add_special_pointwise_tables() {
  for (const PointwiseTable& table : {bessel_kernels(), gamma_kernels(), normal_kernels(), polynomial_kernels()})
    add_pointwise_table(table);
}

}  // namespace tessera::cuda
