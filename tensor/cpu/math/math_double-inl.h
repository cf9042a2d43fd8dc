// Parts of the float64 functions: numbers as unevaluated sums of two, so that results are rounded once or very nearly
// so. Included by math-inl.h.
#if defined(TESSERA_TENSOR_CPU_MATH_DOUBLE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_TENSOR_CPU_MATH_DOUBLE_INL_H_
#undef TESSERA_TENSOR_CPU_MATH_DOUBLE_INL_H_
#else
#define TESSERA_TENSOR_CPU_MATH_DOUBLE_INL_H_
#endif

#include <utility>

#include "hwy/highway.h"
#include "tensor/cpu/math/math_tables64.h"

// Parts that many functions call: there for speed with AVX2 and AVX-512, for a smaller program without.
#undef TESSERA_MATH_PART
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
#define TESSERA_MATH_PART HWY_INLINE
#else
#define TESSERA_MATH_PART HWY_NOINLINE
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace math {
namespace hn = hwy::HWY_NAMESPACE;

template <class V>
struct Two {
  V hi, lo;
};

// a + b where |a| >= |b| or a = 0.
template <class V>
HWY_INLINE Two<V> FastSum(V a, V b) {
  const V s = hn::Add(a, b);
  return {s, hn::Sub(b, hn::Sub(s, a))};
}
template <class V>
HWY_INLINE Two<V> Sum(V a, V b) {
  const V s = hn::Add(a, b), t = hn::Sub(s, a);
  return {s, hn::Add(hn::Sub(a, hn::Sub(s, t)), hn::Sub(b, t))};
}
template <class V>
HWY_INLINE V Rounded(Two<V> x) {
  return hn::Add(x.hi, x.lo);
}

#if HWY_TARGET == HWY_SSE4  // no fused multiply-add: halves of 26 bits, or of 12
template <class D, class V>
HWY_INLINE V UpperBits(D d, V x) {
  const hn::RebindToUnsigned<D> du;
  constexpr int kLower = sizeof(hn::TFromD<D>) == 8 ? 27 : 12;
  return hn::And(x, hn::BitCast(d, hn::Set(du, static_cast<hn::TFromD<decltype(du)>>(~uint64_t{0} << kLower))));
}
#endif

// a b - c, where c is nearly a b.
template <class D, class V>
HWY_INLINE V ProductMinus(D d, V a, V b, V c) {
#if HWY_TARGET == HWY_SSE4
  const V ah = UpperBits(d, a), bh = UpperBits(d, b), al = hn::Sub(a, ah), bl = hn::Sub(b, bh);
  return hn::Add(hn::Add(hn::Add(hn::Sub(hn::Mul(ah, bh), c), hn::Mul(ah, bl)), hn::Mul(al, bh)), hn::Mul(al, bl));
#else
  return hn::MulSub(a, b, c);
#endif
}
template <class D, class V>
HWY_INLINE Two<V> Product(D d, V a, V b) {
  const V p = hn::Mul(a, b);
  return {p, ProductMinus(d, a, b, p)};
}
template <class D, class V>
HWY_INLINE Two<V> Product(D d, Two<V> a, Two<V> b) {
  const Two<V> p = Product(d, a.hi, b.hi);
  return FastSum(p.hi, hn::Add(p.lo, hn::MulAdd(a.hi, b.lo, hn::Mul(a.lo, b.hi))));
}
// 1 / x to 2^-42 or better, for finite x that are not 0.
template <class D, class V>
HWY_INLINE V Inverse(D d, V x) {
  const V one = hn::Set(d, 1.0);
#if HWY_TARGET == HWY_AVX3
  if constexpr (hn::MaxLanes(D()) == 8) {
    const V y{_mm512_rcp14_pd(x.raw)}, e = hn::NegMulAdd(x, y, one);
    return hn::MulAdd(y, hn::MulAdd(e, e, e), y);
  }
#endif
  return hn::Div(one, x);
}
// For finite a and b whose quotient is neither infinite nor, b not being 0, undefined.
template <class D, class V>
TESSERA_MATH_PART Two<V> Quotient(D d, Two<V> a, Two<V> b) {
  const V inverse = Inverse(d, b.hi), q = hn::Mul(a.hi, inverse);
  const V rest = hn::Sub(a.lo, hn::MulAdd(q, b.lo, ProductMinus(d, q, b.hi, a.hi)));
  return FastSum(q, hn::Mul(rest, inverse));
}
template <class D, class V>
TESSERA_MATH_PART Two<V> Root(D d, Two<V> a) {  // 0 for 0
  const V half = hn::Set(d, 0.5);
  V root, half_inverse;
#if HWY_TARGET == HWY_AVX3
  if constexpr (hn::MaxLanes(D()) == 8) {
    const V y{_mm512_rsqrt14_pd(a.hi.raw)}, e = hn::NegMulAdd(hn::Mul(a.hi, y), y, hn::Set(d, 1.0)),
                                            h = hn::Mul(y, half);
    half_inverse = hn::MulAdd(hn::Mul(h, e), hn::MulAdd(e, hn::Set(d, 0.375), half), h);
    root = hn::Mul(a.hi, hn::Add(half_inverse, half_inverse));
  } else
#endif
  {
    root = hn::Sqrt(a.hi);
    half_inverse = hn::Div(half, root);
  }
  const Two<V> sum = FastSum(root, hn::Mul(hn::Sub(a.lo, ProductMinus(d, root, root, a.hi)), half_inverse));
  const auto zero = hn::Eq(a.hi, hn::Zero(d));
  return {hn::IfThenZeroElse(zero, sum.hi), hn::IfThenZeroElse(zero, sum.lo)};
}
template <class M, class V>
HWY_INLINE Two<V> Choose(M m, Two<V> yes, Two<V> no) {
  return {hn::IfThenElse(m, yes.hi, no.hi), hn::IfThenElse(m, yes.lo, no.lo)};
}

// The entry of a table that the low four bits of each lane of `index` say.
template <class D, class VU>
HWY_INLINE hn::Vec<D> Entry(D d, const double (&table)[16], VU index) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (hn::MaxLanes(D()) == 8)
    return hn::Vec<D>{_mm512_permutex2var_pd(_mm512_load_pd(table), index.raw, _mm512_load_pd(table + 8))};
#elif HWY_TARGET == HWY_AVX2
  // Four loads take less time than a gather.
  if constexpr (hn::MaxLanes(D()) == 4) {
    const __m128i low = _mm256_castsi256_si128(index.raw), high = _mm256_extracti128_si256(index.raw, 1);
    const auto two = [&](__m128i at) HWY_ATTR {
      const __m128d first = _mm_load_sd(table + (_mm_cvtsi128_si32(at) & 15));
      return _mm_loadh_pd(first, table + (_mm_extract_epi32(at, 2) & 15));
    };
    return hn::Vec<D>{_mm256_insertf128_pd(_mm256_castpd128_pd256(two(low)), two(high), 1)};
  }
#endif
  const hn::RebindToSigned<D> di;
  return hn::GatherIndex(d, table, hn::And(hn::BitCast(di, index), hn::Set(di, 15)));
}

