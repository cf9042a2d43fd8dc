// Optimizer steps over many parameters at once. The forms of tensor/cpu/nn.h are those of one parameter.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"
#include "tensor/cpu/nn.h"

namespace tessera::cuda {

// Parameters of one dtype: `count` arrays each, in host memory, of device pointers; all of a parameter's arrays are contiguous, of sizes[i] elements. A null array of pointers: not kept.
struct Parameters {
  DType dtype;
  int64_t count;
  const int64_t* sizes;
  void* const* params;
  void* const* grads;      // written only where they are unscaled
  void* const* state[3];   // SGD: momentum buffer. Adam: exp_avg, exp_avg_sq, max_exp_avg_sq
};

// What lies on the device and is read there; null: none.
struct StepOptions {
  const float* grad_scale = nullptr;    // gradients are divided by it, and stay so
  const float* found_inf = nullptr;     // not 0: nothing is done
  const float* const* steps = nullptr;  // Adam: for each parameter (an array in host memory) where its step number lies, instead of AdamStep::step
};

void sgd_steps(const cpu::SgdStep& s, const Parameters& p, const StepOptions& options = {});
void adam_steps(const cpu::AdamStep& s, const Parameters& p, const StepOptions& options = {});

}  // namespace tessera::cuda
