// Gradients of embeddings: which functions serve a device.
#pragma once

#include "nn/cpu/embedding.h"
#include "tensor/engine/engine.h"

#define TESSERA_NN_EMBEDDING_ENGINES(F) F(embedding_backward)

namespace tessera::nn {

// Bags whose beginnings lie on the device: see cpu::embedding_bag_forward. offsets: bags of them, or one more with the
// last bag's end (without it the end is n). What is wrong with offsets and indices is raised where the device is next
// waited for. bag_of (n): the bag of each index, -1 for those in none.
struct BagCall {
  DType dtype;
  cpu::BagMode mode;
  int64_t bags, n, dim, rows, padding;
  bool has_end;
  const int64_t *index, *offsets;
  const void *table, *scale;
  void* out;
  int64_t *bag_of, *sizes, *places;  // places: bags x dim for kMax, else one zero for each bag
};

struct EmbeddingEngines : EngineTable<EmbeddingEngines> {
  TESSERA_NN_EMBEDDING_ENGINES(TESSERA_ENGINE_MEMBER)
  void (*embedding_bag)(const BagCall& call) = nullptr;  // may be null
};

}  // namespace tessera::nn

namespace tessera::engine_entries {
#define TESSERA_ENTRY(name) inline constexpr auto name = &nn::EmbeddingEngines::name;
TESSERA_NN_EMBEDDING_ENGINES(TESSERA_ENTRY)
#undef TESSERA_ENTRY
}  // namespace tessera::engine_entries
