// Small matrices of floats.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "linalg/cpu/eigen/lockstep_f32.cc"
#include "hwy/foreach_target.h"
#define TESSERA_REAL float
#include "linalg/cpu/eigen/lockstep-body.h"
