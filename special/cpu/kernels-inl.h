// How the special functions become block kernels. Included inside foreach_target.h's passes.
#if defined(TESSERA_SPECIAL_CPU_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_SPECIAL_CPU_KERNELS_INL_H_
#undef TESSERA_SPECIAL_CPU_KERNELS_INL_H_
#else
#define TESSERA_SPECIAL_CPU_KERNELS_INL_H_
#endif

#include "hwy/highway.h"
#include "special/cpu/pieces-inl.h"
#include "tensor/cpu/pointwise/pointwise-inl.h"
#include "tensor/cpu/pointwise/through_double-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace special {

// Whether a functor's mathematics takes vectors of float32 as well.
template <class Functor>
inline constexpr bool kInFloat = false;

template <class Functor, class D, class F, class... V>
HWY_INLINE hn::Vec<D> Doubly(D d, F f, V... x) {
  if constexpr (sizeof(hn::TFromD<D>) == 4 && !kInFloat<Functor>)
    return math::InDouble(
        d, [&](auto dd, auto... v) HWY_ATTR { return f(ForFloat<decltype(dd)>(), v...); }, x...);
  else
    return f(d, x...);
}

}  // namespace special
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

// From the lists of the mathematics (TESSERA_BESSEL_OPS ...). Per target: functors and their kernels. Once: constants,
// in all floating dtypes or float32 and float64 alone, of integers too or not.
#ifndef TESSERA_SPECIAL_KERNELS
#define TESSERA_SPECIAL_KERNELS(name, Name, kIn, Core, kDTypes)                          \
  struct Name {                                                                          \
    template <class D, class... V>                                                       \
    static HWY_INLINE hn::Vec<D> Call(D d, const KernelParam*, V... x) {                 \
      return special::Doubly<Name>(                                                      \
          d, [](auto dd, auto... v) HWY_ATTR { return special::Core(dd, v...); }, x...); \
    }                                                                                    \
  };                                                                                     \
  TESSERA_DEFINE_LONG_KERNELS(Name, kIn, 0)
#define TESSERA_SPECIAL_CHOICE(name, Name, kIn, Core, kDTypes) TESSERA_CHOOSE(Name, kIn, 0)
#define TESSERA_SPECIAL_CONSTANT(name, Name, kIn, Core, kDTypes) \
  constinit const PointwiseOp name = OpBuilder<kIn> TESSERA_##kDTypes(#name, Name);
#define TESSERA_SINGLE_AND_DOUBLE(name, Name) \
  (name "_cpu").with(DType::kFloat32, Name##F32).with(DType::kFloat64, Name##F64).int_to_float()
#define TESSERA_HALVES_TOO(name, Name) (name).floats(Name##F32, Name##F64).int_to_float()
#define TESSERA_FLOATS_ALONE(name, Name) (name "_cpu").floats(Name##F32, Name##F64)
#define TESSERA_SPECIAL_CONSTANTS(kOps) \
  namespace tessera::cpu {              \
  kOps(TESSERA_SPECIAL_CHOICE)          \
  }                                     \
  namespace tessera::pw {               \
  using namespace cpu;                  \
  kOps(TESSERA_SPECIAL_CONSTANT)        \
  }
#endif

#endif  // per-target include guard
