// Eigenvalues of Hermitian matrices and singular values: which functions serve a device.
#pragma once

#include "linalg/cpu/spectral/spectral.h"
#include "tensor/engine/engine.h"

namespace tessera::linalg {

// The methods of linalg.svd's argument `driver`, which devices have alone.
enum class SvdDriver : uint8_t { kAny, kGesvd, kGesvdj, kGesvda };
// run_svd by one of them.
using SvdBy = void(SvdDriver driver, DType dtype, const cpu::MatrixBatch& a, const cpu::MatrixBatch* u, void* values,
                   const cpu::MatrixBatch* vh, int32_t* info);

struct SpectralEngines : EngineTable<SpectralEngines> {
  decltype(&cpu::run_eigh) run_eigh = nullptr;
  decltype(&cpu::run_svd) run_svd = nullptr;
  SvdBy* run_svd_by = nullptr;
};

}  // namespace tessera::linalg

namespace tessera::engine_entries {
inline constexpr auto run_eigh = &linalg::SpectralEngines::run_eigh;
inline constexpr auto run_svd = &linalg::SpectralEngines::run_svd;
}  // namespace tessera::engine_entries
