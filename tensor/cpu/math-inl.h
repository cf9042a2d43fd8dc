// Elementary and special functions on vectors, float32 and float64. Included inside foreach_target.h's passes.
//
// Largest errors in units of the last place, measured over all float32 (pointwise_test.cc; benchmarks/math_ulp), with AVX-512, in brackets without, where that differs:
// exp 0.9 (1.2), exp2 1.0, expm1 1.5, log 0.9, log2 1.6, log1p 2.1, log10 1.5 (1.9), rsqrt 1.0 (1.5), sin and cos 1.1, but 2 next to their zeros far from 0, sinh 1.6, cosh 1.4,
// tanh 1.0 (2.3), erf 0.75 (1.2), gelu 1 for x > -3 (7). Samples of float64: exp and exp2 1.0, expm1 1.8, log 0.8, log2 1.6, log1p 2.1, log10 1.7, sin and cos 1.5, sinh 1.6, cosh 1.4.
#if defined(TESSERA_TENSOR_CPU_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_TENSOR_CPU_MATH_INL_H_
#undef TESSERA_TENSOR_CPU_MATH_INL_H_
#else
#define TESSERA_TENSOR_CPU_MATH_INL_H_
#endif

#include <cmath>

#include "hwy/highway.h"
#include "tensor/cpu/math_scalar.h"
#include "tensor/cpu/math_tables.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace math {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_AVX3
// Whether D's vectors fill a register: then there are instructions of AVX-512 for them.
template <class D> inline constexpr bool kFullVector = hn::MaxLanes(D()) * sizeof(hn::TFromD<D>) == 64;
using Wide = hn::ScalableTag<float>;
using WideBits = hn::RebindToUnsigned<Wide>;
#endif

// f on each lane: for what has no vector code (yet).
template <class D, class V, class F>
HWY_INLINE V PerLane(D d, V x, F f) {
  HWY_ALIGN hn::TFromD<D> buffer[hn::MaxLanes(d)];
  hn::Store(x, d, buffer);
  for (size_t i = 0; i < hn::Lanes(d); ++i) buffer[i] = f(buffer[i]);
  return hn::Load(d, buffer);
}
template <class D, class V, class F>
HWY_INLINE V PerLane(D d, V x, V y, F f) {
  HWY_ALIGN hn::TFromD<D> a[hn::MaxLanes(d)];
  HWY_ALIGN hn::TFromD<D> b[hn::MaxLanes(d)];
  hn::Store(x, d, a);
  hn::Store(y, d, b);
  for (size_t i = 0; i < hn::Lanes(d); ++i) a[i] = f(a[i], b[i]);
  return hn::Load(d, a);
}

#define TESSERA_LIBM1(Name, f) \
  template <class D, class V> HWY_INLINE V Name(D d, V x) { return PerLane(d, x, [](auto v) HWY_ATTR { return f(v); }); }
#define TESSERA_LIBM2(Name, f) \
  template <class D, class V> HWY_INLINE V Name(D d, V x, V y) { return PerLane(d, x, y, [](auto v, auto w) HWY_ATTR { return f(v, w); }); }

TESSERA_LIBM1(Asinh, std::asinh)
TESSERA_LIBM1(Acosh, std::acosh)
TESSERA_LIBM1(Atanh, std::atanh)
TESSERA_LIBM1(Erfc, std::erfc)
TESSERA_LIBM1(Erfinv, scalar::erfinv)
TESSERA_LIBM1(Lgamma, scalar::lgamma)
TESSERA_LIBM1(Digamma, scalar::digamma)
TESSERA_LIBM1(I0, scalar::i0)
TESSERA_LIBM2(Hypot, std::hypot)
#undef TESSERA_LIBM1
#undef TESSERA_LIBM2

#if HWY_TARGET == HWY_AVX3
// Of each lane the entry of a row of 32 numbers that the low bits of `column` say.
HWY_INLINE hn::Vec<Wide> Column(const float (&row)[32], hn::Vec<WideBits> column) {
  return hn::Vec<Wide>{_mm512_permutex2var_ps(_mm512_load_ps(row), column.raw, _mm512_load_ps(row + 16))};
}

// A function by pieces: row 0 has their centers, the others the coefficients.
template <size_t kRow, size_t kLast, size_t N>
HWY_INLINE hn::Vec<Wide> PieceSteps(const float (&rows)[N][32], hn::Vec<WideBits> piece, hn::Vec<Wide> t, hn::Vec<Wide> r) {
  if constexpr (kRow < kLast) return r;
  else return PieceSteps<kRow - 1, kLast>(rows, piece, t, hn::MulAdd(r, t, Column(rows[kRow], piece)));
}
template <size_t N>
HWY_INLINE hn::Vec<Wide> Piecewise(const float (&rows)[N][32], hn::Vec<Wide> x, hn::Vec<WideBits> piece) {
  return PieceSteps<N - 2, 1>(rows, piece, hn::Sub(x, Column(rows[0], piece)), Column(rows[N - 1], piece));
}

// x * inverse_width rounded to an integer, in the low bits.
HWY_INLINE hn::Vec<WideBits> PieceNumber(Wide d, hn::Vec<Wide> x, double inverse_width) {
  return hn::BitCast(WideBits(), hn::MulAdd(x, hn::Set(d, static_cast<float>(inverse_width)), hn::Set(d, 12582912.0f)));
}
#endif

// c[0] + c[1] x + ..., by Horner's rule. The coefficients interpolate at Chebyshev nodes of the reduced range; errors are noted relative to the result.
// Recursion instead of a loop, which GCC 12 leaves a loop.
template <size_t kNext, class D, class V, size_t N>
HWY_INLINE V HornerSteps(D d, V x, V r, const double (&c)[N]) {
  if constexpr (kNext == 0) return r;
  else return HornerSteps<kNext - 1>(d, x, hn::MulAdd(r, x, hn::Set(d, static_cast<hn::TFromD<D>>(c[kNext - 1]))), c);
}
template <class D, class V, size_t N>
HWY_INLINE V Polynomial(D d, V x, const double (&c)[N]) {
  return HornerSteps<N - 1>(d, x, hn::Set(d, static_cast<hn::TFromD<D>>(c[N - 1])), c);
}

