// Elementary and special functions on vectors, float32 and float64. Included inside foreach_target.h's passes.
//
// Largest errors in units of the last place (benchmarks/math_ulp; the bounds of pointwise_test.cc and math_test.cc),
// with AVX-512, in brackets without, where that differs: float32 0.50 to 0.55, but asin and acos 0.62 (1.1), erf
// 0.7, erfc, ndtr, ndtri and erfinv 1.1, rsqrt 1.0 (1.5), exp and exp2 (0.75), log (0.8), log1p 0.75 (0.85), expm1
// 0.8 (0.9), tanh (2.1), gelu 1 for x > -3 (7); float64 0.50 to 0.52, but exp, exp2, log, log2 and log10 0.55, erf
// 0.58, asin and acos 0.62, digamma from 2 on 0.7, pow 0.75, erfc, erfinv and mish 1, i0 2.7 (3.3), lgamma 0.51, of
// negative numbers 4.1.
//
// Names with Two give sums of two numbers (math_double-inl.h), names with Brief are of doubles and accurate enough for
// float32 results.
#if defined(TESSERA_TENSOR_CPU_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_TENSOR_CPU_MATH_INL_H_
#undef TESSERA_TENSOR_CPU_MATH_INL_H_
#else
#define TESSERA_TENSOR_CPU_MATH_INL_H_
#endif

#include <cmath>

#include "hwy/highway.h"
#include "tensor/cpu/math/math_double-inl.h"
#include "tensor/cpu/math/math_scalar.h"
#include "tensor/cpu/math/math_tables.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace math {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_AVX3
// Whether D's vectors fill a register: then there are instructions of AVX-512 for them.
template <class D>
inline constexpr bool kFullVector = hn::MaxLanes(D()) * sizeof(hn::TFromD<D>) == 64;
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

#if HWY_TARGET == HWY_AVX3
// Of each lane the entry of a row of 32 numbers that the low bits of `column` say.
HWY_INLINE hn::Vec<Wide> Column(const float (&row)[32], hn::Vec<WideBits> column) {
  return hn::Vec<Wide>{_mm512_permutex2var_ps(_mm512_load_ps(row), column.raw, _mm512_load_ps(row + 16))};
}

// A function by pieces: row 0 has their centers, the others the coefficients.
template <size_t kRow, size_t kLast, size_t N>
HWY_INLINE hn::Vec<Wide> PieceSteps(const float (&rows)[N][32], hn::Vec<WideBits> piece, hn::Vec<Wide> t,
                                    hn::Vec<Wide> r) {
  if constexpr (kRow < kLast)
    return r;
  else
    return PieceSteps<kRow - 1, kLast>(rows, piece, t, hn::MulAdd(r, t, Column(rows[kRow], piece)));
}
template <size_t N>
HWY_INLINE hn::Vec<Wide> Piecewise(const float (&rows)[N][32], hn::Vec<Wide> x, hn::Vec<WideBits> piece) {
  return PieceSteps<N - 2, 1>(rows, piece, hn::Sub(x, Column(rows[0], piece)), Column(rows[N - 1], piece));
}

// The same where the second coefficient is one float as well: with what the leading terms' sum has been rounded by.
template <size_t N>
HWY_INLINE Two<hn::Vec<Wide>> PiecewiseTwo(const float (&rows)[N][32], hn::Vec<Wide> x, hn::Vec<WideBits> piece) {
  const auto t = hn::Sub(x, Column(rows[0], piece)), c0 = Column(rows[1], piece), c1 = Column(rows[2], piece);
  const auto v = hn::MulAdd(c1, t, c0), lost = hn::MulAdd(c1, t, hn::Sub(c0, v));
  return {v, hn::MulAdd(hn::Mul(t, t), PieceSteps<N - 2, 3>(rows, piece, t, Column(rows[N - 1], piece)), lost)};
}

// x * inverse_width rounded to an integer, in the low bits.
HWY_INLINE hn::Vec<WideBits> PieceNumber(Wide d, hn::Vec<Wide> x, double inverse_width) {
  return hn::BitCast(WideBits(), hn::MulAdd(x, hn::Set(d, static_cast<float>(inverse_width)), hn::Set(d, 12582912.0f)));
}
#endif

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
// Tables of 8 columns, of which one instruction chooses for each lane.
template <class D>
inline constexpr bool kAllFloats =
    sizeof(hn::TFromD<D>) == 4 && hn::MaxLanes(D()) == hn::MaxLanes(hn::ScalableTag<float>());
using FloatColumn = hn::Vec<hn::RebindToUnsigned<hn::ScalableTag<float>>>;
HWY_INLINE hn::Vec<hn::ScalableTag<float>> EntryOf8(const float (&row)[8], FloatColumn column) {
#if HWY_TARGET == HWY_AVX3
  return hn::Vec<hn::ScalableTag<float>>{
      _mm512_permutexvar_ps(column.raw, _mm512_broadcast_f32x8(_mm256_load_ps(row)))};
#else
  return hn::Vec<hn::ScalableTag<float>>{_mm256_permutevar8x32_ps(_mm256_load_ps(row), column.raw)};
#endif
}
// row[kFirst] + row[kFirst + 1] t + ...
template <size_t kFirst, size_t N, class V>
HWY_INLINE V StepsOf8(const float (&rows)[N][8], FloatColumn column, V t) {
  if constexpr (kFirst == N - 1)
    return EntryOf8(rows[kFirst], column);
  else
    return hn::MulAdd(StepsOf8<kFirst + 1>(rows, column, t), t, EntryOf8(rows[kFirst], column));
}
#endif

// f of float32 numbers in double: f(tag of doubles, their vector...).
template <class D, class F, class... V>
HWY_INLINE hn::Vec<D> InDouble(D d, F f, V... x) {
  const hn::Half<D> dh;
  const hn::Rebind<double, decltype(dh)> dd;
  const auto low = f(dd, hn::PromoteTo(dd, hn::LowerHalf(dh, x))...),
             high = f(dd, hn::PromoteTo(dd, hn::UpperHalf(dh, x))...);
  return hn::Combine(d, hn::DemoteTo(dh, high), hn::DemoteTo(dh, low));
}
#define TESSERA_IN_DOUBLE(f) [](auto dd, auto... v) HWY_ATTR { return f(dd, v...); }

