#include "special/cpu/gamma-inl.h"
#include "special/cuda/pointwise_kernels.h"

TESSERA_SPECIAL_TABLE(gamma_kernels, TESSERA_GAMMA_OPS)