// 1 / sqrt(x): an estimate of 14 bits, improved by one step of third order (e = 1 - x y^2 is the error), which 0 and infinity skip.
template <class D, class V>
HWY_INLINE V Rsqrt(D d, V x) {
  using T = hn::TFromD<D>;
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(T) == 4 && kFullVector<D>) {
    const V y{_mm512_rsqrt14_ps(x.raw)}, e = hn::NegMulAdd(hn::Mul(x, y), y, hn::Set(d, 1.0f));
    const V better = hn::MulAdd(hn::Mul(y, e), hn::MulAdd(e, hn::Set(d, 0.375f), hn::Set(d, 0.5f)), y);
    return V{_mm512_mask_mov_ps(y.raw, _mm512_cmp_ps_mask(e.raw, e.raw, _CMP_ORD_Q), better.raw)};
  }
#endif
  return hn::Div(hn::Set(d, T{1}), hn::Sqrt(x));
}

// Constants of a floating type. kMagic: adding it rounds to an integer and leaves that integer in the low bits.
template <class T> struct Fp;
template <> struct Fp<float> {
  static constexpr int kMantissa = 23, kBias = 127;
  static constexpr double kMagic = 12582912.0, kLn2High = 0.693359375, kLn2Low = -2.12194440054690583e-4;
  static constexpr double kExpLow = -104, kExpHigh = 89, kExpm1Low = -20, kExpm1High = 88.8, kTanhHigh = 10, kTrigLimit = 8192;
  static constexpr uint32_t kOne = 0x3f800000u, kSqrtHalf = 0x3f3504f3u, kMinNormal = 0x00800000u, kIntegers = 0x4b000000u;
};
template <> struct Fp<double> {
  static constexpr int kMantissa = 52, kBias = 1023;
  static constexpr double kMagic = 6755399441055744.0, kLn2High = 6.93147180369123816490e-01, kLn2Low = 1.90821492927058770002e-10;
  static constexpr double kExpLow = -746, kExpHigh = 711, kExpm1Low = -40, kExpm1High = 709.9, kTanhHigh = 22, kTrigLimit = 500000;
  static constexpr uint64_t kOne = 0x3ff0000000000000u, kSqrtHalf = 0x3fe6a09e667f3bcdu, kMinNormal = 0x0010000000000000u, kIntegers = 0x4330000000000000u;
};

// 2^n for integers n of the normal range, held as floats.
template <class D, class V>
HWY_INLINE V PowerOf2(D d, V n) {
  using T = hn::TFromD<D>;
  const hn::RebindToUnsigned<D> du;
  const V shifted = hn::Add(n, hn::Set(d, static_cast<T>(Fp<T>::kMagic + Fp<T>::kBias)));
  return hn::BitCast(d, hn::ShiftLeft<Fp<T>::kMantissa>(hn::BitCast(du, shifted)));
}

// 2^n p, for integers n, with one rounding where the result is subnormal.
template <class D, class V>
HWY_INLINE V ScaleByPower(D d, V p, V n) {
  using T = hn::TFromD<D>;
#if HWY_TARGET == HWY_AVX3
  if constexpr (kFullVector<D>) {
    if constexpr (sizeof(T) == 4) return V{_mm512_scalef_ps(p.raw, n.raw)};
    else return V{_mm512_scalef_pd(p.raw, n.raw)};
  }
#endif
  // In two factors, so that subnormal results and those near the largest number come out.
  const V n1 = hn::Floor(hn::Mul(n, hn::Set(d, static_cast<T>(0.5))));
  return hn::Mul(hn::Mul(p, PowerOf2(d, n1)), PowerOf2(d, hn::Sub(n, n1)));
}

// x = n ln 2 + r, |r| <= ln 2 / 2.
template <class D, class V>
HWY_INLINE V ReduceByLn2(D d, V x, V& n) {
  using T = hn::TFromD<D>;
  const V magic = hn::Set(d, static_cast<T>(Fp<T>::kMagic));
  n = hn::Sub(hn::MulAdd(x, hn::Set(d, static_cast<T>(1.44269504088896340736)), magic), magic);
  return hn::NegMulAdd(n, hn::Set(d, static_cast<T>(Fp<T>::kLn2Low)), hn::NegMulAdd(n, hn::Set(d, static_cast<T>(Fp<T>::kLn2High)), x));
}

// r + r^2 / 2 + ... = e^r - 1 for |r| <= ln 2 / 2.
template <class D, class V>
HWY_INLINE V Expm1Series(D d, V r) {
  using T = hn::TFromD<D>;
  V tail;  // (e^r - 1 - r - r^2/2) / r^3, to 4e-10 or 3e-17
  if constexpr (sizeof(T) == 4) {
    constexpr double kC[] = {0.1666666666666666667, 0.0416665546172045742, 0.008333320887169640859, 0.001392618358771349454, 0.0001988269833722147827};
    tail = Polynomial(d, r, kC);
  } else {
    constexpr double kC[] = {0.1666666666666666745, 0.04166666666666666723, 0.008333333333330061833, 0.001388888888888655252, 0.0001984126986305361688,
                             0.00002480158731714449898, 2.755726845999706477e-6, 2.75572829695499527e-7, 2.510038549551031908e-8, 2.091123663026154449e-9};
    tail = Polynomial(d, r, kC);
  }
  return hn::MulAdd(hn::Mul(r, r), hn::MulAdd(r, tail, hn::Set(d, static_cast<T>(0.5))), r);
}

// e^r - 1, x = n ln 2 + r.
template <class D, class V> HWY_INLINE V ReducedExpm1(D d, V x, V& n) { return Expm1Series(d, ReduceByLn2(d, x, n)); }

template <class D, class V>
HWY_INLINE V Exp(D d, V x) {
  using T = hn::TFromD<D>;
  // The instructions return the second operand if one is nan, so a nan stays.
  x = hn::Min(hn::Set(d, static_cast<T>(Fp<T>::kExpHigh)), hn::Max(hn::Set(d, static_cast<T>(Fp<T>::kExpLow)), x));
  V n;
  const V r = ReduceByLn2(d, x, n);
  if constexpr (sizeof(T) == 4) {
    constexpr double kC[] = {1.0, 1.0, 0.5, 0.1666657684599397631, 0.0416665544376859389, 0.008363202971575854947, 0.001392621346633244304};  // of e^r, to 1.1e-8
    return ScaleByPower(d, Polynomial(d, r, kC), n);
  } else {
    return ScaleByPower(d, hn::Add(Expm1Series(d, r), hn::Set(d, T{1})), n);
  }
}