// 1 / sqrt(x): an estimate of 14 bits, improved by one step of third order (e = 1 - x y^2 is the error), which 0 and
// infinity skip.
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
template <class T>
struct Fp;
template <>
struct Fp<float> {
  static constexpr int kMantissa = 23, kBias = 127;
  static constexpr double kMagic = 12582912.0, kExpLow = -104, kExpHigh = 89, kExpm1Low = -20, kExpm1High = 88.8,
                          kTanhHigh = 10, kTrigLimit = 8192;
  static constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  static constexpr uint32_t kOne = 0x3f800000u, kSqrtHalf = 0x3f3504f3u, kMinNormal = 0x00800000u,
                            kIntegers = 0x4b000000u;
};
template <>
struct Fp<double> {
  static constexpr int kMantissa = 52, kBias = 1023;
  static constexpr double kMagic = 6755399441055744.0, kExpLow = -746, kExpHigh = 711, kExpm1Low = -40,
                          kExpm1High = 709.9, kTanhHigh = 22, kTrigLimit = 500000;
};

// 2^n for integers n of the normal range, held as floats.
template <class D, class V>
HWY_INLINE V PowerOf2(D d, V n) {
  using T = hn::TFromD<D>;
  const hn::RebindToUnsigned<D> du;
  const V shifted = hn::Add(n, hn::Set(d, static_cast<T>(Fp<T>::kMagic + Fp<T>::kBias)));
  return hn::BitCast(d, hn::ShiftLeft<Fp<T>::kMantissa>(hn::BitCast(du, shifted)));
}

// 2^n p, for integers n (full vectors of AVX-512: n is rounded down), with one rounding where the result is subnormal.
template <class D, class V>
HWY_INLINE V ScaleByPower(D d, V p, V n) {
  using T = hn::TFromD<D>;
#if HWY_TARGET == HWY_AVX3
  if constexpr (kFullVector<D>) {
    if constexpr (sizeof(T) == 4)
      return V{_mm512_scalef_ps(p.raw, n.raw)};
    else
      return V{_mm512_scalef_pd(p.raw, n.raw)};
  }
#endif
  // In two factors, so that subnormal results and those near the largest number come out.
  const V n1 = hn::Floor(hn::Mul(n, hn::Set(d, static_cast<T>(0.5))));
  return hn::Mul(hn::Mul(p, PowerOf2(d, n1)), PowerOf2(d, hn::Sub(n, n1)));
}

// The same where `some`, elsewhere 0. What is nearer to 0 than to any other number is better left out: processors take
// ten times as long where a result is below the normal numbers, also where it is rounded to 0.
template <class D, class V, class M>
HWY_INLINE V ScaleSome(D d, M some, V p, V n) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (kFullVector<D>) {
    if constexpr (sizeof(hn::TFromD<D>) == 4)
      return V{_mm512_maskz_scalef_ps(some.raw, p.raw, n.raw)};
    else
      return V{_mm512_maskz_scalef_pd(some.raw, p.raw, n.raw)};
  }
#endif
  return ScaleByPower(d, hn::IfThenElseZero(some, p), n);
}

// x, at most `high`; what is below `low`, and is left out by ScaleSome, stays where it can do no harm. A nan stays: the
// instructions return the second operand if one is.
template <class D, class V>
HWY_INLINE V Between(D d, V x, hn::TFromD<D> low, hn::TFromD<D> high) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (kFullVector<D>) return hn::Min(hn::Set(d, high), x);
#endif
  return hn::Min(hn::Set(d, high), hn::Max(hn::Set(d, low), x));
}

// float32: x = n ln 2 + r, |r| <= ln 2 / 2.
template <class D, class V>
HWY_INLINE V ReduceByLn2(D d, V x, V& n) {
  const V magic = hn::Set(d, static_cast<float>(Fp<float>::kMagic));
  n = hn::Sub(hn::MulAdd(x, hn::Set(d, 1.44269504f), magic), magic);
  return hn::NegMulAdd(n, hn::Set(d, Fp<float>::kLn2Low), hn::NegMulAdd(n, hn::Set(d, Fp<float>::kLn2High), x));
}

// float32: 2^n e^(r + low), |r| <= ln 2 / 2, where `some`.
template <class D, class V, class M>
HWY_INLINE V ExpOfFloat(D d, M some, V r, V low, V n) {
  constexpr double kC[] = {0.5000000013538729887,  0.1666666668170421504,
                           0.04166646419740569232, 0.008333310844647862564,
                           0.00139337307157920825, 0.0001989108046399884204};  // of (e^r - 1 - r) / r^2, to 2e-10
  const Two<V> sum = FastSum(hn::Set(d, 1.0f), r);
  return ScaleSome(d, some, hn::Add(sum.hi, hn::Add(sum.lo, hn::MulAdd(hn::Mul(r, r), Polynomial(d, r, kC), low))), n);
}
#if HWY_TARGET == HWY_AVX3
// 2^power e^r where `some`, |r| <= ln 2 / 64; power has been rounded to steps of 1 / 32 by kThirtySeconds, which leaves
// their number in the low bits.
constexpr float kThirtySeconds = 393216.0f;
HWY_INLINE hn::Vec<Wide> ExpOfStep(Wide d, hn::Mask<Wide> some, hn::Vec<Wide> shifted, hn::Vec<Wide> power,
                                   hn::Vec<Wide> r) {
  const auto step = hn::BitCast(WideBits(), shifted);
  const auto p = hn::MulAdd(hn::Mul(r, r), hn::MulAdd(r, hn::Set(d, 0.166667157f), hn::Set(d, 0.500002444f)),
                            r);  // e^r - 1, to 2e-10
  const auto high = Column(tables::kExp[0], step),
             value = hn::Add(high, hn::MulAdd(high, p, Column(tables::kExp[1], step)));
  return ScaleSome(d, some, value, power);
}
#endif

