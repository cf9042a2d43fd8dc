// Reductions, scans, softmax: which functions serve a device.
#pragma once

#include "tensor/cpu/reduce/reduce.h"
#include "tensor/engine/engine.h"

#define TESSERA_REDUCE_ENGINES(F) \
  F(run_reduce)                   \
  F(run_var_mean)                 \
  F(run_arg_reduce)               \
  F(run_scan)                     \
  F(run_softmax)                  \
  F(run_softmax_backward)

namespace tessera {

struct ReduceEngines : EngineTable<ReduceEngines> {
  TESSERA_REDUCE_ENGINES(TESSERA_ENGINE_MEMBER)
};

}  // namespace tessera

namespace tessera::engine_entries {
#define TESSERA_ENTRY(name) inline constexpr auto name = &ReduceEngines::name;
TESSERA_REDUCE_ENGINES(TESSERA_ENTRY)
#undef TESSERA_ENTRY
}  // namespace tessera::engine_entries
