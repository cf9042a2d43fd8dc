#include "fft/cpu/fft.h"

#include "fft/cpu/types.h"
#include "tensor/core/error.h"

namespace tessera::cpu {

void run_fft(const FftLines& lines, const void* in, void* out) {
  TESSERA_CHECK(lines.n >= 1, "fft: expected a signal of at least one number, but got ", lines.n);
  switch (lines.real) {
    case DType::kFloat32:
      return internal::fft_f32(lines, in, out);
    case DType::kFloat64:
      return internal::fft_f64(lines, in, out);
    default:
      ::tessera::internal::raise<NotImplementedError>(
          "fft: expected float32, float64 or complex numbers of them, but got ", name_of(lines.real));
  }
}

}  // namespace tessera::cpu
