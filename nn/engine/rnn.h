// Recurrent layers: which functions serve a device.
#pragma once

#include "nn/cpu/rnn.h"
#include "tensor/engine/engine.h"

#define TESSERA_NN_RNN_ENGINES(F) \
  F(rnn_forward)                  \
  F(rnn_backward)

namespace tessera::nn {

struct RnnEngines : EngineTable<RnnEngines> {
  TESSERA_NN_RNN_ENGINES(TESSERA_ENGINE_MEMBER)
};

}  // namespace tessera::nn

namespace tessera::engine_entries {
#define TESSERA_ENTRY(name) inline constexpr auto name = &nn::RnnEngines::name;
TESSERA_NN_RNN_ENGINES(TESSERA_ENTRY)
#undef TESSERA_ENTRY
}  // namespace tessera::engine_entries