// float64: 2^(steps / 16) e^r where `some`, |r| <= ln 2 / 32; shifted has the number of steps in its low bits.
template <class D, class V, class M>
HWY_INLINE V ExpOfSixteenths(D d, M some, V shifted, V steps, V r) {
  const auto at = PieceAt(d, TESSERA_PIECES(kExp64), hn::BitCast(hn::RebindToUnsigned<D>(), shifted));
  const V high = at.template row<0>(), p = hn::MulAdd(hn::Mul(r, r), ExpSeries(d, r), r);
  const V value = hn::Add(high, hn::MulAdd(high, p, at.template row<1>())),
          sixteenth = hn::Mul(steps, hn::Set(d, 0.0625));
#if HWY_TARGET == HWY_AVX3
  if constexpr (kFullVector<D>) return ScaleSome(d, some, value, sixteenth);  // rounds its exponent down
#endif
  return ScaleSome(d, some, value, hn::Floor(sixteenth));
}

template <class D, class V>
HWY_INLINE V Exp(D d, V x) {
  using T = hn::TFromD<D>;
  constexpr T kLow = static_cast<T>(Fp<T>::kExpLow);
  const auto some = hn::Not(hn::Lt(x, hn::Set(d, kLow)));
  x = Between(d, x, kLow, static_cast<T>(Fp<T>::kExpHigh));
  if constexpr (sizeof(T) == 8) {
    const V shifted = ShiftedSteps(d, x, 23.083120654223414518), steps = Unshifted(d, shifted);
    const V r = hn::NegMulAdd(steps, hn::Set(d, 0x1.cf79abc9e3b3ap-44),
                              hn::NegMulAdd(steps, hn::Set(d, 0x1.62e42fefa0000p-5), x));
    return ExpOfSixteenths(d, some, shifted, steps, r);
  } else {
#if HWY_TARGET == HWY_AVX3
    if constexpr (kFullVector<D>) {
      const V shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), hn::Set(d, kThirtySeconds)),
              power = hn::Sub(shifted, hn::Set(d, kThirtySeconds));
      return ExpOfStep(
          d, some, shifted, power,
          hn::NegMulAdd(power, hn::Set(d, -1.904654212e-9f), hn::NegMulAdd(power, hn::Set(d, 0.693147182f), x)));
    }
#endif
    const V magic = hn::Set(d, static_cast<float>(Fp<float>::kMagic));
    const V n = hn::Sub(hn::MulAdd(x, hn::Set(d, 1.44269504f), magic), magic);
    const V low = hn::Set(d, Fp<float>::kLn2Low), near = hn::NegMulAdd(n, hn::Set(d, Fp<float>::kLn2High), x);
    const V r = hn::NegMulAdd(n, low, near);
    return ExpOfFloat(d, some, r, hn::NegMulAdd(n, low, hn::Sub(near, r)), n);
  }
}

// e^x = s + s p, for float32 results: x of their range, p to 1e-10.
template <class D, class V>
TESSERA_MATH_PART V BriefExp(D d, V x, V& p) {
  const hn::RebindToUnsigned<D> du;
  const V shifted = ShiftedSteps(d, x, 23.083120654223414518),
          r = hn::NegMulAdd(Unshifted(d, shifted), hn::Set(d, 0.04332169878499658183), x);
  const auto step = hn::BitCast(du, shifted);
  constexpr double kC[] = {0.5, 0.1666696050116495124, 0.04166715638980264169};
  p = hn::MulAdd(hn::Mul(r, r), Polynomial(d, r, kC), r);
  const auto power = hn::ShiftLeft<48>(hn::AndNot(hn::Set(du, uint64_t{15}), step));
  return hn::BitCast(d, hn::Add(hn::BitCast(du, Entry(d, tables::kExp64[0], step)), power));
}

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
// c0 + c1 t + c2 t^2 + rest t^3 as a sum; each of the first terms is small beside the one before.
template <class D, class V>
HWY_INLINE Two<V> LeadingTerms(D d, V c0, V c1, V c2, V rest, V t) {
  const V slope = hn::MulAdd(c2, t, c1), slope_lost = hn::MulAdd(c2, t, hn::Sub(c1, slope)),
          value = hn::MulAdd(slope, t, c0), lost = hn::MulAdd(slope, t, hn::Sub(c0, value));
  return {value, hn::MulAdd(hn::MulAdd(hn::Mul(t, t), rest, slope_lost), t, lost)};
}
// e^(a + lost) = 2^n times the sum, for full vectors of float32, |a| <= 120.
template <class D, class V>
HWY_INLINE Two<V> ExpOfFloatTwo(D d, V a, V lost, V& n) {
#if HWY_TARGET == HWY_AVX3
  const V shifted = hn::MulAdd(a, hn::Set(d, 1.44269504f), hn::Set(d, kThirtySeconds));
  n = hn::Sub(shifted, hn::Set(d, kThirtySeconds));
  const V r = hn::Add(lost,
                      hn::NegMulAdd(n, hn::Set(d, -1.904654212e-9f), hn::NegMulAdd(n, hn::Set(d, 0.693147182f), a))),
          p = hn::MulAdd(hn::Mul(r, r), hn::MulAdd(r, hn::Set(d, 0.166667157f), hn::Set(d, 0.500002444f)), r);
  const auto step = hn::BitCast(WideBits(), shifted);
  const V high = Column(tables::kExp[0], step);
  return {high, hn::MulAdd(high, p, Column(tables::kExp[1], step))};
#else
  const V magic = hn::Set(d, static_cast<float>(Fp<float>::kMagic)), part = hn::Set(d, Fp<float>::kLn2Low),
          one = hn::Set(d, 1.0f);
  n = hn::Sub(hn::MulAdd(a, hn::Set(d, 1.44269504f), magic), magic);
  const V near = hn::NegMulAdd(n, hn::Set(d, Fp<float>::kLn2High), a), r = hn::NegMulAdd(n, part, near),
          low = hn::Add(lost, hn::NegMulAdd(n, part, hn::Sub(near, r)));
  constexpr double kC[] = {0.1666666666666666667, 0.0416665546172045742, 0.008333320887169640859,
                           0.001392618358771349454, 0.0001988269833722147827};  // of Tanh
  const Two<V> e = LeadingTerms(d, one, one, hn::Set(d, 0.5f), Polynomial(d, r, kC), r);
  return {e.hi, hn::MulAdd(e.hi, low, e.lo)};
#endif
}
#endif

