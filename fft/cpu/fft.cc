#include "fft/cpu/fft.h"

#include "fft/cpu/types.h"

namespace tessera::cpu {

void run_fft(const FftLines& lines, const void* in, void* out) {
  check_fft_lines(lines);
  if (lines.real == DType::kFloat32)
    internal::fft_f32(lines, in, out);
  else
    internal::fft_f64(lines, in, out);
}

}  // namespace tessera::cpu
