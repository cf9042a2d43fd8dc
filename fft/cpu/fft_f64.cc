// Transforms of numbers whose parts are doubles.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fft/cpu/fft_f64.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "fft/cpu/lines-inl.h"
#include "fft/cpu/types.h"
#include "tensor/cpu/support/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {

void FftF64(const FftLines& lines, const void* in, void* out) {
  const Transform<double> transform(lines, in, out);
  lines.kind == FftKind::kComplex ? transform.complex() : transform.template real<false>();
}
void FftF64ToReal(const FftLines& lines, const void* in, void* out) {
  Transform<double>(lines, in, out).template real<true>();
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu::internal {
TESSERA_SIMD_TABLE(FftF64);
TESSERA_SIMD_TABLE(FftF64ToReal);
void fft_f64(const FftLines& lines, const void* in, void* out) { TESSERA_SIMD(FftF64)(lines, in, out); }
void fft_f64_to_real(const FftLines& lines, const void* in, void* out) { TESSERA_SIMD(FftF64ToReal)(lines, in, out); }
}  // namespace tessera::cpu::internal
#endif