// A table of pieces, [row][piece], of which many rows are read at one index: TESSERA_PIECES(name) is what functions of
// such tables take, AtPiece(d, ...).row<k>() the entries of row k.
#undef TESSERA_PIECES
#if HWY_TARGET == HWY_AVX2
// With AVX2 a column is contiguous, and two rows of four lanes are loaded and transposed: in half the time of gathering
// them, and by instructions of which every processor does two or three at once.
template <const auto& kRows>
struct PieceColumns {
  static constexpr size_t kCount = sizeof(kRows) / sizeof(kRows[0]), kStride = (kCount + 1) / 2 * 2;
  static constexpr const auto& rows() { return kRows; }
  struct Table {
    alignas(64) double column[16][kStride];
  };
  static constexpr Table kTable = [] {
    Table t = {};
    for (size_t row = 0; row < kCount; ++row)
      for (size_t piece = 0; piece < 16; ++piece) t.column[piece][row] = kRows[row][piece];
    return t;
  }();
};
#define TESSERA_PIECES(name) math::PieceColumns<tables::name>()

template <class D, class R>
class AtPiece {
 public:
  static constexpr size_t kCount = R::kCount;
  HWY_INLINE AtPiece(D, R, hn::Vec<hn::RebindToUnsigned<D>> index) {
    if constexpr (kFull) {
      const __m128i low = _mm256_castsi256_si128(index.raw), high = _mm256_extracti128_si256(index.raw, 1);
      from_[0] = R::kTable.column[_mm_cvtsi128_si32(low) & 15];
      from_[1] = R::kTable.column[_mm_extract_epi32(low, 2) & 15];
      from_[2] = R::kTable.column[_mm_cvtsi128_si32(high) & 15];
      from_[3] = R::kTable.column[_mm_extract_epi32(high, 2) & 15];
    } else {
      index_ = index;
    }
  }
  template <size_t kRow>
  HWY_INLINE hn::Vec<D> row() const {
    if constexpr (kFull) {  // of both rows of a pair the loads are the same, and done once
      const __m256d even = two(from_[0] + kRow / 2 * 2, from_[2] + kRow / 2 * 2),
                    odd = two(from_[1] + kRow / 2 * 2, from_[3] + kRow / 2 * 2);
      return hn::Vec<D>{kRow % 2 == 0 ? _mm256_unpacklo_pd(even, odd) : _mm256_unpackhi_pd(even, odd)};
    } else {
      return Entry(D(), R::rows()[kRow], index_);
    }
  }

