// Resizing of images, and reading them at given places: which functions serve a device.
#pragma once

#include "nn/cpu/resample/grid_sample.h"
#include "nn/cpu/resample/resample.h"
#include "tensor/engine/engine.h"

#define TESSERA_NN_RESAMPLE_ENGINES(F) \
  F(resample_forward)                  \
  F(resample_backward)                 \
  F(grid_sample_forward)               \
  F(grid_sample_backward)

namespace tessera::nn {

struct ResampleEngines : EngineTable<ResampleEngines> {
  TESSERA_NN_RESAMPLE_ENGINES(TESSERA_ENGINE_MEMBER)
};

}  // namespace tessera::nn

namespace tessera::engine_entries {
#define TESSERA_ENTRY(name) inline constexpr auto name = &nn::ResampleEngines::name;
TESSERA_NN_RESAMPLE_ENGINES(TESSERA_ENTRY)
#undef TESSERA_ENTRY
}  // namespace tessera::engine_entries