// 2^n x - 1 = 2 (2^(n-1) x - 1/2): e^x may overflow where the result does not.
template <class D, class V>
TESSERA_MATH_PART Two<V> Expm1Two(D d, V x) {
  V n;
  const Two<V> p = ExpTwo<false>(d, x, x, n);
  const V half_scale = PowerOf2(d, hn::Sub(n, hn::Set(d, 1.0)));
  const Two<V> half = Sum(hn::Mul(p.hi, half_scale), hn::Set(d, -0.5));
  const Two<V> sum = FastSum(half.hi, hn::MulAdd(p.lo, half_scale, half.lo));
  return {hn::Add(sum.hi, sum.hi), hn::Add(sum.lo, sum.lo)};
}
// e^x - 1 = 2 (s (1 + r + bend) + low - 1/2) for s = 2^(n/parts) / 2: half of e^x may be finite where e^x is not.
template <class D, class V>
HWY_INLINE V Expm1OfParts(D d, V s, V low, V r, V bend) {
  const Two<V> less = Sum(s, hn::Set(d, static_cast<hn::TFromD<D>>(-0.5))), product = Product(d, s, r),
               sum = FastSum(less.hi, product.hi);
  const V rest = hn::MulAdd(s, bend, hn::Add(hn::MulAdd(low, r, hn::Add(less.lo, low)), hn::Add(sum.lo, product.lo))),
          half = hn::Add(sum.hi, rest);
  return hn::Add(half, half);
}
template <class D, class V>
HWY_INLINE V Expm1(D d, V x) {
  using T = hn::TFromD<D>;
  constexpr bool kDouble = sizeof(T) == 8;
  const V v =
      hn::Min(hn::Set(d, static_cast<T>(Fp<T>::kExpm1High)), hn::Max(hn::Set(d, static_cast<T>(Fp<T>::kExpm1Low)), x));
  V y;
  if constexpr (kDouble) {
    const hn::RebindToUnsigned<D> du;
    const V shifted = ShiftedSteps(d, v, 23.083120654223414518), steps = Unshifted(d, shifted),
            near = hn::NegMulAdd(steps, hn::Set(d, 0x1.62e42fefa0000p-5), v),
            w = hn::Mul(steps, hn::Set(d, 0x1.cf79abc9e3b3ap-44)), r = hn::Sub(near, w);
    const auto step = hn::BitCast(du, shifted);
    const auto at = PieceAt(d, TESSERA_PIECES(kExp64), step);
    const V lost = hn::Sub(hn::Sub(near, r), w), bend = hn::MulAdd(hn::Mul(r, r), ExpSeries(d, r), lost);
    const auto power = hn::ShiftLeft<48>(hn::AndNot(hn::Set(du, uint64_t{15}), step));
    const V half_power = hn::BitCast(d, hn::Add(hn::Set(du, uint64_t{0x3fe} << 52), power));
    y = Expm1OfParts(d, hn::Mul(at.template row<0>(), half_power), hn::Mul(at.template row<1>(), half_power), r, bend);
  } else {
#if HWY_TARGET == HWY_AVX3
    if constexpr (kFullVector<D>) {
      const V shifted = hn::MulAdd(v, hn::Set(d, 1.44269504f), hn::Set(d, kThirtySeconds)),
              power = hn::Sub(shifted, hn::Set(d, kThirtySeconds)),
              near = hn::NegMulAdd(power, hn::Set(d, 0.693147182f), v),
              r = hn::NegMulAdd(power, hn::Set(d, -1.904654212e-9f), near);
      const auto step = hn::BitCast(WideBits(), shifted);
      const V lost = hn::NegMulAdd(power, hn::Set(d, -1.904654212e-9f), hn::Sub(near, r)),
              bend = hn::MulAdd(hn::Mul(r, r), hn::MulAdd(r, hn::Set(d, 0.166667157f), hn::Set(d, 0.500002444f)), lost);
      const V half_power = ScaleByPower(d, hn::Set(d, 0.5f), power);
      y = Expm1OfParts(d, hn::Mul(Column(tables::kExp[0], step), half_power),
                       hn::Mul(Column(tables::kExp[1], step), half_power), r, bend);
    } else
#endif
    {
      V n;
      const V r = ReduceByLn2(d, v, n), zero = hn::Zero(d);
      constexpr double kC[] = {0.5000000013538729887,  0.1666666668170421504,
                               0.04166646419740569232, 0.008333310844647862564,
                               0.00139337307157920825, 0.0001989108046399884204};  // of ExpOfFloat
      y = Expm1OfParts(d, PowerOf2(d, hn::Sub(n, hn::Set(d, 1.0f))), zero, r,
                       hn::Mul(hn::Mul(r, r), Polynomial(d, r, kC)));
    }
  }
  const V tiny = hn::Set(d, static_cast<T>(kDouble ? 1e-17 : 1e-9));  // half of a subnormal number may lose a bit
  return hn::IfThenElse(hn::Lt(hn::Abs(x), tiny), x, y);
}

