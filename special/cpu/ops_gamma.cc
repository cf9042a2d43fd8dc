// Kernels of the zeta function and the incomplete gamma functions.
#include "special/cpu/ops.h"
#include "tensor/cpu/pointwise/pointwise_table.h"
#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "special/cpu/ops_gamma.cc"
#include "hwy/foreach_target.h"
#include "special/cpu/gamma-inl.h"
#include "special/cpu/kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
TESSERA_GAMMA_OPS(TESSERA_SPECIAL_KERNELS)
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
TESSERA_SPECIAL_CONSTANTS(TESSERA_GAMMA_OPS)
#endif
