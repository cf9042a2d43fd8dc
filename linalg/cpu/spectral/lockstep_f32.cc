#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "linalg/cpu/spectral/lockstep_f32.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "linalg/cpu/spectral/lockstep-inl.h"
#include "tensor/cpu/support/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {

int64_t LanesF32() { return Lockstep<float>::Lanes(); }
uint32_t EighF32(float* a, int64_t n, float* d, float* v, float* room) {
  return LockstepEigh<float>(a, n, d, v, room).run();
}
uint32_t SvdF32(float* a, int64_t m, int64_t n, float* d, float* u, int64_t u_rows, float* v, float* room) {
  return LockstepSvd<float>(a, m, n, d, u, u_rows, v, room).run();
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu::internal {

TESSERA_SIMD_TABLE(LanesF32);
TESSERA_SIMD_TABLE(EighF32);
TESSERA_SIMD_TABLE(SvdF32);

int64_t lockstep_lanes(float) { return TESSERA_SIMD(LanesF32)(); }
uint32_t lockstep_eigh(float* a, int64_t n, float* d, float* v, float* room) {
  return TESSERA_SIMD(EighF32)(a, n, d, v, room);
}
uint32_t lockstep_svd(float* a, int64_t m, int64_t n, float* d, float* u, int64_t u_rows, float* v, float* room) {
  return TESSERA_SIMD(SvdF32)(a, m, n, d, u, u_rows, v, room);
}

}  // namespace tessera::cpu::internal
#endif