// float32: u = 2^k (1 + f), 1 + f in [sqrt(1/2), sqrt(2)); u normal and positive, or k and f are garbage.
template <class D, class V>
HWY_INLINE V SplitExponent(D d, V u, V& k) {
  using F = Fp<float>;
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, u);
  const auto biased = hn::ShiftRight<F::kMantissa>(hn::Add(bits, hn::Set(du, F::kOne - F::kSqrtHalf)));  // k + bias
  const auto mantissa = hn::Add(hn::Sub(bits, hn::ShiftLeft<F::kMantissa>(biased)), hn::Set(du, F::kOne));
  k = hn::Sub(hn::BitCast(d, hn::Or(biased, hn::Set(du, F::kIntegers))), hn::Set(d, 8388608.0f + F::kBias));
  return hn::Sub(hn::BitCast(d, mantissa), hn::Set(d, 1.0f));
}

// float32: k ln 2 + log(1 + f + low) by log(1 + f) = 2 atanh(f / (2 + f)), arranged to add the small terms first.
template <bool kWithLow, class D, class V>
HWY_INLINE V LogOfSplit(D d, V k, V f, V low) {
  V whole = f, rest = hn::Mul(k, hn::Set(d, Fp<float>::kLn2Low));
  if constexpr (kWithLow) {
    whole = hn::Add(f, low);
    rest = hn::Add(rest, low);
  }
  const V half_square = hn::Mul(hn::Mul(whole, whole), hn::Set(d, 0.5f));
  const V s = hn::Div(whole, hn::Add(whole, hn::Set(d, 2.0f))), z = hn::Mul(s, s);
  constexpr double kC[] = {0.6666666655430018005, 0.4000012200081690996, 0.2855080255327472859,
                           0.2333096405181052344};  // of (2 atanh(s) - 2 s) / s^3, to 2e-11
  const V small = hn::MulAdd(s, hn::MulAdd(z, Polynomial(d, z, kC), half_square), rest);
  return hn::MulAdd(k, hn::Set(d, Fp<float>::kLn2High), hn::Sub(f, hn::Sub(half_square, small)));
}

// The logarithm where its argument u is not a positive finite number: -inf at 0, inf at inf, else nan.
template <class D, class V>
HWY_INLINE V LogSpecial(D d, V u, V result) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (kFullVector<D>) {  // by classes of numbers: nan 2, 0 4, negative 3, infinite 5, others 0
    if constexpr (sizeof(hn::TFromD<D>) == 4)
      return V{_mm512_fixupimm_ps(result.raw, u.raw, _mm512_set1_epi32(0x03530422), 0)};
    else
      return V{_mm512_fixupimm_pd(result.raw, u.raw, _mm512_set1_epi64(0x03530422), 0)};
  }
#endif
  const V zero = hn::Zero(d), inf = hn::Inf(d);
  const V special = hn::IfThenElse(hn::Eq(u, zero), hn::Neg(inf), hn::IfThenElse(hn::Eq(u, inf), inf, hn::NaN(d)));
  return hn::IfThenElse(hn::And(hn::Gt(u, zero), hn::Lt(u, inf)), result, special);
}

// A base b of float32 logarithms: rows of c, and -log_b c as a sum; log_b 2 and log_b e as sums.
struct NaturalBase {
  static constexpr auto& kTable = tables::kLog;
  static constexpr float kTwoHigh = 0x1.62e4p-1f, kTwoLow = 1.428606765330187e-06f, kEHigh = 1, kELow = 0;
};
struct BinaryBase {
  static constexpr auto& kTable = tables::kLog2;
  static constexpr float kTwoHigh = 1, kTwoLow = 0, kEHigh = 1.44269502f, kELow = 1.92596303e-8f;
};
struct DecimalBase {
  static constexpr auto& kTable = tables::kLog10;
  static constexpr float kTwoHigh = 0x1.344p-2f, kTwoLow = 4.60503907e-06f, kEHigh = 0.434294492f,
                         kELow = -1.010305e-08f;
};

#if HWY_TARGET == HWY_AVX3
// The logarithm of x, or of x + low: k log_b 2 + log_b m, m = (1 + r) / c with c from a table: r is exact, k log_b 2
// and the greater part of -log c add without rounding.
template <class Base, bool kWithLow>
HWY_INLINE hn::Vec<Wide> LogByTable(Wide d, hn::Vec<Wide> x, hn::Vec<Wide> low) {
  using V = hn::Vec<Wide>;
  const V m{_mm512_getmant_ps(x.raw, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_nan)}, k{_mm512_getexp_ps(x.raw)};
  const auto piece = hn::ShiftRight<18>(hn::BitCast(WideBits(), m));
  const V factor = Column(Base::kTable[0], piece), r = hn::MulSub(m, factor, hn::Set(d, 1.0f)),
          high = hn::MulAdd(k, hn::Set(d, Base::kTwoHigh), Column(Base::kTable[1], piece));
  V table_rest = Column(Base::kTable[2], piece);
  if constexpr (Base::kTwoLow != 0) table_rest = hn::MulAdd(k, hn::Set(d, Base::kTwoLow), table_rest);
  V whole = r;
  if constexpr (kWithLow) {
    const V lost = hn::Mul(ScaleByPower(d, low, hn::Neg(k)), factor);
    whole = hn::Add(r, lost);
    table_rest = hn::Add(table_rest, lost);
  }
  constexpr double kC[] = {-0.4999999801172232051, 0.3333333162904907406, -0.2501628647946928052,
                           0.2001396017104518636};  // of (log(1 + r) - r) / r^2 for |r| <= 1/32, to 7e-10
  const V square = hn::Mul(whole, whole), series = Polynomial(d, whole, kC);
  V first = r, rest;
  if constexpr (Base::kEHigh == 1) {
    rest = hn::MulAdd(square, series, table_rest);
  } else {
    const V scale = hn::Set(d, Base::kEHigh);
    first = hn::Mul(r, scale);
    rest = hn::MulAdd(hn::Mul(square, scale), series,
                      hn::MulAdd(r, hn::Set(d, Base::kELow), hn::Add(table_rest, hn::MulSub(r, scale, first))));
  }
  const Two<V> sum = FastSum(high, first);
  return LogSpecial(d, x, hn::Add(sum.hi, hn::Add(sum.lo, rest)));
}
#endif

