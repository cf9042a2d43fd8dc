#include "distributions/cpu/location-inl.h"
#include "distributions/cuda/pointwise_kernels.h"

TESSERA_DISTRIBUTION_TABLE(location_kernels, TESSERA_LOCATION_OPS)
