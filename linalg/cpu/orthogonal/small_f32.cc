// Q R of small matrices of floats, and of complex numbers of them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "linalg/cpu/orthogonal/small_f32.cc"
#include "hwy/foreach_target.h"
#define TESSERA_REAL float
#include "linalg/cpu/orthogonal/small-body.h"