// e^x / 2, infinite only where that is.
template <class D, class V>
HWY_INLINE V HalfExp(D d, V x) {
  using T = hn::TFromD<D>;
  x = hn::Min(hn::Set(d, static_cast<T>(Fp<T>::kExpHigh + 1)), hn::Max(hn::Set(d, static_cast<T>(Fp<T>::kExpLow)), x));
  V n;
  const V p = hn::Add(Expm1Series(d, ReduceByLn2(d, x, n)), hn::Set(d, T{1}));
  return ScaleByPower(d, p, hn::Sub(n, hn::Set(d, T{1})));
}

template <class D, class V>
HWY_INLINE V Expm1(D d, V x) {
  using T = hn::TFromD<D>;
  const V clamped = hn::Min(hn::Set(d, static_cast<T>(Fp<T>::kExpm1High)), hn::Max(hn::Set(d, static_cast<T>(Fp<T>::kExpm1Low)), x));
  V n;
  const V p = ReducedExpm1(d, clamped, n);
  const V half_scale = PowerOf2(d, hn::Sub(n, hn::Set(d, T{1})));  // 2^n may overflow where the result does not
  const V half = hn::MulAdd(half_scale, p, hn::Sub(half_scale, hn::Set(d, static_cast<T>(0.5))));
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, hn::Add(half, half));
}

// u = 2^k (1 + f), 1 + f in [sqrt(1/2), sqrt(2)); u normal and positive, or k and f are garbage.
template <class D, class V>
HWY_INLINE V SplitExponent(D d, V u, V& k) {
  using T = hn::TFromD<D>;
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, u);
  const auto biased = hn::ShiftRight<Fp<T>::kMantissa>(hn::Add(bits, hn::Set(du, Fp<T>::kOne - Fp<T>::kSqrtHalf)));  // k + bias
  const auto mantissa = hn::Add(hn::Sub(bits, hn::ShiftLeft<Fp<T>::kMantissa>(biased)), hn::Set(du, Fp<T>::kOne));
  const V integers = hn::Set(d, static_cast<T>(static_cast<double>(uint64_t{1} << Fp<T>::kMantissa) + Fp<T>::kBias));
  k = hn::Sub(hn::BitCast(d, hn::Or(biased, hn::Set(du, Fp<T>::kIntegers))), integers);
  return hn::Sub(hn::BitCast(d, mantissa), hn::Set(d, T{1}));
}

// k ln 2 + log(1 + f) + correction, by log(1 + f) = 2 atanh(f / (2 + f)), arranged to add the small terms first.
template <class D, class V>
HWY_INLINE V LogOfSplit(D d, V k, V f, V correction) {
  using T = hn::TFromD<D>;
  const V half_square = hn::Mul(hn::Mul(f, f), hn::Set(d, static_cast<T>(0.5)));
  const V s = hn::Div(f, hn::Add(f, hn::Set(d, T{2}))), z = hn::Mul(s, s);
  V r;  // (2 atanh(s) - 2 s) / s^3, to 2e-11 or 4e-18
  if constexpr (sizeof(T) == 4) {
    constexpr double kC[] = {0.6666666655430018005, 0.4000012200081690996, 0.2855080255327472859, 0.2333096405181052344};
    r = Polynomial(d, z, kC);
  } else {
    constexpr double kC[] = {0.6666666666666669695, 0.3999999999989923898, 0.2857142862609589156, 0.2222221111514415868,
                             0.1818289055669576367, 0.1533167403016350906, 0.1461703754883715133};
    r = Polynomial(d, z, kC);
  }
  const V small = hn::MulAdd(s, hn::MulAdd(z, r, half_square), hn::MulAdd(k, hn::Set(d, static_cast<T>(Fp<T>::kLn2Low)), correction));
  return hn::MulAdd(k, hn::Set(d, static_cast<T>(Fp<T>::kLn2High)), hn::Sub(f, hn::Sub(half_square, small)));
}

// The logarithm where its argument u is not a positive finite number: -inf at 0, inf at inf, else nan.
template <class D, class V>
HWY_INLINE V LogSpecial(D d, V u, V result) {
  const V zero = hn::Zero(d), inf = hn::Inf(d);
  const V special = hn::IfThenElse(hn::Eq(u, zero), hn::Neg(inf), hn::IfThenElse(hn::Eq(u, inf), inf, hn::NaN(d)));
  return hn::IfThenElse(hn::And(hn::Gt(u, zero), hn::Lt(u, inf)), result, special);
}

#if HWY_TARGET == HWY_AVX3
// x = 2^k m, m in [3/4, 3/2); subnormals too. Infinite k at 0 and at infinity, a nan below 0.
HWY_INLINE hn::Vec<Wide> SplitNumber(hn::Vec<Wide> x, hn::Vec<Wide>& k) {
  const __m512 m = _mm512_getmant_ps(x.raw, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan), e = _mm512_getexp_ps(x.raw), one = _mm512_set1_ps(1.0f);
  k = hn::Vec<Wide>{_mm512_mask_add_ps(e, _mm512_cmp_ps_mask(m, one, _CMP_LT_OQ), e, one)};
  return hn::Vec<Wide>{m};
}

// k ln 2 + log m, m = (1 + r) / c with c from a table: k ln 2 and -log c add without rounding.
HWY_INLINE hn::Vec<Wide> LogByTable(Wide d, hn::Vec<Wide> x) {
  using V = hn::Vec<Wide>;
  V k;
  const V m = SplitNumber(x, k);
  const auto piece = hn::ShiftRight<18>(hn::BitCast(WideBits(), m));
  const V r = hn::MulSub(m, Column(tables::kLog[0], piece), hn::Set(d, 1.0f));
  constexpr double kC[] = {-0.5000005379503622996, 0.3333786885432909838, -0.2454392930075602918};  // (log(1 + r) - r) / r^2 for r in [-1/64, 1/32], to 2.0e-8 of log(1 + r)
  const V high = hn::MulAdd(k, hn::Set(d, 0x1.62e4p-1f), Column(tables::kLog[1], piece));
  return hn::Add(high, hn::MulAdd(k, hn::Set(d, 1.428606765330187e-06f), hn::MulAdd(hn::Mul(r, r), Polynomial(d, r, kC), r)));
}
#endif

