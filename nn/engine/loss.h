// The negative log likelihood: which functions serve a device.
#pragma once

#include "nn/cpu/loss.h"
#include "tensor/engine/engine.h"

#define TESSERA_NN_LOSS_ENGINES(F) \
  F(nll_loss_forward)              \
  F(nll_loss_backward)

namespace tessera::nn {

struct LossEngines : EngineTable<LossEngines> {
  TESSERA_NN_LOSS_ENGINES(TESSERA_ENGINE_MEMBER)
};

}  // namespace tessera::nn

namespace tessera::engine_entries {
#define TESSERA_ENTRY(name) inline constexpr auto name = &nn::LossEngines::name;
TESSERA_NN_LOSS_ENGINES(TESSERA_ENTRY)
#undef TESSERA_ENTRY
}  // namespace tessera::engine_entries
