// The transforms by the type of the numbers' parts, each in a file of its own.
#pragma once

#include "fft/cpu/fft.h"

namespace tessera::cpu::internal {

void fft_f32(const FftLines& lines, const void* in, void* out);
void fft_f64(const FftLines& lines, const void* in, void* out);
void fft_f32_to_real(const FftLines& lines, const void* in, void* out);
void fft_f64_to_real(const FftLines& lines, const void* in, void* out);

}  // namespace tessera::cpu::internal
