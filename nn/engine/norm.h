// Normalisation: which functions serve a device.
#pragma once

#include "nn/cpu/norm.h"
#include "tensor/engine/engine.h"

#define TESSERA_NN_NORM_ENGINES(F) \
  F(layer_norm_forward)            \
  F(layer_norm_backward)           \
  F(batch_norm_stats)              \
  F(batch_norm_apply)              \
  F(batch_norm_backward)           \
  F(group_norm_forward)            \
  F(group_norm_backward)

namespace tessera::nn {

struct NormEngines : EngineTable<NormEngines> {
  TESSERA_NN_NORM_ENGINES(TESSERA_ENGINE_MEMBER)
};

}  // namespace tessera::nn

namespace tessera::engine_entries {
#define TESSERA_ENTRY(name) inline constexpr auto name = &nn::NormEngines::name;
TESSERA_NN_NORM_ENGINES(TESSERA_ENTRY)
#undef TESSERA_ENTRY
}  // namespace tessera::engine_entries
