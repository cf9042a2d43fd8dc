// Kernels of Bessel and Airy functions.
#include "special/cpu/ops.h"
#include "tensor/cpu/pointwise/pointwise_table.h"
#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "special/cpu/ops_bessel.cc"
#include "hwy/foreach_target.h"
#include "special/cpu/bessel-inl.h"
#include "special/cpu/kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
struct I0e;
struct I1e;
namespace special {
template <>
inline constexpr bool kInFloat<I0e> = true;
template <>
inline constexpr bool kInFloat<I1e> = true;
}  // namespace special
TESSERA_BESSEL_OPS(TESSERA_SPECIAL_KERNELS)
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
TESSERA_SPECIAL_CONSTANTS(TESSERA_BESSEL_OPS)
#endif
