#include "distributions/cpu/positive-inl.h"
#include "distributions/cuda/pointwise_kernels.h"

TESSERA_DISTRIBUTION_TABLE(positive_kernels, TESSERA_POSITIVE_OPS)
