// Attention: which functions serve a device.
#pragma once

#include "nn/cpu/attention/attention.h"
#include "tensor/engine/engine.h"

#define TESSERA_NN_ATTENTION_ENGINES(F) \
  F(attention_forward)                  \
  F(attention_backward)

namespace tessera::nn {

struct AttentionEngines : EngineTable<AttentionEngines> {
  TESSERA_NN_ATTENTION_ENGINES(TESSERA_ENGINE_MEMBER)
};

}  // namespace tessera::nn

namespace tessera::engine_entries {
#define TESSERA_ENTRY(name) inline constexpr auto name = &nn::AttentionEngines::name;
TESSERA_NN_ATTENTION_ENGINES(TESSERA_ENTRY)
#undef TESSERA_ENTRY
}  // namespace tessera::engine_entries
