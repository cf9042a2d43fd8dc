#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "linalg/cpu/spectral/lockstep_f64.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "linalg/cpu/spectral/lockstep-inl.h"
#include "tensor/cpu/support/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {

int64_t LanesF64() { return Lockstep<double>::Lanes(); }
uint32_t EighF64(double* a, int64_t n, double* d, double* v, double* room) {
  return LockstepEigh<double>(a, n, d, v, room).run();
}
uint32_t SvdF64(double* a, int64_t m, int64_t n, double* d, double* u, int64_t u_rows, double* v, double* room) {
  return LockstepSvd<double>(a, m, n, d, u, u_rows, v, room).run();
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu::internal {

TESSERA_SIMD_TABLE(LanesF64);
TESSERA_SIMD_TABLE(EighF64);
TESSERA_SIMD_TABLE(SvdF64);

int64_t lockstep_lanes(double) { return TESSERA_SIMD(LanesF64)(); }
uint32_t lockstep_eigh(double* a, int64_t n, double* d, double* v, double* room) {
  return TESSERA_SIMD(EighF64)(a, n, d, v, room);
}
uint32_t lockstep_svd(double* a, int64_t m, int64_t n, double* d, double* u, int64_t u_rows, double* v, double* room) {
  return TESSERA_SIMD(SvdF64)(a, m, n, d, u, u_rows, v, room);
}

}  // namespace tessera::cpu::internal
#endif
