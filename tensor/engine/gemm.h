// Matrix products: which functions serve a device.
#pragma once

#include "tensor/cpu/gemm/gemm.h"
#include "tensor/cpu/gemm/gemm_scaled.h"
#include "tensor/engine/engine.h"

#define TESSERA_GEMM_ENGINES(F) \
  F(gemm)                       \
  F(gemm_batched)               \
  F(dot)                        \
  F(gemm_scaled)

namespace tessera {

// c = f(alpha a b + bias): c is m x n with dense rows, bias n contiguous elements. False: it has none for these, and
// nothing was done.
enum class GemmActivation : uint8_t { kNone, kRelu, kTanhGelu };
using GemmBias = bool(DType dtype, int64_t m, int64_t n, int64_t k, KernelParam alpha, const cpu::MatrixRef& a,
                      const cpu::MatrixRef& b, const void* bias, GemmActivation activation, const cpu::MatrixRef& c);

// c = a b of bytes in int32, modulo 2^32, any strides; b is int8, a int8 or uint8.
using GemmInt8 = void(int64_t m, int64_t n, int64_t k, const cpu::MatrixRef& a, bool a_unsigned,
                      const cpu::MatrixRef& b, const cpu::MatrixRef& c);

struct GemmEngines : EngineTable<GemmEngines> {
  TESSERA_GEMM_ENGINES(TESSERA_ENGINE_MEMBER)
  // May be null: then a bias is added on its own.
  GemmBias* gemm_bias = nullptr;
  // May be null: then bytes are made int32 first.
  GemmInt8* gemm_int8 = nullptr;
};

}  // namespace tessera

namespace tessera::engine_entries {
#define TESSERA_ENTRY(name) inline constexpr auto name = &GemmEngines::name;
TESSERA_GEMM_ENGINES(TESSERA_ENTRY)
#undef TESSERA_ENTRY
}  // namespace tessera::engine_entries
