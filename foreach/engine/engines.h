// The engine of lists: one call for many tensors, where a device's library has that.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"
#include "tensor/engine/engine.h"

namespace tessera::foreach {

// One elementwise function of many tensors: x, y and z are the operands of a call, s its number.
enum class ListOp : uint8_t {
  kAdd,        // x + s y
  kAddNumber,  // x + s
  kMul,
  kMulNumber,
  kDiv,
  kDivNumber,
  kMax,
  kMaxNumber,
  kMin,
  kMinNumber,  // a NaN wins
  kPow,
  kPowNumber,
  kNumberPow,  // s ^ x
  kAddcmul,    // x + s y z
  kAddcdiv,    // x + s y / z
  kLerp,       // x + s (y - x)
  kLerpEach,   // x + z (y - x)
  kCopy,       // y
  kFill,       // s
  kIdentity,   // x
  // Of x alone.
  kAbs,
  kAcos,
  kAsin,
  kAtan,
  kCeil,
  kCos,
  kCosh,
  kErf,
  kErfc,
  kExp,
  kExpm1,
  kFloor,
  kFrac,
  kLgamma,
  kLog,
  kLog10,
  kLog1p,
  kLog2,
  kNeg,
  kReciprocal,
  kRound,
  kRsqrt,
  kSigmoid,
  kSign,
  kSin,
  kSinh,
  kSqrt,
  kTan,
  kTanh,
  kTrunc,
  // Reductions to one number each: sum |x|, the root of sum x^2, max |x|.
  kNorm1,
  kNorm2,
  kNormMax,
};
// Tensors of one floating dtype: `count` arrays of addresses in host memory; all of a tensor's operands are contiguous,
// of sizes[i] elements. out[i] may be operands[k][i], and lies apart from all others.
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
  // An element of the dtype for each tensor (host memory holds where they lie), times `number`.
  const void* const* numbers_on_device = nullptr;
};
using ListCalls = void(const ListCall& call);

// A device library's engine. May be null: then lists are gone through tensor by tensor.
struct Engines : EngineTable<Engines> {
  ListCalls* list_call = nullptr;
};

}  // namespace tessera::foreach
