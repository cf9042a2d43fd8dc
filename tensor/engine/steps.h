// What a device library may offer besides the engines: optimizer steps over many parameters in one call (for one: tensor/cpu/nn.h), products with a bias.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"
#include "tensor/cpu/gemm.h"
#include "tensor/cpu/nn.h"

namespace tessera {

// Parameters of one dtype: `count` arrays each, in host memory, of addresses in the device's; all of a parameter's arrays are contiguous, of sizes[i] elements. A null array of
// addresses: not kept.
struct StepTensors {
  DType dtype;
  int64_t count;
  const int64_t* sizes;
  void* const* params;
  void* const* grads;      // written only where they are unscaled
  void* const* state[3];   // SGD: momentum buffer. Adam: exp_avg, exp_avg_sq, max_exp_avg_sq
};

// What lies on the device and is read there, so that nobody waits for it; null: none.
struct StepOptions {
  const float* grad_scale = nullptr;    // gradients are divided by it, and stay so
  const float* found_inf = nullptr;     // not 0: nothing is done
  const float* const* steps = nullptr;  // Adam: for each parameter (an array in host memory) where its step number lies, instead of AdamStep::step
};

using SgdSteps = void(const cpu::SgdStep& s, const StepTensors& p, const StepOptions& options);
using AdamSteps = void(const cpu::AdamStep& s, const StepTensors& p, const StepOptions& options);

// c = f(alpha a b + bias): c is m x n with dense rows, bias n contiguous elements. False: it has none for these, and nothing was done.
enum class GemmActivation : uint8_t { kNone, kRelu, kTanhGelu };
using GemmBias = bool(DType dtype, int64_t m, int64_t n, int64_t k, KernelParam alpha, const cpu::MatrixRef& a, const cpu::MatrixRef& b, const void* bias, GemmActivation activation,
                      const cpu::MatrixRef& c);

}  // namespace tessera
