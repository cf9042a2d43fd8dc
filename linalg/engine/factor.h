// Factorizations and what solves by them: which functions serve a device.
#pragma once

#include "linalg/cpu/factor/factor.h"
#include "tensor/engine/engine.h"

namespace tessera::linalg {

#define TESSERA_FACTOR_ENGINES(F) \
  F(run_lu_factor)                \
  F(run_lu_solve)                 \
  F(run_solve)                    \
  F(run_determinant)              \
  F(run_unpack_pivots) F(run_inverse) F(run_cholesky) F(run_triangular_solve) F(run_ldl_factor) F(run_ldl_solve)

struct FactorEngines : EngineTable<FactorEngines> {
  TESSERA_FACTOR_ENGINES(TESSERA_ENGINE_MEMBER)
};

}  // namespace tessera::linalg

namespace tessera::engine_entries {
#define TESSERA_FACTOR_ENTRY(name) inline constexpr auto name = &linalg::FactorEngines::name;
TESSERA_FACTOR_ENGINES(TESSERA_FACTOR_ENTRY)
#undef TESSERA_FACTOR_ENTRY
}  // namespace tessera::engine_entries
