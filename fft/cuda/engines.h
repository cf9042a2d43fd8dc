// Fourier transforms on CUDA devices: the functions of fft/engine with the same signatures, on device memory.
#pragma once

#include "fft/engine/fft.h"

namespace tessera::cuda {

decltype(cpu::run_fft) run_fft;

// Fills the table of DeviceType::kCUDA: one function for all kinds.
inline void connect(fft::FftEngines& engines) { engines.run_fft = engines.run_fft_to_real = &run_fft; }

}  // namespace tessera::cuda