template <class D, class V>
HWY_INLINE V Log(D d, V x) {
  using T = hn::TFromD<D>;
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(T) == 4 && kFullVector<D>) return LogByTable(d, x);
#endif
  const hn::RebindToUnsigned<D> du;
  // Subnormals are scaled up by 2^mantissa bits first.
  constexpr double kUp = static_cast<double>(uint64_t{1} << Fp<T>::kMantissa);
  const auto subnormal = hn::Lt(x, hn::BitCast(d, hn::Set(du, Fp<T>::kMinNormal)));
  const V scaled = hn::IfThenElse(subnormal, hn::Mul(x, hn::Set(d, static_cast<T>(kUp))), x);
  V k;
  const V f = SplitExponent(d, scaled, k);
  k = hn::Sub(k, hn::IfThenElseZero(subnormal, hn::Set(d, static_cast<T>(Fp<T>::kMantissa))));
  return LogSpecial(d, x, LogOfSplit(d, k, f, hn::Zero(d)));
}

template <class D, class V>
HWY_INLINE V Log2(D d, V x) {
  using T = hn::TFromD<D>;
  const hn::RebindToUnsigned<D> du;
  constexpr double kUp = static_cast<double>(uint64_t{1} << Fp<T>::kMantissa);
  const auto subnormal = hn::Lt(x, hn::BitCast(d, hn::Set(du, Fp<T>::kMinNormal)));
  const V scaled = hn::IfThenElse(subnormal, hn::Mul(x, hn::Set(d, static_cast<T>(kUp))), x);
  V k;
  const V f = SplitExponent(d, scaled, k);
  k = hn::Sub(k, hn::IfThenElseZero(subnormal, hn::Set(d, static_cast<T>(Fp<T>::kMantissa))));
  const V log = LogOfSplit(d, hn::Zero(d), f, hn::Zero(d));
  return LogSpecial(d, x, hn::MulAdd(log, hn::Set(d, static_cast<T>(1.44269504088896340736)), k));
}

// The logarithm of the mantissa and the exponent's share apart, so that powers of ten come out whole.
template <class D, class V>
HWY_INLINE V Log10(D d, V x) {
  using T = hn::TFromD<D>;
  const hn::RebindToUnsigned<D> du;
  constexpr double kUp = static_cast<double>(uint64_t{1} << Fp<T>::kMantissa);
  constexpr double kHigh = sizeof(T) == 4 ? 0.301025390625 : 3.01029995663611771306e-01, kLow = sizeof(T) == 4 ? 4.60503898119521373889e-6 : 3.69423907715893078616e-13;
  const auto subnormal = hn::Lt(x, hn::BitCast(d, hn::Set(du, Fp<T>::kMinNormal)));
  const V scaled = hn::IfThenElse(subnormal, hn::Mul(x, hn::Set(d, static_cast<T>(kUp))), x);
  V k;
  const V f = SplitExponent(d, scaled, k);
  k = hn::Sub(k, hn::IfThenElseZero(subnormal, hn::Set(d, static_cast<T>(Fp<T>::kMantissa))));
  const V log = LogOfSplit(d, hn::Zero(d), f, hn::Zero(d));
  constexpr double kScale = 0.43429448190325182765, kScaleHigh = static_cast<T>(kScale);
  const V small = hn::MulAdd(log, hn::Set(d, static_cast<T>(kScale - kScaleHigh)), hn::Mul(k, hn::Set(d, static_cast<T>(kLow))));
  return LogSpecial(d, x, hn::MulAdd(k, hn::Set(d, static_cast<T>(kHigh)), hn::MulAdd(log, hn::Set(d, static_cast<T>(kScaleHigh)), small)));
}

// log(1 + x) with what 1 + x rounds away put back; Kahan's idea, as in W. Kahan, "Branch cuts for complex elementary functions" (1987).
template <class D, class V>
HWY_INLINE V Log1p(D d, V x) {
  using T = hn::TFromD<D>;
  const V one = hn::Set(d, T{1}), u = hn::Add(x, one);
  V k;
  const V f = SplitExponent(d, u, k);
  const auto near = hn::Eq(k, hn::Zero(d));
  const V lost = hn::IfThenElse(hn::Gt(k, hn::Zero(d)), hn::Sub(one, hn::Sub(u, x)), hn::Sub(x, hn::Sub(u, one)));
  const V result = LogOfSplit(d, k, hn::IfThenElse(near, x, f), hn::IfThenZeroElse(near, hn::Div(lost, u)));
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, LogSpecial(d, u, result));
}

// (e^2x - 1) / (e^2x + 1) through expm1, exact to rounding for small x.
template <class D, class V>
HWY_INLINE V Tanh(D d, V x) {
  using T = hn::TFromD<D>;
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(T) == 4 && kFullVector<D>) {
    const WideBits du;
    const V a = hn::Min(hn::Set(d, 9.5f), hn::Abs(x));
    const auto piece = hn::ShiftRight<21>(hn::Max(hn::BitCast(du, a), hn::Set(du, 492u << 21)));
    return hn::CopySign(Piecewise(tables::kTanh, a, piece), x);
  }
#endif
  const V a = hn::Min(hn::Set(d, static_cast<T>(Fp<T>::kTanhHigh)), hn::Abs(x));
  V n;
  const V doubled = hn::Add(a, a);
  const V p = ReducedExpm1(d, doubled, n), scale = PowerOf2(d, n);
  const V e = hn::MulAdd(scale, p, hn::Sub(scale, hn::Set(d, T{1})));
  return hn::CopySign(hn::Div(e, hn::Add(e, hn::Set(d, T{2}))), x);
}

