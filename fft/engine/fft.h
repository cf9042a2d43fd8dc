// Fourier transforms: which functions serve a device.
#pragma once

#include "fft/cpu/fft.h"
#include "tensor/engine/engine.h"

namespace tessera::fft {

struct FftEngines : EngineTable<FftEngines> {
  decltype(&cpu::run_fft) run_fft = nullptr, run_fft_to_real = nullptr;
};

}  // namespace tessera::fft

namespace tessera::engine_entries {
inline constexpr auto run_fft = &fft::FftEngines::run_fft, run_fft_to_real = &fft::FftEngines::run_fft_to_real;
}  // namespace tessera::engine_entries
