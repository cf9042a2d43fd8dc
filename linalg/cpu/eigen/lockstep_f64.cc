// Small matrices of doubles.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "linalg/cpu/eigen/lockstep_f64.cc"
#include "hwy/foreach_target.h"
#define TESSERA_REAL double
#include "linalg/cpu/eigen/lockstep-body.h"
