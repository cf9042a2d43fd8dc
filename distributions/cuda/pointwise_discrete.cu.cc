#include "distributions/cpu/discrete-inl.h"
#include "distributions/cuda/pointwise_kernels.h"

TESSERA_DISTRIBUTION_TABLE(discrete_kernels, TESSERA_DISCRETE_OPS)
