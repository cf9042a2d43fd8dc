// How the formulas of the distributions become block kernels. Included inside foreach_target.h's passes.
//
// A formula is a class template over the tag of its vectors: Set(d, parameters...) computes what depends on the
// parameters alone, the call operator the result for a value; what has no value (entropies, divergences) has an
// operator without. The loop calls Set where parameters change, so that one distribution, broadcast over many values,
// has its logarithms and gamma functions computed once a block.
#if defined(TESSERA_DISTRIBUTIONS_CPU_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_DISTRIBUTIONS_CPU_KERNELS_INL_H_
#undef TESSERA_DISTRIBUTIONS_CPU_KERNELS_INL_H_
#else
#define TESSERA_DISTRIBUTIONS_CPU_KERNELS_INL_H_
#endif

#include <array>
#include <type_traits>

#include "distributions/cpu/parts-inl.h"
#include "hwy/highway.h"
#include "tensor/cpu/pointwise/pointwise-inl.h"
#include "tensor/cpu/pointwise/through_double-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace distributions {

// Numbers of type T in memory, as vectors of the tag that a formula is computed with.
template <class T, class D>
struct Memory {
  using Narrow = hn::Rebind<T, hn::ScalableTag<hn::TFromD<D>>>;
  static constexpr bool kSame = sizeof(T) == sizeof(hn::TFromD<D>);

  static HWY_INLINE hn::Vec<D> Load(D d, const T* from) {
    if constexpr (kSame)
      return hn::LoadU(d, from);
    else
      return hn::PromoteTo(d, hn::LoadU(Narrow(), from));
  }
  static HWY_INLINE hn::Vec<D> LoadSome(D d, const T* from, size_t count) {
    if constexpr (kSame)
      return LoadTail(Narrow(), from, count);
    else
      return hn::PromoteTo(d, LoadTail(Narrow(), from, count));
  }
  static HWY_INLINE auto Narrowed(hn::Vec<D> v) {
    if constexpr (kSame)
      return v;
    else
      return hn::DemoteTo(Narrow(), v);
  }
};

template <class F, class D, size_t kParams, size_t... I>
HWY_INLINE void SetFrom(F& f, D d, const hn::Vec<D> (&p)[kParams], std::index_sequence<I...>) {
  f.Set(d, p[I]...);
}

template <class T, class D, class F, int kValues, int kParams>
HWY_INLINE void FormulaLoop(TESSERA_KERNEL_PARAMETERS) {
  using M = Memory<T, D>;
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<D> last[kParams];
  F f;
  bool fresh = true;
  (void)params;
  const auto result = [&](auto load) HWY_ATTR {
    hn::Vec<D> p[kParams];
    for (int k = 0; k < kParams; ++k) p[k] = load(ins[kValues + k]);
    bool same = !fresh;
    for (int k = 0; k < kParams; ++k) same = same && hn::AllTrue(d, hn::Eq(p[k], last[k]));
    if (!same) {
      SetFrom(f, d, p, std::make_index_sequence<kParams>());
      for (int k = 0; k < kParams; ++k) last[k] = p[k];
      fresh = false;
    }
    if constexpr (kValues == 1)
      return M::Narrowed(f(d, load(ins[0])));
    else
      return M::Narrowed(f(d));
  };
  T* const out = static_cast<T*>(outs[0]);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(result([&](const void* in) HWY_ATTR { return M::Load(d, static_cast<const T*>(in) + i); }),
               typename M::Narrow(), out + i);
  if (i < n) {
    const size_t rest = static_cast<size_t>(n - i);
    StoreTail(result([&](const void* in) HWY_ATTR { return M::LoadSome(d, static_cast<const T*>(in) + i, rest); }),
              typename M::Narrow(), out + i, rest);
  }
}

}  // namespace distributions
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

// From lists X(constant, Formula, values, parameters, how): per target kernels NameF32 and NameF64, once their choices
// and the constants. How float32 is computed: SINGLE, as it is, or DOUBLE.
#ifndef TESSERA_DISTRIBUTION_KERNELS
#define TESSERA_TAG_SINGLE hn::ScalableTag<float>
#define TESSERA_TAG_DOUBLE distributions::ForFloat<hn::ScalableTag<double>>
#define TESSERA_DISTRIBUTION_KERNELS(name, Name, kValues, kParams, kHow)                                       \
  void Name##F64(TESSERA_KERNEL_PARAMETERS) {                                                                  \
    using D = hn::ScalableTag<double>;                                                                         \
    distributions::FormulaLoop<double, D, distributions::Name<D>, kValues, kParams>(TESSERA_KERNEL_ARGUMENTS); \
  }                                                                                                            \
  TESSERA_FLOAT_KERNEL(                                                                                        \
      Name, kValues + kParams, using D = TESSERA_TAG_##kHow;                                                   \
      distributions::FormulaLoop<float, D, distributions::Name<D>, kValues, kParams>(TESSERA_KERNEL_ARGUMENTS);)
#define TESSERA_DISTRIBUTION_CHOICE(name, Name, kValues, kParams, kHow) TESSERA_CHOOSE(Name, 0, 0)
#define TESSERA_DISTRIBUTION_CONSTANT(name, Name, kValues, kParams, kHow) \
  constinit const PointwiseOp dist_##name =                               \
      OpBuilder<kValues + kParams>("_dist_" #name).floats(Name##F32, Name##F64).int_to_float();
#define TESSERA_DISTRIBUTION_CONSTANTS(kOps) \
  namespace tessera::cpu {                   \
  kOps(TESSERA_DISTRIBUTION_CHOICE)          \
  }                                          \
  namespace tessera::pw {                    \
  using namespace cpu;                       \
  kOps(TESSERA_DISTRIBUTION_CONSTANT)        \
  }
#endif

#endif  // per-target include guard
