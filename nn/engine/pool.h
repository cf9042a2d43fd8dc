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

// max_pool_backward for indices that max_pool_forward gave for this geometry. False: not for such windows, nothing was
// done.
using MaxPoolWindowsBackward = bool(DType dtype, const cpu::PoolGeometry& g, const void* dy, const int64_t* indices,
                                    void* dx);

struct PoolEngines : EngineTable<PoolEngines> {
  TESSERA_NN_POOL_ENGINES(TESSERA_ENGINE_MEMBER)
  MaxPoolWindowsBackward* max_pool_backward_windows = nullptr;  // may be null
};

}  // namespace tessera::nn

namespace tessera::engine_entries {
#define TESSERA_ENTRY(name) inline constexpr auto name = &nn::PoolEngines::name;
TESSERA_NN_POOL_ENGINES(TESSERA_ENTRY)
#undef TESSERA_ENTRY
}  // namespace tessera::engine_entries
