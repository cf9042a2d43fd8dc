// Elementwise work, copies and fills: which functions serve a device.
#pragma once

#include "tensor/cpu/pointwise/pointwise.h"
#include "tensor/engine/engine.h"

#define TESSERA_POINTWISE_ENGINES(F) \
  F(run_pointwise)                   \
  F(copy_strided)                    \
  F(fill_strided)                    \
  F(check_integer_divisor)

namespace tessera {

struct PointwiseEngines : EngineTable<PointwiseEngines> {
  TESSERA_POINTWISE_ENGINES(TESSERA_ENGINE_MEMBER)
};

}  // namespace tessera

namespace tessera::engine_entries {
#define TESSERA_ENTRY(name) inline constexpr auto name = &PointwiseEngines::name;
TESSERA_POINTWISE_ENGINES(TESSERA_ENTRY)
#undef TESSERA_ENTRY
}  // namespace tessera::engine_entries
