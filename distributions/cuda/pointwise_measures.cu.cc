#include "distributions/cpu/measures-inl.h"
#include "distributions/cuda/pointwise_kernels.h"

TESSERA_DISTRIBUTION_TABLE(measure_kernels, TESSERA_MEASURE_OPS)