// Up to 1 an odd polynomial, beyond e^|x| / 2 - 1 / (4 e^|x| / 2).
template <class D, class V>
HWY_INLINE V Sinh(D d, V x) {
  using T = hn::TFromD<D>;
  const V a = hn::Abs(x), one = hn::Set(d, T{1}), half = HalfExp(d, a), z = hn::Mul(x, x);
  V p;  // (sinh x - x) / x^3 in x^2, to 1.7e-10 or 2.2e-22 of sinh x
  if constexpr (sizeof(T) == 4) {
    constexpr double kC[] = {0.1666666664684213432, 0.008333339675917060912, 0.0001983810196868388931, 2.806280258227694618e-6};
    p = Polynomial(d, z, kC);
  } else {
    constexpr double kC[] = {0.1666666666666666667, 0.008333333333333333366, 0.000198412698412697732, 2.75573192240403386e-6,
                          2.505210836405804075e-8, 1.605904839635056164e-10, 7.646625361656657656e-13, 2.844526416989528563e-15};
    p = Polynomial(d, z, kC);
  }
  const V near = hn::MulAdd(hn::Mul(a, z), p, a), far = hn::Sub(half, hn::Div(hn::Set(d, static_cast<T>(0.25)), half));
  return hn::CopySign(hn::IfThenElse(hn::Lt(a, one), near, far), x);
}
template <class D, class V>
HWY_INLINE V Cosh(D d, V x) {
  const V half = HalfExp(d, hn::Abs(x));
  return hn::Add(half, hn::Div(hn::Set(d, hn::TFromD<D>(0.25)), half));
}

// tanh(log(1 + e^x)) = w / (w + 2) with w = e^x (e^x + 2); 1 beyond 20 (or 40).
template <class D, class V>
HWY_INLINE V TanhSoftplus(D d, V x) {
  using T = hn::TFromD<D>;
  const V e = Exp(d, hn::Min(hn::Set(d, static_cast<T>(sizeof(T) == 4 ? 20 : 40)), x)), two = hn::Set(d, T{2});
  const V w = hn::Mul(e, hn::Add(e, two));
  return hn::Div(w, hn::Add(w, two));
}

// x = n + r / ln 2, |r| <= ln 2 / 2.
template <class D, class V>
HWY_INLINE V Exp2(D d, V x) {
  using T = hn::TFromD<D>;
  constexpr double kLimit = sizeof(T) == 4 ? 152 : 1077;
  x = hn::Min(hn::Set(d, static_cast<T>(kLimit)), hn::Max(hn::Set(d, static_cast<T>(-kLimit)), x));
  const V n = hn::Round(x), r = hn::Mul(hn::Sub(x, n), hn::Set(d, static_cast<T>(0.69314718055994530942)));
  return ScaleByPower(d, hn::Add(Expm1Series(d, r), hn::Set(d, T{1})), n);
}

// x = n pi/2 + r, |r| <= pi/4, for |x| < kTrigLimit: pi/2 in parts whose products with n are exact. Sine and cosine of r; bits has n in its low bits.
template <class D, class V, class VU>
HWY_INLINE void ReducedSinCos(D d, V x, V& sine, V& cosine, VU& bits) {
  using T = hn::TFromD<D>;
  const hn::RebindToUnsigned<D> du;
  const V magic = hn::Set(d, static_cast<T>(Fp<T>::kMagic));
  const V shifted = hn::MulAdd(x, hn::Set(d, static_cast<T>(0.636619772367581343076)), magic), n = hn::Sub(shifted, magic);
  bits = hn::BitCast(du, shifted);
  V r;
  const auto part = [&](double c) HWY_ATTR { return hn::Set(d, static_cast<T>(c)); };
  const V one = part(1.0), half = part(0.5);
  V s, c;  // (sin r - r) / r^3 and (cos r - 1 + r^2/2) / r^4 in r^2, to 2e-11 and 9e-13, or 7e-21 and 5e-19
  if constexpr (sizeof(T) == 4) {
    r = hn::NegMulAdd(n, part(0.0004837512969970703125), hn::NegMulAdd(n, part(1.5703125), x));
    r = hn::NegMulAdd(n, part(2.5633441515945187882e-12), hn::NegMulAdd(n, part(7.5495336204767227173e-8), r));
    constexpr double kS[] = {-0.1666666666384404946, 0.008333331870341348483, -0.0001984008437642269811, 2.72496200800748329e-6};
    constexpr double kC[] = {0.04166666666431182336, -0.001388888766837066322, 0.00002480059840835011648, -2.730070403808623762e-7};
    s = Polynomial(d, hn::Mul(r, r), kS);
    c = Polynomial(d, hn::Mul(r, r), kC);
  } else {
    r = hn::NegMulAdd(n, part(6.07710050630396597660e-11), hn::NegMulAdd(n, part(1.57079632673412561417), x));
    r = hn::NegMulAdd(n, part(2.02226624879595063154e-21), r);
    constexpr double kS[] = {-0.1666666666666666667, 0.008333333333333331481, -0.0001984126984126504105, 2.755731921932057977e-6,
                             -2.505210622599440068e-8, 1.605853059664595275e-10, -7.586636882825061912e-13};
    constexpr double kC[] = {0.04166666666666666538, -0.001388888888888738977, 0.00002480158729875440117,
                             -2.755731726587808003e-7, 2.087614504941317667e-9, -1.138254464534910799e-11};
    s = Polynomial(d, hn::Mul(r, r), kS);
    c = Polynomial(d, hn::Mul(r, r), kC);
  }
  const V z = hn::Mul(r, r);
  sine = hn::IfThenElse(hn::Eq(r, hn::Zero(d)), r, hn::MulAdd(hn::Mul(r, z), s, r));  // keeps -0
  const V half_z = hn::Mul(half, z), w = hn::Sub(one, half_z);
  cosine = hn::Add(w, hn::MulAdd(hn::Mul(z, z), c, hn::Sub(hn::Sub(one, w), half_z)));
}

