// Reciprocals of square roots that others wait for. Included once per SIMD target.
#if defined(TESSERA_LINALG_INVERSE_ROOT_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_LINALG_INVERSE_ROOT_INL
#undef TESSERA_LINALG_INVERSE_ROOT_INL
#else
#define TESSERA_LINALG_INVERSE_ROOT_INL
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::numbers {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// About 1 / sqrt(x) of positive numbers, 0 of infinity: a first guess where there is one.
template <class D>
HWY_INLINE hn::Vec<D> GuessInverseRoot(D d, hn::Vec<D> x) {
#if HWY_TARGET <= HWY_AVX3
  if constexpr (sizeof(hn::TFromD<D>) == 8)
    return hn::Vec<D>{_mm512_rsqrt14_pd(x.raw)};
  else
    return hn::Vec<D>{_mm512_rsqrt14_ps(x.raw)};
#else
  return hn::Div(hn::Set(d, 1), hn::Sqrt(x));
#endif
}
// What is to be added to 1 for a guess times that to be 1 / sqrt(x), by its error's first powers. Guess and correction
// take half of the time of a root and a division.
template <class D>
HWY_INLINE hn::Vec<D> InverseRootCorrection(D d, hn::Vec<D> x, hn::Vec<D> y) {
#if HWY_TARGET <= HWY_AVX3
  using R = hn::TFromD<D>;
  const auto e = hn::IfThenElseZero(hn::Ne(y, hn::Zero(d)), hn::NegMulAdd(hn::Mul(x, y), y, hn::Set(d, 1)));
  // 1 / sqrt(1 - e) - 1
  auto series = hn::MulAdd(e, hn::Set(d, R(0.375)), hn::Set(d, R(0.5)));
  if constexpr (sizeof(R) == 8)
    series = hn::MulAdd(hn::Mul(e, e), hn::MulAdd(e, hn::Set(d, R(0.2734375)), hn::Set(d, R(0.3125))), series);
  return hn::Mul(e, series);
#else
  (void)x;
  (void)y;
  return hn::Zero(d);
#endif
}
// 1 / sqrt(x).
template <class D>
HWY_INLINE hn::Vec<D> InverseRoot(D d, hn::Vec<D> x) {
  const auto y = GuessInverseRoot(d, x);
  return hn::MulAdd(y, InverseRootCorrection(d, x, y), y);
}
// sqrt(x) where that is known.
template <class D>
HWY_INLINE hn::Vec<D> RootOf(D d, hn::Vec<D> x, hn::Vec<D> inverse) {
#if HWY_TARGET <= HWY_AVX3
  using R = hn::TFromD<D>;
  const auto root = hn::Mul(x, inverse), half = hn::Mul(hn::Set(d, R(0.5)), inverse);
  return hn::IfThenElse(hn::Ne(inverse, hn::Zero(d)), hn::MulAdd(hn::NegMulAdd(root, root, x), half, root), x);
#else
  (void)d;
  (void)inverse;
  return hn::Sqrt(x);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::numbers
HWY_AFTER_NAMESPACE();

#endif
