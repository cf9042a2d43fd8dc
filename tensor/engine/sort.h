// Sorting, selection, search: which functions serve a device.
#pragma once

#include "tensor/cpu/sort/sort.h"
#include "tensor/engine/engine.h"

#define TESSERA_SORT_ENGINES(F) \
  F(run_sort)                   \
  F(run_topk)                   \
  F(run_searchsorted)

namespace tessera {

struct SortEngines : EngineTable<SortEngines> {
  TESSERA_SORT_ENGINES(TESSERA_ENGINE_MEMBER)
};

}  // namespace tessera

namespace tessera::engine_entries {
#define TESSERA_ENTRY(name) inline constexpr auto name = &SortEngines::name;
TESSERA_SORT_ENGINES(TESSERA_ENTRY)
#undef TESSERA_ENTRY
}  // namespace tessera::engine_entries