// Lanes of `result` with |x| not below the limit are replaced by f(x): each lane depends on its own value alone.
template <class D, class V, class F>
HWY_INLINE V LargeLanes(D d, V x, V result, double limit, F f) {
  using T = hn::TFromD<D>;
  if (HWY_LIKELY(hn::AllTrue(d, hn::Lt(hn::Abs(x), hn::Set(d, static_cast<T>(limit)))))) return result;
  HWY_ALIGN T in[hn::MaxLanes(d)];
  HWY_ALIGN T out[hn::MaxLanes(d)];
  hn::Store(x, d, in);
  hn::Store(result, d, out);
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    if (!(in[i] < static_cast<T>(limit) && in[i] > static_cast<T>(-limit))) out[i] = f(in[i]);
  }
  return hn::Load(d, out);
}

// sin(x + kQuarterTurns pi / 2) in float32 for |x| < kTrigLimit: x = n pi / 2 + r, |r| <= pi / 4. Both sin r = r + r z S(z) and cos r = 1 + z C(z), z = r^2,
// are base + base z P(z): the coefficients are chosen by lane.
template <int kQuarterTurns, class D, class V>
HWY_INLINE V SinOfFloat(D d, V x) {
  const hn::RebindToUnsigned<D> du;
  const V magic = hn::Set(d, static_cast<float>(Fp<float>::kMagic)), one = hn::Set(d, 1.0f);
  const V shifted = hn::MulAdd(x, hn::Set(d, 0.636619772367581343076f), magic), n = hn::Sub(shifted, magic);
#if HWY_TARGET == HWY_SSE4  // parts of pi / 2 whose products with n are exact
  const V near = hn::NegMulAdd(n, hn::Set(d, 0.0004837512969970703125f), hn::NegMulAdd(n, hn::Set(d, 1.5703125f), x));
  constexpr float kMiddle = 7.5495336204767227173e-8f, kLast = 2.5633441515945187882e-12f;
#else
  const V near = hn::NegMulAdd(n, hn::Set(d, 1.57079637050628662f), x);
  constexpr float kMiddle = -4.37113882867379e-8f, kLast = -1.71512451000588e-15f;
#endif
  const V r = hn::NegMulAdd(n, hn::Set(d, kMiddle), near);
  const V lost = hn::NegMulAdd(n, hn::Set(d, kLast), hn::NegMulAdd(n, hn::Set(d, kMiddle), hn::Sub(near, r)));  // what r has been rounded by
  const auto quarters = hn::Add(hn::BitCast(du, shifted), hn::Set(du, kQuarterTurns));
  const auto odd = hn::RebindMask(d, hn::TestBit(quarters, hn::Set(du, 1)));
  const V z = hn::Mul(r, r), base = hn::IfThenElse(odd, one, r);
  const auto pick = [&](float cosine, float sine) HWY_ATTR { return hn::IfThenElse(odd, hn::Set(d, cosine), hn::Set(d, sine)); };
  V p = pick(2.45474366e-05f, 2.72493139e-06f);  // to 3.4e-9 and 8.5e-10
  p = hn::MulAdd(p, z, pick(-0.00138883002f, -0.000198400827f));
  p = hn::MulAdd(p, z, pick(0.0416666642f, 0.00833333191f));
  p = hn::MulAdd(p, z, pick(-0.5f, -0.166666672f));
  const V value = hn::Add(base, hn::MulAdd(hn::Mul(base, z), p, hn::IfThenElse(odd, hn::Neg(hn::Mul(r, lost)), lost)));
  return hn::CopySign(value, hn::Xor(base, hn::BitCast(d, hn::ShiftLeft<30>(quarters))));  // its sign, also at -0
}

// sin(x + quarter_turns pi/2).
template <int kQuarterTurns, class D, class V>
HWY_INLINE V SinShifted(D d, V x) {
  using T = hn::TFromD<D>;
  if constexpr (sizeof(T) == 4) {
    return SinOfFloat<kQuarterTurns>(d, x);
  } else {
    const hn::RebindToUnsigned<D> du;
    V sine, cosine;
    hn::Vec<decltype(du)> bits;
    ReducedSinCos(d, x, sine, cosine, bits);
    bits = hn::Add(bits, hn::Set(du, static_cast<uint64_t>(kQuarterTurns)));
    const auto odd = hn::RebindMask(d, hn::Ne(hn::And(bits, hn::Set(du, uint64_t{1})), hn::Zero(du)));
    const auto sign = hn::ShiftLeft<62>(hn::And(bits, hn::Set(du, uint64_t{2})));
    return hn::Xor(hn::IfThenElse(odd, cosine, sine), hn::BitCast(d, sign));
  }
}
template <class D, class V>
HWY_INLINE V Sin(D d, V x) {
  return LargeLanes(d, x, SinShifted<0>(d, x), Fp<hn::TFromD<D>>::kTrigLimit, [](auto v) HWY_ATTR { return std::sin(v); });
}
template <class D, class V>
HWY_INLINE V Cos(D d, V x) {
  return LargeLanes(d, x, SinShifted<1>(d, x), Fp<hn::TFromD<D>>::kTrigLimit, [](auto v) HWY_ATTR { return std::cos(v); });
}
template <class D, class V>
HWY_INLINE V Tan(D d, V x) {
  using T = hn::TFromD<D>;
  const hn::RebindToUnsigned<D> du;
  using TU = hn::TFromD<decltype(du)>;
  V sine, cosine;
  hn::Vec<decltype(du)> bits;
  ReducedSinCos(d, x, sine, cosine, bits);
  const auto odd = hn::RebindMask(d, hn::Ne(hn::And(bits, hn::Set(du, TU{1})), hn::Zero(du)));
  const V result = hn::Div(hn::IfThenElse(odd, hn::Neg(cosine), sine), hn::IfThenElse(odd, sine, cosine));
  return LargeLanes(d, x, result, Fp<T>::kTrigLimit, [](auto v) HWY_ATTR { return std::tan(v); });
}

