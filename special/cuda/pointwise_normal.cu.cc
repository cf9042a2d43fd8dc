#include "special/cpu/normal-inl.h"
#include "special/cuda/pointwise_kernels.h"

TESSERA_SPECIAL_TABLE(normal_kernels, TESSERA_NORMAL_OPS)
