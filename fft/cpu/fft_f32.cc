// Transforms of numbers whose parts are floats.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fft/cpu/fft_f32.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "fft/cpu/lines-inl.h"
#include "fft/cpu/types.h"
#include "tensor/cpu/support/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {

void FftF32(const FftLines& lines, const void* in, void* out) {
  const Transform<float> transform(lines, in, out);
  lines.kind == FftKind::kComplex ? transform.complex() : transform.template real<false>();
}
void FftF32ToReal(const FftLines& lines, const void* in, void* out) {
  Transform<float>(lines, in, out).template real<true>();
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu::internal {
TESSERA_SIMD_TABLE(FftF32);
TESSERA_SIMD_TABLE(FftF32ToReal);
void fft_f32(const FftLines& lines, const void* in, void* out) { TESSERA_SIMD(FftF32)(lines, in, out); }
void fft_f32_to_real(const FftLines& lines, const void* in, void* out) { TESSERA_SIMD(FftF32ToReal)(lines, in, out); }
}  // namespace tessera::cpu::internal
#endif
