// The negative log likelihood: which functions serve a device.
#pragma once

#include "nn/cpu/loss.h"
#include "tensor/engine/engine.h"

#define TESSERA_NN_LOSS_ENGINES(F) \
  F(nll_loss_forward)              \
  F(nll_loss_backward)

namespace tessera::nn {

// The likelihood with a part `smoothing` of the target spread over all classes: arguments as of nll_loss_*. A class of
// a target that counts takes smoothing / classes times its weight, the target's own 1 - smoothing times its weight
// more.
using SmoothedLossForward = void(DType dtype, int64_t batch, int64_t classes, int64_t inner, const void* x,
                                 const int64_t* target, const void* weight, cpu::LossReduction reduction,
                                 int64_t ignore_index, double smoothing, void* out, void* total_weight);
using SmoothedLossBackward = void(DType dtype, int64_t batch, int64_t classes, int64_t inner, const void* dy,
                                  const int64_t* target, const void* weight, cpu::LossReduction reduction,
                                  int64_t ignore_index, double smoothing, const void* total_weight, void* dx);

struct LossEngines : EngineTable<LossEngines> {
  TESSERA_NN_LOSS_ENGINES(TESSERA_ENGINE_MEMBER)
  // May be null: then that loss is made of other operators.
  SmoothedLossForward* smoothed_loss_forward = nullptr;
  SmoothedLossBackward* smoothed_loss_backward = nullptr;
};

}  // namespace tessera::nn

namespace tessera::engine_entries {
#define TESSERA_ENTRY(name) inline constexpr auto name = &nn::LossEngines::name;
TESSERA_NN_LOSS_ENGINES(TESSERA_ENTRY)
#undef TESSERA_ENTRY
}  // namespace tessera::engine_entries