// The logarithm of a positive double below infinity by `f` of it and of the power of two to add, of others by the
// rules.
template <class D, class V, class F>
HWY_INLINE V LogByParts(D d, V x, F f) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (kFullVector<D>) return LogSpecial(d, x, f(x, hn::Zero(d)));
#endif
  const auto subnormal = hn::Lt(x, hn::Set(d, 2.2250738585072014e-308));
  return LogSpecial(d, x,
                    f(hn::IfThenElse(subnormal, hn::Mul(x, hn::Set(d, 18014398509481984.0)), x),
                      hn::IfThenElseZero(subnormal, hn::Set(d, -54.0))));
}
// For float32 results, from double: log(x + low) - k ln 2, x positive and normal.
template <class D, class V>
TESSERA_MATH_PART V BriefLog(D d, V x, V low, V& k) {
  const hn::RebindToUnsigned<D> du;
  const V m = SplitDouble(d, x, k);
  const auto piece = hn::ShiftRight<48>(hn::BitCast(du, m));
  const auto at = PieceAt(d, TESSERA_PIECES(kLog64), piece);
  const V factor = at.template row<0>(), r = hn::MulAdd(low, factor, hn::MulSub(m, factor, hn::Set(d, 1.0)));
  constexpr double kC[] = {-0.4999999980024782175, 0.3333333434676742194, -0.2500124380210574671, 0.2000805207590408443,
                           -0.1566016225756820562};  // of (log(1 + r) - r) / r^2, to 1.3e-10
  return hn::Add(at.template row<1>(), hn::MulAdd(hn::Mul(r, r), Polynomial(d, r, kC), r));
}
// log(1 + x), x > -1
template <class D, class V>
HWY_NOINLINE V BriefLog1p(D d, V x) {
  const V u = hn::Add(x, hn::Set(d, 1.0));
  V k;
  const V log = BriefLog(
      d, u, hn::IfThenElseZero(hn::Lt(hn::Abs(x), hn::Set(d, 0.001)), hn::Sub(x, hn::Sub(u, hn::Set(d, 1.0)))), k);
  return hn::MulAdd(k, hn::Set(d, 0.69314718055994530942), log);
}

template <class D, class V>
HWY_INLINE V Log(D d, V x) {
  using T = hn::TFromD<D>;
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(T) == 4 && kFullVector<D>) return LogByTable<NaturalBase, false>(d, x, x);
#endif
  if constexpr (sizeof(T) == 8) {
    return LogByParts(
        d, x, [&](V u, V more) HWY_ATTR { return JoinLogBriefly(d, SplitLog<true, false>(d, u, hn::Zero(d), more)); });
  } else {
    const auto subnormal =
        hn::Lt(x, hn::BitCast(d, hn::Set(hn::RebindToUnsigned<D>(), Fp<float>::kMinNormal)));  // scaled up first
    V k;
    const V f = SplitExponent(d, hn::IfThenElse(subnormal, hn::Mul(x, hn::Set(d, 8388608.0f)), x), k);
    k = hn::Sub(k, hn::IfThenElseZero(subnormal, hn::Set(d, 23.0f)));
    return LogSpecial(d, x, LogOfSplit<false>(d, k, f, f));
  }
}

// (k + log m / ln 2) scale for the two parts of scale / ln 2 and k scale = k high + k low, the former exact: so that
// powers of the base come out whole.
template <class Base, class D, class V>
HWY_INLINE V LogToBase(D d, V x, double inverse_hi, double inverse_lo, double k_hi, double k_lo) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(hn::TFromD<D>) == 4 && kFullVector<D>) return LogByTable<Base, false>(d, x, x);
#endif
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    return LogByParts(d, x, [&](V u, V more) HWY_ATTR {
      const auto parts = SplitLog<false, false>(d, u, hn::Zero(d), more);
      const V r = parts.r.hi, half_square = hn::Mul(r, hn::Mul(r, hn::Set(d, 0.5)));
      const Two<V> a = FastSum(parts.high, r), p = Product(d, a.hi, hn::Set(d, inverse_hi)),
                   sum = FastSum(hn::Mul(parts.k, hn::Set(d, k_hi)), p.hi);
      const V small = hn::Add(hn::Add(a.lo, parts.r.lo),
                              hn::MulAdd(half_square, hn::MulSub(r, LogSeries(d, r), hn::Set(d, 1.0)), parts.rest));
      const V low = hn::MulAdd(small, hn::Set(d, inverse_hi), hn::MulAdd(a.hi, hn::Set(d, inverse_lo), p.lo));
      return hn::Add(sum.hi, hn::Add(sum.lo, hn::MulAdd(parts.k, hn::Set(d, k_lo), low)));
    });
  } else {
    const V result = InDouble(
        d,
        [&](auto dd, auto v) HWY_ATTR {
          hn::Vec<decltype(dd)> k;
          const auto log = BriefLog(dd, v, hn::Zero(dd), k);
          return hn::MulAdd(log, hn::Set(dd, inverse_hi),
                            hn::MulAdd(k, hn::Set(dd, k_hi), hn::Mul(k, hn::Set(dd, k_lo))));
        },
        x);
    return LogSpecial(d, x, result);
  }
}
template <class D, class V>
HWY_INLINE V Log2(D d, V x) {
  return LogToBase<BinaryBase>(d, x, 0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56, 1, 0);
}
template <class D, class V>
HWY_INLINE V Log10(D d, V x) {
  return LogToBase<DecimalBase>(d, x, 0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57, 0x1.34413509f7800p-2,
                                0x1.fef311f12b358p-46);
}

