#include "distributions/cuda/pointwise_engines.h"
#include "distributions/cuda/pointwise_kernels.h"

namespace tessera::cuda {

void add_distribution_pointwise_tables() {
  for (const PointwiseTable& table : {location_kernels(), positive_kernels(), discrete_kernels(), measure_kernels()})
    add_pointwise_table(table);
}

}  // namespace tessera::cuda
