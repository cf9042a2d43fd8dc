// Fourier transforms: which functions serve a device.
#pragma once

#include "fft/cpu/fft.h"
#include "tensor/engine/engine.h"

namespace tessera::fft {

struct FftEngines : EngineTable<FftEngines> {
  decltype(&cpu::run_fft) run_fft = nullptr;
};

}  // namespace tessera::fft

namespace tessera::engine_entries {
inline constexpr auto run_fft = &fft::FftEngines::run_fft;
}  // namespace tessera::engine_entries
