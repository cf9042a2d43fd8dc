// Kernels for blocks and groups of matrices of floats, and of complex numbers of them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "linalg/cpu/factor/blocks_f32.cc"
#include "hwy/foreach_target.h"
#define TESSERA_REAL float
#include "linalg/cpu/factor/blocks-body.h"
