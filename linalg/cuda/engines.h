// Linear algebra on CUDA devices: for each function of linalg/engine one with the same signature, on device memory,
// through cuSOLVER and cuBLAS. What differs from the CPU's: of a matrix with info != 0 nothing else may be used; where
// run_eigh, run_svd and run_eig are given an element that is not finite, they write results, too. Only those that say
// so wait for the device.
#pragma once

#include "linalg/engine/eigen.h"
#include "linalg/engine/factor.h"
#include "linalg/engine/functions.h"
#include "linalg/engine/orthogonal.h"
#include "linalg/engine/spectral.h"

namespace tessera::cuda {

// pivots may be null: no rows are exchanged.
TESSERA_FACTOR_ENGINES(TESSERA_ENGINE_DECLARATION)
// run_least_squares knows kFullRank alone, which tells no rank.
TESSERA_ORTHOGONAL_ENGINES(TESSERA_ENGINE_DECLARATION)
// Waits for the largest norm.
decltype(cpu::run_matrix_exp) run_matrix_exp;
decltype(cpu::run_eigh) run_eigh;
// Waits, except with a driver of its own: where Jacobi's method fails, the method of Q R takes over.
decltype(cpu::run_svd) run_svd;
linalg::SvdBy run_svd_by;
// Where cuSOLVER has no function for it (before version 11.7.1), the CPU's works on copies, and the host waits.
decltype(cpu::run_eig) run_eig;

// The CPU's functions, for what the libraries lack: general eigenvalues in older versions, and complex Hermitian
// matrices for run_ldl_factor and run_ldl_solve.
struct HostEngines {
  decltype(&cpu::run_eig) run_eig = nullptr;
  decltype(&cpu::run_ldl_factor) run_ldl_factor = nullptr;
  decltype(&cpu::run_ldl_solve) run_ldl_solve = nullptr;
};
void set_host_engines(const HostEngines& engines);

// Fill the tables of DeviceType::kCUDA.
inline void connect(linalg::FactorEngines& engines) { TESSERA_FACTOR_ENGINES(TESSERA_ENGINE_CONNECTION) }
inline void connect(linalg::OrthogonalEngines& engines) { TESSERA_ORTHOGONAL_ENGINES(TESSERA_ENGINE_CONNECTION) }
inline void connect(linalg::FunctionEngines& engines) { TESSERA_ENGINE_CONNECTION(run_matrix_exp) }
inline void connect(linalg::SpectralEngines& engines) {
  TESSERA_ENGINE_CONNECTION(run_eigh)
  TESSERA_ENGINE_CONNECTION(run_svd)
  TESSERA_ENGINE_CONNECTION(run_svd_by)
}
inline void connect(linalg::EigenEngines& engines) { TESSERA_ENGINE_CONNECTION(run_eig) }

}  // namespace tessera::cuda
