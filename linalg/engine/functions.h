// Functions of matrices: which engines serve a device.
#pragma once

#include "linalg/cpu/matrix_exp.h"
#include "tensor/engine/engine.h"

namespace tessera::linalg {

struct FunctionEngines : EngineTable<FunctionEngines> {
  TESSERA_ENGINE_MEMBER(run_matrix_exp)
};

}  // namespace tessera::linalg

namespace tessera::engine_entries {
inline constexpr auto run_matrix_exp = &linalg::FunctionEngines::run_matrix_exp;
}  // namespace tessera::engine_entries
