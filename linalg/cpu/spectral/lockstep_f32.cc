// Small matrices of floats.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "linalg/cpu/spectral/lockstep_f32.cc"
#include "hwy/foreach_target.h"
#define TESSERA_REAL float
#include "linalg/cpu/spectral/lockstep-body.h"