 private:
  static HWY_INLINE __m256d two(const double* low, const double* high) {
    return _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_load_pd(low)), _mm_load_pd(high), 1);
  }
  static constexpr bool kFull = hn::MaxLanes(D()) == 4;
  const double* from_[4];
  hn::Vec<hn::RebindToUnsigned<D>> index_;
};
#else
#define TESSERA_PIECES(name) tables::name
template <class D, class R>
class AtPiece {
 public:
  using Index = hn::Vec<hn::RebindToUnsigned<D>>;
  static constexpr size_t kCount = sizeof(R) / sizeof(double[16]);
  HWY_INLINE AtPiece(D d, const R& rows, Index index) : d_(d), rows_(rows), index_(index) {}
  template <size_t kRow>
  HWY_INLINE hn::Vec<D> row() const {
    return Entry(d_, rows_[kRow], index_);
  }

 private:
  D d_;
  const R& rows_;
  Index index_;
};
#endif

template <class D, class R>
HWY_INLINE AtPiece<D, R> PieceAt(D d, const R& rows, hn::Vec<hn::RebindToUnsigned<D>> index) {
  return AtPiece<D, R>(d, rows, index);
}

// c[0] + c[1] x + ..., by Horner's rule. The coefficients interpolate at Chebyshev nodes of the reduced range; errors
// are noted relative to the result. Recursion instead of a loop, which GCC 12 leaves a loop.
template <size_t kNext, class D, class V, size_t N>
HWY_INLINE V HornerSteps(D d, V x, V r, const double (&c)[N]) {
  if constexpr (kNext == 0)
    return r;
  else
    return HornerSteps<kNext - 1>(d, x, hn::MulAdd(r, x, hn::Set(d, static_cast<hn::TFromD<D>>(c[kNext - 1]))), c);
}
template <class D, class V, size_t N>
HWY_INLINE V Polynomial(D d, V x, const double (&c)[N]) {
  return HornerSteps<N - 1>(d, x, hn::Set(d, static_cast<hn::TFromD<D>>(c[N - 1])), c);
}

// (e^r - 1 - r) / r^2 for |r| <= ln 2 / 32, to 4e-20 of e^r
template <class D, class V>
HWY_INLINE V ExpSeries(D d, V r) {
  constexpr double kC[] = {0.5,
                           0.1666666666666666756,
                           0.04166666666359424433,
                           0.008333333332991953541,
                           0.001388906347556762972,
                           0.0001984146382626154535};
  return Polynomial(d, r, kC);
}
// 2^steps/16 e^(r + low) = 2^n times the result, |r| <= ln 2 / 32.
template <class D, class V>
HWY_INLINE Two<V> ExpOfStep(D d, V shifted_steps, V r, V low) {
  const auto step = hn::BitCast(hn::RebindToUnsigned<D>(), shifted_steps);
  const V rest = hn::MulAdd(hn::Mul(r, r), ExpSeries(d, r), low);
  const auto at = PieceAt(d, TESSERA_PIECES(kExp64), step);
  const V high = at.template row<0>(), tiny = at.template row<1>();
  const Two<V> p = Product(d, high, r), s = FastSum(high, p.hi);
  return FastSum(s.hi, hn::Add(s.lo, hn::Add(p.lo, hn::MulAdd(high, rest, hn::MulAdd(tiny, r, tiny)))));
}
// x / step rounded, plus a number that leaves the integer in the low bits.
template <class D, class V>
HWY_INLINE V ShiftedSteps(D d, V x, double inverse_step) {
  return hn::MulAdd(x, hn::Set(d, inverse_step), hn::Set(d, 6755399441055744.0));
}
template <class D, class V>
HWY_INLINE V Unshifted(D d, V shifted) {
  return hn::Sub(shifted, hn::Set(d, 6755399441055744.0));
}

