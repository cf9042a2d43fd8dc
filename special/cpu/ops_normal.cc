// Kernels of the normal distribution and the scaled error function.
#include "special/cpu/ops.h"
#include "tensor/cpu/pointwise/pointwise_table.h"
#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "special/cpu/ops_normal.cc"
#include "hwy/foreach_target.h"
#include "special/cpu/normal-inl.h"
#include "special/cpu/kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
struct Ndtr;
namespace special {
template <>
inline constexpr bool kInFloat<Ndtr> = true;
}  // namespace special
TESSERA_PLAIN_NORMAL_OPS(TESSERA_SPECIAL_KERNELS)

struct Ndtri {
  static constexpr bool kStaged = true;
  template <class D, class V>
  static HWY_INLINE V First(D d, const KernelParam*, V p) {
    return special::QuantileLog(d, p);
  }
  template <class D, class V>
  static HWY_INLINE V Second(D d, const KernelParam*, V log, V p) {
    return special::QuantileByLog(d, log, p);
  }
};
TESSERA_DEFINE_LONG_KERNELS(Ndtri, 1, 0)
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
TESSERA_SPECIAL_CONSTANTS(TESSERA_NORMAL_OPS)
#endif
