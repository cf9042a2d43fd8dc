// Pooling: which functions serve a device.
#pragma once

#include "nn/cpu/pool.h"
#include "tensor/engine/engine.h"

#define TESSERA_NN_POOL_ENGINES(F) \
  F(max_pool_forward)              \
  F(max_pool_backward)             \
  F(avg_pool_forward)              \
  F(avg_pool_backward)             \
  F(adaptive_avg_pool_forward)     \
  F(adaptive_avg_pool_backward)    \
  F(adaptive_max_pool_forward)

namespace tessera::nn {

struct PoolEngines : EngineTable<PoolEngines> {
  TESSERA_NN_POOL_ENGINES(TESSERA_ENGINE_MEMBER)
};

}  // namespace tessera::nn

namespace tessera::engine_entries {
#define TESSERA_ENTRY(name) inline constexpr auto name = &nn::PoolEngines::name;
TESSERA_NN_POOL_ENGINES(TESSERA_ENTRY)
#undef TESSERA_ENTRY
}  // namespace tessera::engine_entries
