// Eigenvalues of general matrices: which functions serve a device.
#pragma once

#include "linalg/cpu/eigen/eig.h"
#include "tensor/engine/engine.h"

namespace tessera::linalg {

struct EigenEngines : EngineTable<EigenEngines> {
  decltype(&cpu::run_eig) run_eig = nullptr;
};

}  // namespace tessera::linalg

namespace tessera::engine_entries {
inline constexpr auto run_eig = &linalg::EigenEngines::run_eig;
}  // namespace tessera::engine_entries
