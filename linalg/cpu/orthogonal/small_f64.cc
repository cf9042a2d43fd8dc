// Q R of small matrices of doubles, and of complex numbers of them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "linalg/cpu/orthogonal/small_f64.cc"
#include "hwy/foreach_target.h"
#define TESSERA_REAL double
#include "linalg/cpu/orthogonal/small-body.h"