// log(u + low) for u > 0, low the rest of a sum rounded to u; where it is not, the rules of log u.
template <class D, class V>
HWY_INLINE V LogOfSum(D d, V u, V low) {
  V result;
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    result = JoinLogBriefly(d, SplitLog<true, true>(d, u, low, hn::Zero(d)));
  } else {
#if HWY_TARGET == HWY_AVX3
    if constexpr (kFullVector<D>) return LogByTable<NaturalBase, true>(d, u, low);
#endif
    V k;
    const V f = SplitExponent(d, u, k), least = hn::Set(d, -126.0f);
    result = LogOfSplit<true>(d, k, f, hn::Mul(low, PowerOf2(d, hn::Max(least, hn::Neg(k)))));
  }
  return LogSpecial(d, u, result);
}
template <class D, class V>
HWY_INLINE V Log1p(D d, V x) {
  const V one = hn::Set(d, hn::TFromD<D>{1}), u = hn::Add(x, one),
          low = hn::Sub(hn::Min(x, one), hn::Sub(u, hn::Max(x, one)));
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, LogOfSum(d, u, low));
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
    return hn::CopySign(Rounded(PiecewiseTwo(tables::kTanh, a, piece)), x);
  }
#endif
  const V a = hn::Min(hn::Set(d, static_cast<T>(Fp<T>::kTanhHigh)), hn::Abs(x));
  if constexpr (sizeof(T) == 8) {
    const Two<V> e = Expm1Two(d, hn::Add(a, a)), c = Sum(hn::Set(d, 2.0), e.hi);
    return hn::CopySign(Quotient(d, e, Two<V>{c.hi, hn::Add(c.lo, e.lo)}).hi, x);
  } else {
    V n;
    const V r = ReduceByLn2(d, hn::Add(a, a), n), scale = PowerOf2(d, n);
    constexpr double kC[] = {0.1666666666666666667, 0.0416665546172045742, 0.008333320887169640859,
                             0.001392618358771349454,
                             0.0001988269833722147827};  // (e^r - 1 - r - r^2/2) / r^3, to 4e-10
    const V p = hn::MulAdd(hn::Mul(r, r), hn::MulAdd(r, Polynomial(d, r, kC), hn::Set(d, 0.5f)), r);
    const V e = hn::MulAdd(scale, p, hn::Sub(scale, hn::Set(d, 1.0f)));
    return hn::CopySign(hn::Div(e, hn::Add(e, hn::Set(d, 2.0f))), x);
  }
}

// 1 / (1 + e^-x).
template <class D, class V>
HWY_INLINE V Logistic(D d, V x) {
  const V one = hn::Set(d, hn::TFromD<D>{1});
  return hn::Div(one, hn::Add(one, Exp(d, hn::Neg(x))));
}

// tanh(log(1 + e^x)) = w / (w + 2) with w = e^x (e^x + 2); 1 beyond 20 (or 40).
template <class D, class V>
HWY_INLINE V TanhSoftplus(D d, V x) {
  using T = hn::TFromD<D>;
  const V e = Exp(d, hn::Min(hn::Set(d, static_cast<T>(sizeof(T) == 4 ? 20 : 40)), x)), two = hn::Set(d, T{2});
  const V w = hn::Mul(e, hn::Add(e, two));
  return hn::Div(w, hn::Add(w, two));
}

// x times that, rounded about once.
template <class D, class V>
TESSERA_MATH_PART V BriefMish(D d, V x) {
  V p;
  const V two = hn::Set(d, 2.0), s = BriefExp(d, hn::Min(hn::Set(d, 40.0), hn::Max(hn::Set(d, -110.0), x)), p),
          e = hn::MulAdd(s, p, s), w = hn::Mul(e, hn::Add(e, two));
  return hn::Mul(x, hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -200.0)), hn::Mul(w, Inverse(d, hn::Add(w, two)))));
}
template <class D, class V>
HWY_NOINLINE V MishDouble(D d, V x) {
  const V small = hn::Set(d, -40.0), two = hn::Set(d, 2.0),
          limited = hn::Min(hn::Set(d, 40.0), hn::Max(hn::Set(d, Fp<double>::kExpLow), x));
  V n;
  const Two<V> p = ExpTwo<false>(d, limited, limited, n);
  const V scale = PowerOf2(d, hn::Max(hn::Set(d, -100.0), n));
  const Two<V> e = {hn::Mul(p.hi, scale), hn::Mul(p.lo, scale)}, more = Sum(two, e.hi),
               w = Product(d, e, Two<V>{more.hi, hn::Add(more.lo, e.lo)}), below = Sum(two, w.hi);
  const Two<V> t = Quotient(d, w, Two<V>{below.hi, hn::Add(below.lo, w.lo)});
  const V near = hn::MulAdd(x, t.hi, hn::Mul(limited, t.lo));
  return hn::IfThenElse(hn::Lt(x, small), hn::Mul(x, ScaleByPower(d, Rounded(p), n)),
                        near);  // there the hyperbolic tangent is e^x
}
template <class D, class V>
HWY_INLINE V Mish(D d, V x) {
  if constexpr (sizeof(hn::TFromD<D>) == 4)
    return InDouble(d, TESSERA_IN_DOUBLE(BriefMish), x);
  else
    return MishDouble(d, x);
}

// 2^x = 2^(n / parts) e^r.
template <class D, class V>
HWY_INLINE V Exp2(D d, V x) {
  using T = hn::TFromD<D>;
  constexpr T kLimit = sizeof(T) == 4 ? 152 : 1077;
  const auto some = hn::Not(hn::Lt(x, hn::Set(d, -kLimit)));
  x = Between(d, x, -kLimit, kLimit);
  const V ln2 = hn::Set(d, static_cast<T>(0.69314718055994530942));
  if constexpr (sizeof(T) == 8) {
    const V shifted = ShiftedSteps(d, x, 16), steps = Unshifted(d, shifted);
    return ExpOfSixteenths(d, some, shifted, steps, hn::Mul(hn::NegMulAdd(steps, hn::Set(d, 0.0625), x), ln2));
  } else {
#if HWY_TARGET == HWY_AVX3
    if constexpr (kFullVector<D>) {
      const V shifted = hn::Add(x, hn::Set(d, kThirtySeconds)), power = hn::Sub(shifted, hn::Set(d, kThirtySeconds));
      return ExpOfStep(d, some, shifted, power, hn::Mul(hn::Sub(x, power), ln2));
    }
#endif
    const V n = hn::Round(x), f = hn::Sub(x, n), r = hn::Mul(f, ln2);
    return ExpOfFloat(d, some, r, hn::MulAdd(f, hn::Set(d, -1.90465421e-9f), hn::MulSub(f, ln2, r)), n);
  }
}

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

