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

// One elementwise function of many tensors: x, y and z are the operands of a call, s its number.
enum class ListOp : uint8_t {
  kAdd,            // x + s y
  kAddNumber,      // x + s
  kMul, kMulNumber,
  kDiv, kDivNumber,
  kMax, kMaxNumber, kMin, kMinNumber,  // a NaN wins
  kPow, kPowNumber,
  kNumberPow,      // s ^ x
  kAddcmul,        // x + s y z
  kAddcdiv,        // x + s y / z
  kLerp,           // x + s (y - x)
  kLerpEach,       // x + z (y - x)
  kCopy,           // y
  kFill,           // s
  kIdentity,       // x
  // Of x alone.
  kAbs, kAcos, kAsin, kAtan, kCeil, kCos, kCosh, kErf, kErfc, kExp, kExpm1, kFloor, kFrac, kLgamma, kLog, kLog10, kLog1p, kLog2, kNeg, kReciprocal, kRound, kRsqrt, kSigmoid, kSign, kSin, kSinh, kSqrt, kTan, kTanh, kTrunc,
  // Reductions to one number each: sum |x|, the root of sum x^2, max |x|.
  kNorm1, kNorm2, kNormMax,
};
// Tensors of one floating dtype: `count` arrays of addresses in host memory; all of a tensor's operands are contiguous, of sizes[i] elements. out[i] may be operands[k][i], and lies apart from
// all others.
struct ListCall {
  ListOp op;
  DType dtype;
  int64_t count;
  const int64_t* sizes = nullptr;
  void* const* out = nullptr;
  void* const* operands[3] = {};
  double number = 0;
  const double* numbers = nullptr;         // one for each tensor (host memory), instead
  const void* number_on_device = nullptr;  // one element of the dtype, instead
};
using ListCalls = void(const ListCall& call);

}  // namespace tessera
