#include "special/cpu/bessel-inl.h"
#include "special/cuda/pointwise_kernels.h"

TESSERA_SPECIAL_TABLE(bessel_kernels, TESSERA_BESSEL_OPS)
