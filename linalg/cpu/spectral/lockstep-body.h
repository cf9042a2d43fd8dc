// The kernels of lockstep.h for TESSERA_REAL: all of a file that is compiled once per SIMD target, after
// foreach_target.h.
#include "hwy/highway.h"
#include "linalg/cpu/spectral/lockstep-inl.h"
#include "linalg/cpu/simd_choice.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {

template <class R>
uint32_t Eigh(R* a, int64_t n, R* d, R* v, R* room) {
  return LockstepEigh<R>(a, n, d, v, room).run();
}
template <class R>
uint32_t Svd(R* a, int64_t m, int64_t n, R* d, R* u, int64_t u_rows, R* v, R* room) {
  return LockstepSvd<R>(a, m, n, d, u, u_rows, v, room).run();
}
template <class R>
constexpr LockstepKernels<R> kLockstep = {.lanes = Lockstep<R>::Lanes, .eigh = Eigh<R>, .svd = Svd<R>};

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu::internal {

template <>
const LockstepKernels<TESSERA_REAL>& lockstep() {
  return *TESSERA_SIMD_CHOICE(kLockstep<TESSERA_REAL>);
}

}  // namespace tessera::cpu::internal
#endif
