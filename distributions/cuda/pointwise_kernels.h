// How the formulas of distributions/cpu become kernels: a file includes a part of them and ends with
// TESSERA_DISTRIBUTION_TABLE. All is computed in double; for float a tag says that its digits are enough.
#pragma once

#include "distributions/cpu/parts-inl.h"
#include "hwy/highway.h"  // that of tensor/cuda/one_lane
#include "tensor/cuda/pointwise/pointwise_math.h"

namespace tessera::pw {
#define TESSERA_PW(name) extern __attribute__((weak)) const PointwiseOp name;
#include "distributions/cpu/ops.inc"
#undef TESSERA_PW
}  // namespace tessera::pw

namespace tessera::cuda {

namespace formulas = cpu::HWY_NAMESPACE::distributions;

template <class T>
using FormulaTag = std::conditional_t<std::is_same_v<T, float>, formulas::ForFloat<hwy::HWY_NAMESPACE::OneLane<double>>,
                                      hwy::HWY_NAMESPACE::OneLane<double>>;

// A formula of a value, or of parameters alone.
template <template <class> class Formula, int kValues>
struct Evaluated;
template <template <class> class Formula>
struct Evaluated<Formula, 1> {
  template <class T, class... Rest>
  static __device__ T of(T x, Rest... parameters) {
    const FormulaTag<T> d;
    Formula<FormulaTag<T>> f;
    f.Set(d, static_cast<double>(parameters)...);
    return static_cast<T>(f(d, static_cast<double>(x)));
  }
};
template <template <class> class Formula>
struct Evaluated<Formula, 0> {
  template <class T, class... Rest>
  static __device__ T of(T first, Rest... parameters) {
    const FormulaTag<T> d;
    Formula<FormulaTag<T>> f;
    f.Set(d, static_cast<double>(first), static_cast<double>(parameters)...);
    return static_cast<T>(f(d));
  }
};

template <int kCount>
struct Fixed : Unary {
  static constexpr int kInputs = kCount;
};

PointwiseTable location_kernels();
PointwiseTable positive_kernels();
PointwiseTable discrete_kernels();
PointwiseTable measure_kernels();

}  // namespace tessera::cuda

#define TESSERA_DISTRIBUTION_FUNCTOR(name, Name, kValues, kParams, kHow)     \
  struct Name : Apart<Fixed<kValues + kParams>> {                            \
    template <class T, class... Rest>                                        \
    static __device__ T call(const KernelParam*, T x, Rest... rest) {        \
      return Evaluated<formulas::Name, kValues>::template of<T>(x, rest...); \
    }                                                                        \
  };
#define TESSERA_DISTRIBUTION_ENTRY(name, Name, kValues, kParams, kHow) PointwiseEntry{&pw::dist_##name}.floats<Name>(),
#define TESSERA_DISTRIBUTION_TABLE(table, kOps)                                                                \
  namespace tessera::cuda {                                                                                    \
  namespace {                                                                                                  \
  kOps(TESSERA_DISTRIBUTION_FUNCTOR) constexpr PointwiseEntry kEntries[] = {kOps(TESSERA_DISTRIBUTION_ENTRY)}; \
  }                                                                                                            \
  PointwiseTable table() { return kEntries; }                                                                  \
  }
