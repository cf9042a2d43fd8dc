// fft::rfft and all others.
//
//   const Tensor spectrum = fft::rfft(wave);
//   const Tensor power = spectrum.abs().pow(2);
//   const Tensor again = fft::irfft(spectrum, wave.size(0));
#pragma once

#include "fft/fft.h"