// e^(x + low) = 2^n times the result, for |x| < 1100, low small beside 1 and 0 if not kWithLow.
template <bool kWithLow, class D, class V>
TESSERA_MATH_PART Two<V> ExpTwo(D d, V x, V low, V& n) {
  const V shifted = ShiftedSteps(d, x, 23.083120654223414518), steps = Unshifted(d, shifted);
  n = hn::Floor(hn::Mul(steps, hn::Set(d, 0.0625)));
  const V exact = hn::NegMulAdd(steps, hn::Set(d, 0x1.62e42fefa0000p-5), x),
          w = hn::Mul(steps, hn::Set(d, 0x1.cf79abc9e3b3ap-44)), r = hn::Sub(exact, w);
  const V lost = hn::Sub(hn::Sub(exact, r), w);
  return ExpOfStep(d, shifted, r, kWithLow ? hn::Add(hn::MulAdd(low, r, low), lost) : lost);
}

// x = 2^k m, m in [3/4, 3/2), for positive normal x; with AVX-512 for subnormal x too.
template <class D, class V>
HWY_INLINE V SplitDouble(D d, V x, V& k) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (hn::MaxLanes(D()) == 8) {
    const __m512d m = _mm512_getmant_pd(x.raw, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan), e = _mm512_getexp_pd(x.raw),
                  one = _mm512_set1_pd(1.0);
    k = V{_mm512_mask_add_pd(e, _mm512_cmp_pd_mask(m, one, _CMP_LT_OQ), e, one)};
    return V{m};
  }
#endif
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, x), one = hn::Set(du, uint64_t{0x3ff0000000000000});
  const auto biased = hn::ShiftRight<52>(hn::Add(bits, hn::Set(du, uint64_t{0x0008000000000000})));  // k + 1023
  k = hn::Sub(hn::BitCast(d, hn::Or(biased, hn::Set(du, uint64_t{0x4330000000000000}))),
              hn::Set(d, 4503599627370496.0 + 1023));
  return hn::BitCast(d, hn::Add(hn::Sub(bits, hn::ShiftLeft<52>(biased)), one));
}

