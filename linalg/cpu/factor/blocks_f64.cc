// Kernels for blocks and groups of matrices of doubles, and of complex numbers of them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "linalg/cpu/factor/blocks_f64.cc"
#include "hwy/foreach_target.h"
#define TESSERA_REAL double
#include "linalg/cpu/factor/blocks-body.h"
