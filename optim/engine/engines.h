// The engines of optimizer steps: which functions serve a device.
#pragma once

#include <cstdint>

#include "optim/cpu/optim.h"
#include "tensor/core/dtype.h"
#include "tensor/engine/engine.h"

namespace tessera::optim {

// Parameters of one dtype: `count` arrays each, in host memory, of addresses in the device's; all of a parameter's
// arrays are contiguous, of sizes[i] elements. A null array of addresses: not kept.
struct StepTensors {
  DType dtype;
  int64_t count;
  const int64_t* sizes;
  void* const* params;
  void* const* grads;     // written only where they are unscaled
  void* const* state[3];  // SGD: momentum buffer. Adam: exp_avg, exp_avg_sq, max_exp_avg_sq
};

// What lies on the device and is read there, so that nobody waits for it; null: none.
struct StepOptions {
  const float* grad_scale = nullptr;    // gradients are divided by it, and stay so
  const float* found_inf = nullptr;     // not 0: nothing is done
  const float* const* steps = nullptr;  // Adam: for each parameter (an array in host memory) where its step number
                                        // lies, instead of AdamStep::step
};

using SgdSteps = void(const cpu::SgdStep& s, const StepTensors& p, const StepOptions& options);
using AdamSteps = void(const cpu::AdamStep& s, const StepTensors& p, const StepOptions& options);

// A device library's engines: steps of one parameter, and of many in one call (may be null: then parameters are stepped
// one after the other).
struct Engines : EngineTable<Engines> {
  decltype(&cpu::sgd_step) sgd_step = nullptr;
  decltype(&cpu::adam_step) adam_step = nullptr;
  SgdSteps* sgd_steps = nullptr;
  AdamSteps* adam_steps = nullptr;
};

}  // namespace tessera::optim

namespace tessera::engine_entries {
inline constexpr auto sgd_step = &optim::Engines::sgd_step;
inline constexpr auto adam_step = &optim::Engines::adam_step;
}  // namespace tessera::engine_entries
