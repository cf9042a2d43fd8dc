// Kernels of discrete-inl.h.
#include "distributions/cpu/ops.h"
#include "tensor/cpu/pointwise/pointwise_table.h"
#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "distributions/cpu/ops_discrete.cc"
#include "hwy/foreach_target.h"
#include "distributions/cpu/discrete-inl.h"
#include "distributions/cpu/kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
TESSERA_DISCRETE_OPS(TESSERA_DISTRIBUTION_KERNELS)
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
TESSERA_DISTRIBUTION_CONSTANTS(TESSERA_DISCRETE_OPS)
#endif
