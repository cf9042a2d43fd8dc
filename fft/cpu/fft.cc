#include "fft/cpu/fft.h"

#include "fft/cpu/types.h"

namespace tessera::cpu {

void run_fft(const FftLines& lines, const void* in, void* out) {
  check_fft_lines(lines);
  TESSERA_CHECK(lines.kind != FftKind::kHalfToReal, "fft: run_fft_to_real makes real signals");
  (lines.real == DType::kFloat32 ? internal::fft_f32 : internal::fft_f64)(lines, in, out);
}
void run_fft_to_real(const FftLines& lines, const void* in, void* out) {
  check_fft_lines(lines);
  TESSERA_CHECK(lines.kind == FftKind::kHalfToReal, "fft: run_fft_to_real makes real signals alone");
  (lines.real == DType::kFloat32 ? internal::fft_f32_to_real : internal::fft_f64_to_real)(lines, in, out);
}

}  // namespace tessera::cpu
