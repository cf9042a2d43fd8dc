// The engines of Fourier transforms: which functions serve a device.
#pragma once

#include "fft/cpu/fft.h"
#include "tensor/engine/engine.h"

namespace tessera::fft {

// A device library's engines. A null entry: the operators that need it raise NotImplementedError.
struct Engines : EngineTable<Engines> {
  decltype(&cpu::run_fft) run_fft = nullptr;
};

}  // namespace tessera::fft

namespace tessera::engine_entries {
inline constexpr auto run_fft = &fft::Engines::run_fft;
}  // namespace tessera::engine_entries
