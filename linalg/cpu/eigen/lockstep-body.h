// The kernels of lockstep.h for TESSERA_REAL: all of a file that is compiled once per SIMD target, after
// foreach_target.h.
#include "hwy/highway.h"
#include "linalg/cpu/eigen/lockstep-inl.h"
#include "linalg/cpu/simd_choice.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {

template <class R>
uint32_t Eig(R* a, int64_t n, R* w, R* v, R* room) {
  return LockstepEig<R>(a, n, w, v, room).run();
}
template <class R>
constexpr LockstepEigKernels<R> kLockstepEig = {.lanes = Lockstep<R>::Lanes, .eig = Eig<R>};

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu::internal {

template <>
const LockstepEigKernels<TESSERA_REAL>& lockstep_eig() {
  return *TESSERA_SIMD_CHOICE(kLockstepEig<TESSERA_REAL>);
}

}  // namespace tessera::cpu::internal
#endif
