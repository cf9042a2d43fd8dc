// Ranges, windows, counts and orders: which functions serve a device.
#pragma once

#include "tensor/cpu/functions/create.h"
#include "tensor/cpu/functions/special.h"
#include "tensor/cpu/functions/statistics.h"
#include "tensor/engine/engine.h"

#define TESSERA_FUNCTION_ENGINES(F) \
  F(run_sequence)                   \
  F(run_triangle_indices)           \
  F(run_frexp)                      \
  F(run_gamma_gradient)             \
  F(run_histogram)                  \
  F(run_sort_rows)

namespace tessera {

struct FunctionEngines : EngineTable<FunctionEngines> {
  TESSERA_FUNCTION_ENGINES(TESSERA_ENGINE_MEMBER)
};

}  // namespace tessera

namespace tessera::engine_entries {
#define TESSERA_ENTRY(name) inline constexpr auto name = &FunctionEngines::name;
TESSERA_FUNCTION_ENGINES(TESSERA_ENTRY)
#undef TESSERA_ENTRY
}  // namespace tessera::engine_entries
