// Indices and masks: which functions serve a device.
#pragma once

#include "tensor/cpu/index/index.h"
#include "tensor/engine/engine.h"

#define TESSERA_INDEX_ENGINES(F) \
  F(run_gather)                  \
  F(run_scatter)                 \
  F(run_index_get)               \
  F(run_index_put)               \
  F(run_index_select)            \
  F(run_index_add)               \
  F(run_count_nonzero)           \
  F(run_nonzero)                 \
  F(run_masked_select)           \
  F(run_masked_scatter)          \
  F(run_tril_triu)               \
  F(run_flip)

namespace tessera {

struct IndexEngines : EngineTable<IndexEngines> {
  TESSERA_INDEX_ENGINES(TESSERA_ENGINE_MEMBER)
};

}  // namespace tessera

namespace tessera::engine_entries {
#define TESSERA_ENTRY(name) inline constexpr auto name = &IndexEngines::name;
TESSERA_INDEX_ENGINES(TESSERA_ENTRY)
#undef TESSERA_ENTRY
}  // namespace tessera::engine_entries
