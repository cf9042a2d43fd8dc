// float32 kernels of long formulas that few programs call. Included by their files after pointwise-inl.h.
//
// For SSE4, processors of before AVX2, there is the float64 kernel alone: float32 numbers go through it in blocks.
// Results are those of float64, rounded once more.
#if defined(TESSERA_TENSOR_CPU_THROUGH_DOUBLE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_TENSOR_CPU_THROUGH_DOUBLE_INL_H_
#undef TESSERA_TENSOR_CPU_THROUGH_DOUBLE_INL_H_
#else
#define TESSERA_TENSOR_CPU_THROUGH_DOUBLE_INL_H_
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "tensor/cpu/pointwise/pointwise-inl.h"

// NameF32 of kIn inputs, where NameF64 is declared: the statements behind them, or for SSE4 NameF64.
#undef TESSERA_FLOAT_KERNEL
#if HWY_TARGET == HWY_SSE4
HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {

inline HWY_NOINLINE void ThroughDouble(void (*kernel)(TESSERA_KERNEL_PARAMETERS), int inputs,
                                       TESSERA_KERNEL_PARAMETERS) {
  constexpr int64_t kBlock = 128;
  constexpr int kMostInputs = 8;
  double numbers[kMostInputs][kBlock];
  // Not aligned to a line, so that no kernel lets its results go past the caches (stream_results).
  alignas(64) double results[kBlock + 1];
  double* const result = results + 1;
  const void* from[kMostInputs];
  void* const to[] = {result};
  for (int k = 0; k < inputs; ++k) from[k] = numbers[k];
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t count = std::min(kBlock, n - begin);
    for (int k = 0; k < inputs; ++k) std::copy_n(static_cast<const float*>(ins[k]) + begin, count, numbers[k]);
    kernel(count, to, from, params);
    float* const out = static_cast<float*>(outs[0]) + begin;
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(result[i]);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();
#define TESSERA_FLOAT_KERNEL(Name, kIn, ...)                 \
  void Name##F32(TESSERA_KERNEL_PARAMETERS) {                \
    static_assert(kIn <= 8);                                 \
    ThroughDouble(Name##F64, kIn, TESSERA_KERNEL_ARGUMENTS); \
  }
#else
#define TESSERA_FLOAT_KERNEL(Name, kIn, ...) \
  void Name##F32(TESSERA_KERNEL_PARAMETERS) { __VA_ARGS__ }
#endif

// TESSERA_DEFINE_KERNELS of such formulas.
#ifndef TESSERA_DEFINE_LONG_KERNELS
#define TESSERA_DEFINE_LONG_KERNELS(Name, kIn, kParams)                                     \
  void Name##F64(TESSERA_KERNEL_PARAMETERS) {                                               \
    Loop<double, Name, kParams>(TESSERA_KERNEL_ARGUMENTS, std::make_index_sequence<kIn>()); \
  }                                                                                         \
  TESSERA_FLOAT_KERNEL(Name, kIn,                                                           \
                       Loop<float, Name, kParams>(TESSERA_KERNEL_ARGUMENTS, std::make_index_sequence<kIn>());)
#endif

#endif  // per-target include guard
