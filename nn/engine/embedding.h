// Gradients of embeddings: which functions serve a device.
#pragma once

#include "nn/cpu/embedding.h"
#include "tensor/engine/engine.h"

#define TESSERA_NN_EMBEDDING_ENGINES(F) F(embedding_backward)

namespace tessera::nn {

struct EmbeddingEngines : EngineTable<EmbeddingEngines> {
  TESSERA_NN_EMBEDDING_ENGINES(TESSERA_ENGINE_MEMBER)
};

}  // namespace tessera::nn

namespace tessera::engine_entries {
#define TESSERA_ENTRY(name) inline constexpr auto name = &nn::EmbeddingEngines::name;
TESSERA_NN_EMBEDDING_ENGINES(TESSERA_ENTRY)
#undef TESSERA_ENTRY
}  // namespace tessera::engine_entries
