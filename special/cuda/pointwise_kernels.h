// How the mathematics of special/cpu becomes kernels: a file includes a part of it and ends with TESSERA_SPECIAL_TABLE.
#pragma once

#include "hwy/highway.h"  // that of tensor/cuda/one_lane
#include "special/cpu/pieces-inl.h"
#include "tensor/cuda/pointwise/pointwise_math.h"

namespace tessera::pw {
#define TESSERA_PW(name) extern __attribute__((weak)) const PointwiseOp name;
#include "special/cpu/ops.inc"
#undef TESSERA_PW
}  // namespace tessera::pw

namespace tessera::cuda {

namespace vectors = cpu::HWY_NAMESPACE;

// In double; a tag says that float is meant.
template <class T, class F, class... V>
__device__ inline T in_double(F f, V... x) {
  using D = hwy::HWY_NAMESPACE::OneLane<double>;
  if constexpr (std::is_same_v<T, float>)
    return static_cast<float>(f(vectors::special::ForFloat<D>(), static_cast<double>(x)...));
  else
    return f(D(), x...);
}

PointwiseTable bessel_kernels();
PointwiseTable gamma_kernels();
PointwiseTable normal_kernels();
PointwiseTable polynomial_kernels();

}  // namespace tessera::cuda

// For the lists of the mathematics (TESSERA_BESSEL_OPS ...).
#define TESSERA_SPECIAL_FUNCTOR(name, Name, kIn, Core, kDTypes)                                           \
  struct Name : Apart<std::conditional_t<kIn == 1, Unary, Binary>> {                                      \
    template <class T, class... Rest>                                                                     \
    static __device__ T call(const KernelParam*, T x, Rest... rest) {                                     \
      return in_double<T>([](auto d, auto... v) { return vectors::special::Core(d, v...); }, x, rest...); \
    }                                                                                                     \
  };
#define TESSERA_SPECIAL_ENTRY(name, Name, kIn, Core, kDTypes) PointwiseEntry{&pw::name}.floats<Name>(),
#define TESSERA_SPECIAL_TABLE(table, kOps)                                                           \
  namespace tessera::cuda {                                                                          \
  namespace {                                                                                        \
  namespace special = vectors::special;                                                              \
  kOps(TESSERA_SPECIAL_FUNCTOR) constexpr PointwiseEntry kEntries[] = {kOps(TESSERA_SPECIAL_ENTRY)}; \
  }                                                                                                  \
  PointwiseTable table() { return kEntries; }                                                        \
  }