// log(1 + r) - log(factor): the parts of a logarithm before they are summed.
template <class V>
struct LogParts {
  Two<V> r;
  V high, rest, k;
};
// Those of log(x + low) + more ln 2 for positive normal x and integers `more`, low = 0 if not kWithLow; the parts of k
// ln 2 are left out if not kNatural.
template <bool kNatural, bool kWithLow, class D, class V>
TESSERA_MATH_PART LogParts<V> SplitLog(D d, V x, V low, V more) {
  const hn::RebindToUnsigned<D> du;
  V k;
  const V m = SplitDouble(d, x, k);
  const auto piece = hn::ShiftRight<48>(hn::BitCast(du, m));
  const auto at = PieceAt(d, TESSERA_PIECES(kLog64), piece);
  const V factor = at.template row<0>();
  const Two<V> product = Product(d, m, factor);
  V lost = product.lo;
  if constexpr (kWithLow) {
    const V large = hn::Sub(hn::Set(d, 6755399441055744.0 + 1023), hn::Min(k, hn::Set(d, 1000.0)));
    lost = hn::MulAdd(low, hn::Mul(hn::BitCast(d, hn::ShiftLeft<52>(hn::BitCast(du, large))), factor), lost);
  }
  const Two<V> r = FastSum(hn::Sub(product.hi, hn::Set(d, 1.0)), lost);
  k = hn::Add(k, more);
  V high = at.template row<1>(), rest = at.template row<2>();
  if constexpr (kNatural) {
    high = hn::MulAdd(k, hn::Set(d, 0x1.62e42fefa3800p-1), high);  // both multiples of 2^-42
    rest = hn::MulAdd(k, hn::Set(d, 0x1.ef35793c76730p-45), rest);
  }
  return {r, high, rest, k};
}
template <class D, class V>
HWY_INLINE V LogSeries(D d, V r) {  // 2 (log(1 + r) - r + r^2 / 2) / r^3, to 1.4e-18 of log(1 + r)
  constexpr double kC[] = {0.6666666666666665164,  -0.5000000000001357516,  0.4000000000036527192,
                           -0.3333333324646034268, 0.2857142655101128828,   -0.2500013348502402344,
                           0.222259531801483434,   -0.19956452253758482402, 0.16130996586213097918};
  return Polynomial(d, r, kC);
}
template <class D, class V>
TESSERA_MATH_PART Two<V> JoinLog(D d, const LogParts<V>& p) {
  const Two<V> square = Product(d, p.r.hi, hn::Mul(p.r.hi, hn::Set(d, 0.5)));
  const Two<V> a = FastSum(p.high, p.r.hi), b = FastSum(a.hi, hn::Neg(square.hi));
  const V small = hn::Add(hn::NegMulAdd(p.r.lo, p.r.hi, p.r.lo),
                          hn::MulAdd(hn::Mul(p.r.hi, square.hi), LogSeries(d, p.r.hi), hn::Sub(p.rest, square.lo)));
  return FastSum(b.hi, hn::Add(a.lo, hn::Add(b.lo, small)));
}
// Rounded, to 0.56 units in the last place.
template <class D, class V>
HWY_INLINE V JoinLogBriefly(D d, const LogParts<V>& p) {
  const V r = p.r.hi, half_square = hn::Mul(r, hn::Mul(r, hn::Set(d, 0.5)));
  const Two<V> a = FastSum(p.high, r);
  return hn::Add(a.hi, hn::Add(hn::Add(a.lo, p.r.lo),
                               hn::MulAdd(half_square, hn::MulSub(r, LogSeries(d, r), hn::Set(d, 1.0)), p.rest)));
}
template <class D, class V>
HWY_INLINE Two<V> LogTwo(D d, Two<V> x) {
  return JoinLog(d, SplitLog<true, true>(d, x.hi, x.lo, hn::Zero(d)));
}
// log(1 + x) for finite x > -1.
template <class D, class V>
HWY_NOINLINE Two<V> Log1pTwo(D d, Two<V> x) {
  const Two<V> u = Sum(hn::Set(d, 1.0), x.hi);
  return LogTwo(d, Two<V>{u.hi, hn::Add(u.lo, x.lo)});
}

// x = n pi / 16 + r for |x| < 500000: r, and the number with n in its low bits.
template <class D, class V>
TESSERA_MATH_PART Two<V> SixteenthsOfPi(D d, V x, V& shifted) {
  shifted = ShiftedSteps(d, x, 5.0929581789406507446);
  const V n = Unshifted(d, shifted), part2 = hn::Set(d, -0x1.de973dcb3b39ap-34);
  const Two<V> w = Product(d, n, part2), a = Sum(hn::NegMulAdd(n, hn::Set(d, 0x1.921fb54800000p-3), x), hn::Neg(w.hi));
  return FastSum(a.hi, hn::Sub(a.lo, hn::MulAdd(n, hn::Set(d, 0x1.45c06e0e68948p-89), w.lo)));
}
// sin(n pi / 16 + r), |r| <= pi / 32, n the low bits of `step`; z = r^2, odd = sin r - r, even = cos r - 1.
template <class D, class V, class VU>
TESSERA_MATH_PART Two<V> SinOfStep(D d, VU step, Two<V> r, V odd, V even) {
  const V s = Entry(d, tables::kSin64[0], step), c = Entry(d, tables::kSin64[2], step);
  const Two<V> p = Product(d, c, r.hi), a = FastSum(s, p.hi);
  const V tables_rest = hn::MulAdd(Entry(d, tables::kSin64[3], step), r.hi, Entry(d, tables::kSin64[1], step));
  const V rest = hn::MulAdd(s, even, hn::MulAdd(c, odd, hn::Add(p.lo, tables_rest)));
  const auto sign = hn::And(hn::BitCast(d, hn::ShiftLeft<59>(step)), hn::SignBit(d));
  return {hn::Xor(a.hi, sign), hn::Xor(hn::Add(a.lo, rest), sign)};
}
template <class D, class V>
HWY_INLINE void SinAndCosParts(D d, Two<V> r, V& odd, V& even) {
  const V z = hn::Mul(r.hi, r.hi);
  constexpr double kS[] = {-0.166666666666666665, 0.008333333333327722965, -0.0001984126955027903101,
                           2.755248948101120558e-6};  // of (sin r - r) / r^3, to 2e-20
  constexpr double kC[] = {-0.4999999999999999814, 0.04166666666660495398, -0.001388888856880547111,
                           0.00002479627466638970305};  // of (cos r - 1) / r^2, to 2e-19
  odd = hn::MulAdd(hn::Mul(r.hi, z), Polynomial(d, z, kS), r.lo);
  even = hn::MulAdd(z, Polynomial(d, z, kC), hn::Neg(hn::Mul(r.hi, r.lo)));
}

