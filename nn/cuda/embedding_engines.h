// Gradients of embeddings on CUDA devices: for each function of nn/engine/embedding.h one with the same signature,
// on device memory.
#pragma once

#include "nn/engine/embedding.h"

namespace tessera::cuda {

TESSERA_NN_EMBEDDING_ENGINES(TESSERA_ENGINE_DECLARATION)

void embedding_bag(const nn::BagCall& call);

// Fills the table of DeviceType::kCUDA.
inline void connect(nn::EmbeddingEngines& engines) {
  TESSERA_NN_EMBEDDING_ENGINES(TESSERA_ENGINE_CONNECTION)
  engines.embedding_bag = &embedding_bag;
}

}  // namespace tessera::cuda