// atan t for t in [0, 1].
template <class D, class V>
HWY_INLINE V AtanUnit(D d, V t) {
  const V z = hn::Mul(t, t);
  V p;  // (atan t - t) / t^3 in t^2, to 3e-10 or 5e-19
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    constexpr double kC[] = {-0.3333333329330117353, 0.199999902759472717, -0.1428531796390730316, 0.1110470678864421774, -0.09036742342070774125, 0.07417496964300487712,
                             -0.05760716083128071106, 0.03832744598306425148, -0.0192610813227654169, 0.006207254533779845118, -0.0009362994719495626958};
    p = Polynomial(d, z, kC);
  } else {
    constexpr double kC[] = {-0.3333333333333333325, 0.1999999999999991932, -0.1428571428570123335, 0.1111111111026829734, -0.0909090906193527995, 0.0769230707882702926,
                             -0.06666657934573767837, 0.05882264416776448795, -0.05262492229025675129, 0.04758080083637819786, -0.04330653843067063308,
                             0.0393868754079862399, -0.03527133106687111625, 0.03033071926579019837, -0.02419134581014029594, 0.01718398172211289238,
                             -0.01041215326035886028, 0.005140912856746696376, -0.00196125542716841958, 0.0005376839297395880222,
                             -0.00009371186345051899363, 7.767624330289245723e-6};
    p = Polynomial(d, z, kC);
  }
  return hn::MulAdd(hn::Mul(t, z), p, t);
}

// kHalfTurns pi/2 - r, with the constant in two parts.
template <int kHalfTurns, class D, class V>
HWY_INLINE V QuarterTurnsMinus(D d, V r) {
  using T = hn::TFromD<D>;
  constexpr double kHigh = sizeof(T) == 4 ? 1.57079637050628662109375 : 1.5707963267948965580;
  constexpr double kLow = sizeof(T) == 4 ? -4.37113900018624283e-8 : 6.12323399573676603587e-17;
  return hn::Add(hn::Sub(hn::Set(d, static_cast<T>(kHalfTurns * kHigh)), r), hn::Set(d, static_cast<T>(kHalfTurns * kLow)));
}

template <class D, class V>
HWY_INLINE V Atan(D d, V x) {
  using T = hn::TFromD<D>;
  const V a = hn::Abs(x), one = hn::Set(d, T{1});
  const auto large = hn::Gt(a, one);
  const V r = AtanUnit(d, hn::IfThenElse(large, hn::Div(one, a), a));
  return hn::CopySign(hn::IfThenElse(large, QuarterTurnsMinus<1>(d, r), r), x);
}

template <class D, class V>
HWY_INLINE V Atan2(D d, V y, V x) {
  using T = hn::TFromD<D>;
  const V ax = hn::Abs(x), ay = hn::Abs(y), one = hn::Set(d, T{1}), inf = hn::Inf(d);
  const V small = hn::Min(ax, ay), large = hn::Max(ax, ay);
  V t = hn::IfThenElse(hn::Eq(small, inf), one, hn::Div(small, large));
  t = hn::IfThenZeroElse(hn::Eq(large, hn::Zero(d)), t);
  V r = AtanUnit(d, t);
  r = hn::IfThenElse(hn::Gt(ay, ax), QuarterTurnsMinus<1>(d, r), r);
  r = hn::IfThenElse(hn::Lt(hn::CopySign(one, x), hn::Zero(d)), QuarterTurnsMinus<2>(d, r), r);
  return hn::IfThenElse(hn::Or(hn::IsNaN(x), hn::IsNaN(y)), hn::Add(x, y), hn::CopySign(r, y));
}

// sqrt(1 - x^2) without cancellation.
template <class D, class V>
HWY_INLINE V Cathetus(D d, V x) {
  const V one = hn::Set(d, hn::TFromD<D>{1});
  return hn::Sqrt(hn::Mul(hn::Sub(one, x), hn::Add(one, x)));
}
template <class D, class V> HWY_INLINE V Asin(D d, V x) { return Atan2(d, x, Cathetus(d, x)); }
template <class D, class V> HWY_INLINE V Acos(D d, V x) { return Atan2(d, Cathetus(d, x), x); }

// Lanes where `ok` is false are replaced by f(a, b).
template <class D, class V, class M, class F>
HWY_INLINE V OtherLanes(D d, M ok, V a, V b, V result, F f) {
  using T = hn::TFromD<D>;
  if (HWY_LIKELY(hn::AllTrue(d, ok))) return result;
  HWY_ALIGN T in_a[hn::MaxLanes(d)];
  HWY_ALIGN T in_b[hn::MaxLanes(d)];
  HWY_ALIGN T out[hn::MaxLanes(d)];
  HWY_ALIGN T good[hn::MaxLanes(d)];
  hn::Store(a, d, in_a);
  hn::Store(b, d, in_b);
  hn::Store(result, d, out);
  hn::Store(hn::IfThenElseZero(ok, hn::Set(d, T{1})), d, good);
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    if (good[i] == 0) out[i] = f(in_a[i], in_b[i]);
  }
  return hn::Load(d, out);
}

// C's fmod, exact. a - trunc(a / b) b is exact with a fused multiply-add where the rounded quotient is small; it can be off by one there.
template <class D, class V>
HWY_INLINE V Fmod(D d, V a, V b) {
#if HWY_TARGET == HWY_SSE4  // no fused multiply-add
  return PerLane(d, a, b, [](auto v, auto w) HWY_ATTR { return std::fmod(v, w); });
#else
  using T = hn::TFromD<D>;
  constexpr double kLimit = sizeof(T) == 4 ? 4194304.0 : 1125899906842624.0;
  const V x = hn::Abs(a), y = hn::Abs(b), q = hn::Div(x, y), zero = hn::Zero(d);
  const auto ok = hn::And(hn::Lt(q, hn::Set(d, static_cast<T>(kLimit))), hn::Lt(y, hn::Inf(d)));
  V r = hn::NegMulAdd(hn::Trunc(q), y, x);
  r = hn::IfThenElse(hn::Lt(r, zero), hn::Add(r, y), r);
  r = hn::IfThenElse(hn::Ge(r, y), hn::Sub(r, y), r);
  return OtherLanes(d, ok, a, b, hn::CopySign(r, a), [](auto v, auto w) HWY_ATTR { return std::fmod(v, w); });
#endif
}