// A function by pieces: rows of its value and slope as sums, then the other coefficients.
// PieceRest: the rows from kEnd - 1 down to kFirst as a polynomial.
template <size_t kFirst, size_t kEnd, class P, class V>
HWY_INLINE V PieceRest(const P& at, V t, V r) {
  if constexpr (kEnd == kFirst)
    return r;
  else
    return PieceRest<kFirst, kEnd - 1>(at, t, hn::MulAdd(r, t, at.template row<kEnd - 1>()));
}
template <size_t kFirst, size_t kEnd, class P, class V>
HWY_INLINE V PieceRest(const P& at, V t) {
  return PieceRest<kFirst, kEnd - 1>(at, t, at.template row<kEnd - 1>());
}
template <class D, class R, class V, class VU>
TESSERA_MATH_PART Two<V> PieceTwo(D d, const R& rows, VU piece, Two<V> t) {
  const AtPiece<D, R> at(d, rows, piece);
  const V first = at.template row<0>(), slope = at.template row<2>();
  const Two<V> p = Product(d, slope, t.hi), a = FastSum(first, p.hi);
  const V curved =
      hn::MulAdd(hn::Mul(t.hi, t.hi), PieceRest<4, AtPiece<D, R>::kCount>(at, t.hi), hn::MulAdd(slope, t.lo, p.lo));
  return FastSum(a.hi, hn::Add(a.lo, hn::Add(curved, hn::MulAdd(at.template row<3>(), t.hi, at.template row<1>()))));
}
// The first kEnd rows of a table of pieces, without the low parts of value and slope.
template <size_t kEnd, class D, class R, class V, class VU>
HWY_INLINE V BriefPiece(D d, const R& rows, VU piece, V t) {
  const auto at = PieceAt(d, rows, piece);
  return hn::MulAdd(hn::MulAdd(PieceRest<4, kEnd>(at, t), t, at.template row<2>()), t, at.template row<0>());
}

// atan(y / x), 0 <= y <= x, x positive: that of c, y / x about, and of (y - c x) / (x + c y).
template <class D, class V>
TESSERA_MATH_PART Two<V> AtanTwo(D d, V y, V x) {
  const V shifted = hn::Min(ShiftedSteps(d, hn::Mul(y, Inverse(d, x)), 16), hn::Set(d, 6755399441055744.0 + 15)),
          c = hn::Mul(Unshifted(d, shifted), hn::Set(d, 0.0625));
  const auto step = hn::BitCast(hn::RebindToUnsigned<D>(), shifted);
  const Two<V> p = Product(d, c, x), q = Product(d, c, y), below = FastSum(x, q.hi);
  const Two<V> u = Quotient(d, Two<V>{hn::Sub(y, p.hi), hn::Neg(p.lo)}, Two<V>{below.hi, hn::Add(below.lo, q.lo)});
  constexpr double kC[] = {-0.3333333333333333331, 0.1999999999999899598, -0.1428571427824759092, 0.1111109167395434832,
                           -0.09070251167237973511};  // of (atan u - u) / u^3, to 2.3e-22
  const V z = hn::Mul(u.hi, u.hi);
  const Two<V> a = FastSum(Entry(d, tables::kAtan64[0], step), u.hi);
  const V rest = hn::Add(Entry(d, tables::kAtan64[1], step), hn::MulAdd(hn::Mul(u.hi, z), Polynomial(d, z, kC), u.lo));
  return FastSum(a.hi, hn::Add(a.lo, rest));
}
// kHalfTurns pi / 2 - r
template <int kHalfTurns, class D, class V>
HWY_INLINE Two<V> QuarterTurnsMinus(D d, Two<V> r) {
  const Two<V> a = FastSum(hn::Set(d, kHalfTurns * 1.5707963267948965580), hn::Neg(r.hi));
  return {a.hi, hn::Add(a.lo, hn::Sub(hn::Set(d, kHalfTurns * 6.123233995736766e-17), r.lo))};
}

}  // namespace math
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
