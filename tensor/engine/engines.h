// The engines of the core operators.
#pragma once

#include "tensor/cpu/functions/create.h"
#include "tensor/cpu/functions/special.h"
#include "tensor/cpu/functions/statistics.h"
#include "tensor/cpu/gemm/gemm.h"
#include "tensor/cpu/gemm/gemm_scaled.h"
#include "tensor/cpu/index/index.h"
#include "tensor/cpu/pointwise/pointwise.h"
#include "tensor/cpu/pointwise/pointwise_ops.h"
#include "tensor/cpu/random/random.h"
#include "tensor/cpu/reduce/reduce.h"
#include "tensor/cpu/sort/sort.h"
#include "tensor/engine/engine.h"

namespace tessera {

// c = f(alpha a b + bias): c is m x n with dense rows, bias n contiguous elements. False: it has none for these, and
// nothing was done.
enum class GemmActivation : uint8_t { kNone, kRelu, kTanhGelu };
using GemmBias = bool(DType dtype, int64_t m, int64_t n, int64_t k, KernelParam alpha, const cpu::MatrixRef& a,
                      const cpu::MatrixRef& b, const void* bias, GemmActivation activation, const cpu::MatrixRef& c);

// A device library's engines. A null entry: the operators that need it raise NotImplementedError.
struct Engines : EngineTable<Engines> {
#define TESSERA_ENGINE(name) decltype(&cpu::name) name = nullptr;
#include "tensor/engine/engines.inc"
#undef TESSERA_ENGINE
  // May be null: then a bias is added on its own.
  GemmBias* gemm_bias = nullptr;
  // Makes `device` the one that the calling thread's engine calls work on.
  void (*select)(Device device) = nullptr;
  // Between host and device, or two devices: n bytes, dense. non_blocking: it may end later, in stream order, if the
  // host memory is pinned.
  void (*transfer)(void* dst, Device dst_device, const void* src, Device src_device, size_t n,
                   bool non_blocking) = nullptr;
};

namespace engine_entries {
#define TESSERA_ENGINE(name) inline constexpr auto name = &Engines::name;
#include "tensor/engine/engines.inc"
#undef TESSERA_ENGINE
}  // namespace engine_entries

}  // namespace tessera
