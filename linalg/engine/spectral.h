// Eigenvalues of Hermitian matrices and singular values: which functions serve a device.
#pragma once

#include "linalg/cpu/spectral/spectral.h"
#include "tensor/engine/engine.h"

namespace tessera::linalg {

struct SpectralEngines : EngineTable<SpectralEngines> {
  decltype(&cpu::run_eigh) run_eigh = nullptr;
  decltype(&cpu::run_svd) run_svd = nullptr;
};

}  // namespace tessera::linalg

namespace tessera::engine_entries {
inline constexpr auto run_eigh = &linalg::SpectralEngines::run_eigh;
inline constexpr auto run_svd = &linalg::SpectralEngines::run_svd;
}  // namespace tessera::engine_entries