// x^y in double, accurate enough to round to float: e^(y log|x|), with C's special cases.
template <class D, class V>
HWY_INLINE V PowForFloat(D d, V x, V y) {
  const V zero = hn::Zero(d), one = hn::Set(d, 1.0), inf = hn::Inf(d), half = hn::Set(d, 0.5);
  const V ax = hn::Abs(x);
  const V power = Exp(d, hn::Mul(y, Log(d, ax)));
  // 1 for x = 1, y = 0 and (-1)^(+-inf)
  const auto is_one = hn::Or(hn::Or(hn::Eq(x, one), hn::Eq(y, zero)), hn::And(hn::Eq(ax, one), hn::Eq(hn::Abs(y), inf)));
  const V r = hn::IfThenElse(is_one, one, power);
  const auto integer = hn::Eq(hn::Trunc(y), y);
  const V half_y = hn::Mul(y, half);
  const auto odd = hn::And(integer, hn::Not(hn::Eq(hn::Trunc(half_y), half_y)));
  const auto undefined = hn::And(hn::And(hn::Lt(x, zero), hn::Lt(ax, inf)), hn::Not(hn::Or(integer, hn::IsNaN(y))));
  const V sign = hn::IfThenElseZero(odd, hn::And(x, hn::SignBit(d)));
  return hn::IfThenElse(undefined, hn::NaN(d), hn::Or(r, sign));
}
template <class D, class V>
HWY_INLINE V Pow(D d, V x, V y) {
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    return PerLane(d, x, y, [](auto v, auto w) HWY_ATTR { return std::pow(v, w); });
  } else {
    const hn::Half<D> dh;
    const hn::Rebind<double, decltype(dh)> dd;
    const auto low = PowForFloat(dd, hn::PromoteTo(dd, hn::LowerHalf(dh, x)), hn::PromoteTo(dd, hn::LowerHalf(dh, y)));
    const auto high = PowForFloat(dd, hn::PromoteTo(dd, hn::UpperHalf(dh, x)), hn::PromoteTo(dd, hn::UpperHalf(dh, y)));
    return hn::Combine(d, hn::DemoteTo(dh, high), hn::DemoteTo(dh, low));
  }
}

// The upper tail of the standard normal distribution at |x|, and gauss = e^(-x^2 / 2): float32 by gauss t Q(t), t = 1 / (1 + 0.35 |x| / sqrt 2), to 1e-8.
template <class D, class V>
HWY_INLINE V NormalTail(D d, V x, V& gauss) {
  using T = hn::TFromD<D>;
  const V z = hn::Mul(hn::Abs(x), hn::Set(d, static_cast<T>(0.70710678118654752440)));
  gauss = Exp(d, hn::Mul(hn::Mul(x, x), hn::Set(d, static_cast<T>(-0.5))));
  if constexpr (sizeof(T) == 8) {
    return PerLane(d, z, [](auto v) HWY_ATTR { return 0.5 * std::erfc(v); });
  } else {
    constexpr double kQ[] = {0.09874056588864698406, 0.09859010027005577398, 0.09381468425869737292, 0.07606819105914907019, 0.07207951917336576871,
                             0.04452293403998755366, -0.01425678361215842862, 0.09047616227146293406, -0.0791400233577159369, 0.01910465267178722867};
    const V one = hn::Set(d, T{1}), t = hn::Div(one, hn::MulAdd(z, hn::Set(d, static_cast<T>(0.35)), one));
    return hn::Mul(gauss, hn::Mul(t, Polynomial(d, t, kQ)));
  }
}

template <class D, class V>
HWY_INLINE V NormalTail(D d, V x) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(hn::TFromD<D>) == 4 && kFullVector<D>) {
    const V limit = hn::Set(d, 5.9f), a = hn::Min(limit, hn::Abs(x));
    const V tail = Piecewise(tables::kNormalTail, a, PieceNumber(d, a, 16.0 / 3));
    const auto beyond = hn::Lt(x, hn::Neg(limit));  // on the other side the tail counts for nothing beside x
    if (HWY_LIKELY(hn::AllFalse(d, beyond))) return tail;
    V gauss;
    return hn::IfThenElse(beyond, NormalTail(d, x, gauss), tail);
  }
#endif
  V gauss;
  return NormalTail(d, x, gauss);
}

// Up to 1 a polynomial; beyond 1 - e^-g with g(t) = -log(erfc(t)), which is nearly a parabola.
template <class D, class V>
HWY_INLINE V Erf(D d, V x) {
  using T = hn::TFromD<D>;
  if constexpr (sizeof(T) == 8) {
    return PerLane(d, x, [](auto v) HWY_ATTR { return std::erf(v); });
  } else {
#if HWY_TARGET == HWY_AVX3
    if constexpr (kFullVector<D>) {
      const V a = hn::Min(hn::Set(d, 3.93f), hn::Abs(x));
      const auto piece = PieceNumber(d, a, 8);
      const V t = hn::Sub(a, Column(tables::kErf[0], piece));
      const V first = hn::IfThenElse(hn::Eq(t, a), a, Column(tables::kErf[1], piece));  // around 0 the pieces are of erf(x) - x
      const V slope = PieceSteps<5, 2>(tables::kErf, piece, t, Column(tables::kErf[6], piece));  // without the first coefficient
      return hn::CopySign(hn::MulAdd(slope, t, first), x);
    }
#endif
    constexpr double kNear[] = {0.128379167061543415, -0.3761263846802871038, 0.1128378249523684438, -0.02686543072767023519,
                                0.005221031807858004027, -0.0008484080405534861137, 0.0001126595902560497773, -9.667044571482653565e-6};  // of erf(x) / x - 1, 4e-11
    constexpr double kFar[] = {-0.0003218662575487315154, 1.130241877483416306, 0.6318095501311520305, 0.1100972425055746628, -0.02643164328275481797,
                               0.004763509663255247485, -0.0005976772749194354204, 0.00004616478516127182843, -1.64267896842667163e-6};  // 2e-9
    const V t = hn::Min(hn::Set(d, T{4}), hn::Abs(x)), one = hn::Set(d, T{1});
    const V far = hn::Sub(one, Exp(d, hn::Neg(Polynomial(d, t, kFar))));
    const V near = hn::MulAdd(x, Polynomial(d, hn::Mul(x, x), kNear), x);
    return hn::IfThenElse(hn::Lt(t, one), near, hn::CopySign(far, x));
  }
}

}  // namespace math
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
