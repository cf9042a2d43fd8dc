#include "special/cpu/polynomial-inl.h"
#include "special/cuda/pointwise_kernels.h"

TESSERA_SPECIAL_TABLE(polynomial_kernels, TESSERA_POLYNOMIAL_OPS)