// C's fmod, exact. a - trunc(a / b) b is exact with a fused multiply-add where the rounded quotient is small; it can be
// off by one there.
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

// log x for positive finite x, to 2^-63 of it.
template <class D, class V>
HWY_INLINE Two<V> LogForPower(D d, V x) {
  V more = hn::Zero(d);
  if constexpr (HWY_TARGET != HWY_AVX3 || hn::MaxLanes(D()) != 8) {
    const auto subnormal = hn::Lt(x, hn::Set(d, 2.2250738585072014e-308));
    x = hn::IfThenElse(subnormal, hn::Mul(x, hn::Set(d, 18014398509481984.0)), x);
    more = hn::IfThenElseZero(subnormal, hn::Set(d, -54.0));
  }
  const auto parts = SplitLog<true, false>(d, x, hn::Zero(d), more);
  const V r = parts.r.hi, third = hn::Set(d, 0x1.5555555555555p-2);
  // log(1 + r) = r - r^2 / 2 + r^3 / 3 + r^4 S / 2, the first three terms as sums
  constexpr double kC[] = {-0.5000000000000002,  0.40000000000000024, -0.33333333333005744, 0.285714285711228,
                           -0.250000006706603,   0.22222222848214607, -0.19999519652109765, 0.1818136982947192,
                           -0.16806954092954435, 0.15515556444282014};  // to 4e-20 of the logarithm
  const Two<V> square = Product(d, r, hn::Mul(r, hn::Set(d, 0.5))), cube = Product(d, square.hi, r),
               scaled = Product(d, cube.hi, hn::Add(third, third));
  const Two<V> a = FastSum(parts.high, r), b = FastSum(a.hi, hn::Neg(square.hi)), c = FastSum(b.hi, scaled.hi);
  V small = hn::MulAdd(hn::Add(cube.lo, hn::Mul(square.lo, r)), hn::Add(third, third),
                       hn::MulAdd(cube.hi, hn::Set(d, 0x1.5555555555555p-54), scaled.lo));
  small = hn::MulAdd(hn::Mul(cube.hi, r), Polynomial(d, r, kC), hn::Add(small, hn::Sub(parts.rest, square.lo)));
  return FastSum(c.hi,
                 hn::Add(hn::Add(a.lo, b.lo), hn::Add(c.lo, hn::Add(small, hn::NegMulAdd(parts.r.lo, r, parts.r.lo)))));
}
// x^y for positive finite x and finite y.
template <class D, class V>
HWY_NOINLINE V PowerOfPositive(D d, V x, V y) {
  const Two<V> log = LogForPower(d, x);
  const V limit = hn::Set(d, 760.0), rough = hn::Mul(log.hi, y), p = hn::Max(hn::Neg(limit), hn::Min(limit, rough));
  const V low = hn::IfThenElseZero(hn::Eq(p, rough), hn::MulAdd(log.lo, y, ProductMinus(d, log.hi, y, p)));
  V n;
  const Two<V> e = ExpTwo<true>(d, p, low, n);
  return ScaleByPower(d, e.hi, n);
}
// e^(y log x) in double, accurate enough to round to float.
template <class D, class V>
HWY_INLINE V BriefPower(D d, V x, V y) {
  return Exp(d, hn::Mul(y, Log(d, x)));
}
// The same of positive normal x, less accurate where it is beyond the range of float.
template <class D, class V>
HWY_INLINE V BriefPowerOfPositive(D d, V x, V y) {
  V k, p;
  const V log = BriefLog(d, x, hn::Zero(d), k),
          exponent = hn::Mul(y, hn::MulAdd(k, hn::Set(d, 0.69314718055994530942), log)),
          s = BriefExp(d, hn::Max(hn::Set(d, -700.0), hn::Min(hn::Set(d, 700.0), exponent)), p);
  return hn::MulAdd(s, p, s);
}

// x^y with C's special cases, by f(|x|, y); kExtremes: f knows about 0 and infinity.
template <bool kExtremes, class D, class V, class F>
HWY_INLINE V PowerBy(D d, V x, V y, F f) {
  const V zero = hn::Zero(d), one = hn::Set(d, 1.0), inf = hn::Inf(d), half = hn::Set(d, 0.5), ax = hn::Abs(x),
          ay = hn::Abs(y);
  V power;
  if constexpr (kExtremes) {
    power = f(d, ax, y);
  } else {
    const auto end = hn::Or(hn::Eq(ax, zero), hn::Eq(ax, inf)), huge = hn::Eq(ay, inf);
    power = f(d, hn::IfThenElse(end, one, ax), hn::IfThenElse(huge, one, y));
    const auto large = hn::Xor(hn::Gt(ax, one), hn::Lt(y, zero));
    power = hn::IfThenElse(hn::And(hn::Or(end, huge), hn::And(hn::Eq(x, x), hn::Eq(y, y))),
                           hn::IfThenElseZero(large, inf), hn::IfThenElse(hn::IsNaN(x), x, power));
  }
  // 1 for x = 1, y = 0 and (-1)^(+-inf)
  const auto is_one = hn::Or(hn::Or(hn::Eq(x, one), hn::Eq(y, zero)), hn::And(hn::Eq(ax, one), hn::Eq(ay, inf)));
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
    return PowerBy<false>(d, x, y, [](auto dd, auto a, auto b) HWY_ATTR { return PowerOfPositive(dd, a, b); });
  } else {
    return InDouble(
        d,
        [](auto dd, auto v, auto w) HWY_ATTR {
          return PowerBy<true>(dd, v, w, [](auto t, auto a, auto b) HWY_ATTR { return BriefPower(t, a, b); });
        },
        x, y);
  }
}

}  // namespace math
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
