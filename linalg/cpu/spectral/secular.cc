#include "linalg/cpu/spectral/secular.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "linalg/cpu/spectral/secular.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tensor/cpu/support/lanes-inl.h"
#include "tensor/cpu/support/scratch.h"
#include "tensor/cpu/support/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;
using M = hn::Mask<D>;

// p_a - p_b.
template <bool kSquared>
HWY_INLINE V Apart(V a, V b) {
  if constexpr (kSquared)
    return hn::Mul(hn::Sub(a, b), hn::Add(a, b));
  else
    return hn::Sub(a, b);
}

// 1 / x of one number or of four, which share a division: that costs four times as much as all products do. The product
// of four stays within range, since poles are of size 1 and apart (secular.h).
template <int kCount>
HWY_INLINE void Reciprocals(const V* x, V* out) {
  static_assert(kCount == 1 || kCount == 4);
  const V one = hn::Set(D(), 1.0);
  if constexpr (kCount == 1) {
    out[0] = hn::Div(one, x[0]);
  } else {
    const V first = hn::Mul(x[0], x[1]), second = hn::Mul(x[2], x[3]), all = hn::Div(one, hn::Mul(first, second)),
            of_first = hn::Mul(all, second), of_second = hn::Mul(all, first);
    out[0] = hn::Mul(of_first, x[1]);
    out[1] = hn::Mul(of_first, x[0]);
    out[2] = hn::Mul(of_second, x[3]);
    out[3] = hn::Mul(of_second, x[2]);
  }
}
template <int kCount>
HWY_INLINE V Sum(const V* x) {
  if constexpr (kCount == 1)
    return x[0];
  else
    return hn::Add(hn::Add(x[0], x[1]), hn::Add(x[2], x[3]));
}

// A root in each lane.
template <bool kSquared>
class Roots {
 public:
  // Roots first, first + 1 ...; lanes past n - 1 repeat the last one. room: for n numbers.
  Roots(const Secular& s, int64_t first, double* room)
      : s_(s), first_(first), end_(first + kLanes() < s.n ? first + kLanes() : s.n), shifted_(room) {
    shift(0, first, s.d[first]);
    if (end_ < s.n) shift(end_, s.n, s.d[end_]);
    HWY_ALIGN double low[8], high[8], width[8], low_weight[8], high_weight[8];
    for (int64_t k = 0; k < kLanes(); ++k) {
      const int64_t i = index(k);
      const bool is_last = i + 1 == s.n;
      low[k] = s.d[i];
      high[k] = is_last ? s.d[i] : s.d[i + 1];
      // The last interval has a pole without a weight at its end, and the root in its first half.
      width[k] = is_last ? 2 * s.total : s.apart(high[k], low[k]);
      low_weight[k] = s.weight[i];
      high_weight[k] = is_last ? 0 : s.weight[i + 1];
    }
    low_ = hn::Load(d_, low);
    high_ = hn::Load(d_, high);
    width_ = hn::Load(d_, width);
    low_weight_ = hn::Load(d_, low_weight);
    high_weight_ = hn::Load(d_, high_weight);
  }

  bool find() {
    const V zero = hn::Zero(d_), width = width_, half = hn::Mul(hn::Set(d_, 0.5), width);
    // In which half: its pole becomes the origin.
    origin_ = low_;
    const Value mid = value(half);
    const M is_last = hn::Eq(high_, low_), upper = hn::AndNot(is_last, hn::Lt(mid.f, zero));
    origin_ = hn::IfThenElse(upper, high_, low_);
    const V low = hn::IfThenElse(upper, hn::Neg(width), zero), high = hn::IfThenElse(upper, zero, width);
    // As if all other poles were a constant.
    const V rest = hn::MulAdd(hn::Div(hn::Set(d_, 2.0), width), hn::Sub(low_weight_, high_weight_), mid.f),
            scaled = hn::Mul(rest, width),
            a = hn::Add(hn::IfThenElse(upper, hn::Neg(scaled), scaled), hn::Add(low_weight_, high_weight_)),
            b = hn::IfThenElse(upper, hn::Neg(hn::Mul(high_weight_, width)), hn::Mul(low_weight_, width));
    V below = hn::IfThenElse(upper, hn::Neg(half), zero),
      above = hn::IfThenElse(upper, zero, hn::IfThenElse(is_last, width, half));
    x_ = inside(root_of(a, b, rest), below, above);
    const V eps = hn::Set(d_, s_.precision), brief = hn::Set(d_, 0x1p-27);
    M done = hn::Lt(zero, zero);
    for (int step = 0; step < 80; ++step) {
      const Value v = value(x_);
      const V size = hn::Add(hn::Set(d_, 1.0), hn::Sub(v.above, v.below)),
              slope = hn::Add(v.slope_below, v.slope_above);
      const M good = hn::Le(hn::Abs(v.f), hn::Mul(eps, hn::Add(size, hn::Mul(hn::Abs(x_), slope))));
      below = hn::IfThenElse(hn::Le(v.f, zero), x_, below);
      above = hn::IfThenElse(hn::Ge(v.f, zero), x_, above);
      done = hn::Or(done, good);
      if (hn::AllTrue(d_, done)) return true;
      // What has the values and slopes of the poles below, and of those above, with one pole for each.
      const V to_low = hn::Sub(low, x_), to_high = hn::Sub(high, x_), product = hn::Mul(to_low, to_high),
              c = hn::NegMulAdd(to_high, v.slope_above, hn::NegMulAdd(to_low, v.slope_below, v.f)),
              move =
                  root_of(hn::MulSub(hn::Add(to_low, to_high), v.f, hn::Mul(product, slope)), hn::Mul(product, v.f), c);
      const V to = hn::Add(x_, move), next = inside(to, below, above);
      // No number between the bounds is left.
      done = hn::Or(done, hn::Or(hn::Eq(next, x_), hn::Or(hn::Eq(next, below), hn::Eq(next, above))));
      // A step so brief that what it leaves, which is as its square, is nothing.
      const M last = hn::And(hn::Eq(next, to), hn::Le(hn::Abs(move), hn::Mul(brief, hn::Abs(x_))));
      x_ = hn::IfThenElse(done, x_, next);
      done = hn::Or(done, last);
      if (hn::AllTrue(d_, done)) return true;
    }
    return false;
  }

  void store(int64_t count, SecularRoots roots) const {
    StoreSome(origin_, d_, roots.origin + first_, count);
    StoreSome(x_, d_, roots.offset + first_, count);
  }

  static int64_t kLanes() { return static_cast<int64_t>(hn::Lanes(D())); }

 private:
  // The sum over the poles up to and from the root, and its derivative.
  struct Value {
    V f, below, above, slope_below, slope_above;
  };

  int64_t index(int64_t lane) const { return first_ + lane < s_.n ? first_ + lane : s_.n - 1; }

  // Poles from `base`. Distances of roots from there are sums of numbers of one sign for all poles before the first of
  // these roots, and for those behind the last one: no digits are lost.
  void shift(int64_t begin, int64_t end, double base) const {
    const V from = hn::Set(d_, base);
    int64_t j = begin;
    for (; j + kLanes() <= end; j += kLanes())
      hn::StoreU(Apart<kSquared>(hn::LoadU(d_, s_.d + j), from), d_, shifted_ + j);
    if (j < end) StoreSome(Apart<kSquared>(LoadSome(d_, s_.d + j, end - j), from), d_, shifted_ + j, end - j);
  }
  // Of poles j, j + 1 ...: 1 / gap(j), and their terms.
  template <int kCount, class Gap>
  HWY_INLINE void terms(int64_t j, Gap gap, V* share, V* term) const {
    V gaps[kCount];
#pragma GCC unroll 4
    for (int k = 0; k < kCount; ++k) gaps[k] = gap(j + k);
    Reciprocals<kCount>(gaps, share);
#pragma GCC unroll 4
    for (int k = 0; k < kCount; ++k) term[k] = hn::Mul(hn::Set(d_, s_.weight[j + k]), share[k]);
  }
  template <int kCount>
  HWY_INLINE void add(int64_t j, V x, V& sum, V* slope) const {
    V share[kCount], term[kCount];
    terms<kCount>(
        j, [&](int64_t i) HWY_ATTR { return hn::Sub(hn::Set(d_, shifted_[i]), x); }, share, term);
    sum = hn::Add(sum, Sum<kCount>(term));
#pragma GCC unroll 4
    for (int k = 0; k < kCount; ++k) slope[k % 2] = hn::MulAdd(term[k], share[k], slope[k % 2]);
  }
  // Poles j ... end, of which all roots lie on one side; x: where roots are, from the same base as shifted_.
  HWY_INLINE void add_all(int64_t j, int64_t end, V x, V& sum, V& slope) const {
    V parts[2] = {hn::Zero(d_), hn::Zero(d_)};
    for (; j + 4 <= end; j += 4) add<4>(j, x, sum, parts);
    for (; j < end; ++j) add<1>(j, x, sum, parts);
    slope = hn::Add(slope, hn::Add(parts[0], parts[1]));
  }
  // Poles that are below the roots of some lanes, and above those of others.
  template <int kCount>
  HWY_INLINE void add_between(int64_t j, V x, Value& v) const {
    V share[kCount], term[kCount];
    terms<kCount>(
        j, [&](int64_t i) HWY_ATTR { return hn::Sub(Apart<kSquared>(hn::Set(d_, s_.d[i]), origin_), x); }, share, term);
#pragma GCC unroll 4
    for (int k = 0; k < kCount; ++k) {
      const M is_above = hn::FirstN(d_, static_cast<size_t>(j + k - first_));
      const V slope = hn::Mul(term[k], share[k]);
      v.below = hn::Add(v.below, hn::IfThenZeroElse(is_above, term[k]));
      v.slope_below = hn::Add(v.slope_below, hn::IfThenZeroElse(is_above, slope));
      v.above = hn::Add(v.above, hn::IfThenElseZero(is_above, term[k]));
      v.slope_above = hn::Add(v.slope_above, hn::IfThenElseZero(is_above, slope));
    }
  }
  Value value(V x) const {
    Value v;
    v.below = v.above = v.slope_below = v.slope_above = hn::Zero(d_);
    const auto from = [&](int64_t pole)
                          HWY_ATTR { return hn::Add(x, Apart<kSquared>(origin_, hn::Set(d_, s_.d[pole]))); };
    add_all(0, first_, from(first_), v.below, v.slope_below);
    int64_t j = first_;
    for (; j + 4 <= end_; j += 4) add_between<4>(j, x, v);
    for (; j < end_; ++j) add_between<1>(j, x, v);
    if (end_ < s_.n) add_all(end_, s_.n, from(end_), v.above, v.slope_above);
    v.f = hn::Add(hn::Set(d_, 1.0), hn::Add(v.below, v.above));
    return v;
  }
  // The root of c t^2 - a t + b that lies between the poles, without cancellation.
  HWY_INLINE V root_of(V a, V b, V c) const {
    const V four = hn::Set(d_, 4.0), zero = hn::Zero(d_),
            root = hn::Sqrt(hn::Max(hn::NegMulAdd(hn::Mul(four, b), c, hn::Mul(a, a)), zero));
    return hn::IfThenElse(hn::Gt(a, zero), hn::Div(hn::Add(b, b), hn::Add(a, root)),
                          hn::Div(hn::Sub(a, root), hn::Add(c, c)));
  }
  // x, or the middle where it is not strictly between the bounds (or not a number).
  HWY_INLINE V inside(V x, V below, V above) const {
    return hn::IfThenElse(hn::And(hn::Gt(x, below), hn::Lt(x, above)), x,
                          hn::Mul(hn::Set(d_, 0.5), hn::Add(below, above)));
  }

  const D d_;
  const Secular& s_;
  int64_t first_, end_;
  double* shifted_;
  V low_, high_, width_, low_weight_, high_weight_, origin_, x_;
};

template <bool kSquared>
bool FindRoots(const Secular& s, int64_t begin, int64_t end, SecularRoots roots) {
  const int64_t lanes = Roots<kSquared>::kLanes();
  const ScratchArray<double> room(s.n);
  for (int64_t i = begin; i < end; i += lanes) {
    Roots<kSquared> some(s, i, room.get());
    if (!some.find()) return false;
    some.store(end - i < lanes ? end - i : lanes, roots);
  }
  return true;
}
bool SecularRootsOf(const Secular& s, int64_t begin, int64_t end, SecularRoots roots) {
  return s.squared ? FindRoots<true>(s, begin, end, roots) : FindRoots<false>(s, begin, end, roots);
}

template <bool kSquared>
void Weights(const Secular& s, SecularRoots roots, const double* z, double* exact) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < s.n; j += lanes) {
    const int64_t count = s.n - j < lanes ? s.n - j : lanes;
    const V pole = hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(count)), LoadSome(d, s.d + j, count),
                                  hn::Set(d, s.d[j])),
            at = hn::Iota(d, static_cast<double>(j));
    const auto gap = [&](int64_t i) HWY_ATTR {
      return hn::Sub(Apart<kSquared>(pole, hn::Set(d, roots.origin[i])), hn::Set(d, roots.offset[i]));
    };
    const auto apart = [&](int64_t i) HWY_ATTR {
      return Apart<kSquared>(pole, hn::IfThenElse(hn::Lt(hn::Set(d, static_cast<double>(i)), at), hn::Set(d, s.d[i]),
                                                  hn::Set(d, s.d[i + 1])));
    };
    const auto product_of = [](auto of, int64_t i)
                                HWY_ATTR { return hn::Mul(hn::Mul(of(i), of(i + 1)), hn::Mul(of(i + 2), of(i + 3))); };
    V product = gap(s.n - 1);
    // Each root goes with a pole beside it, other than this one: factors stay near 1.
    int64_t i = 0;
    for (; i + 4 < s.n; i += 4) product = hn::Mul(product, hn::Div(product_of(gap, i), product_of(apart, i)));
    for (; i + 1 < s.n; ++i) product = hn::Mul(product, hn::Div(gap(i), apart(i)));
    const V size = hn::Sqrt(hn::Abs(product));
    StoreSome(hn::CopySign(size, LoadSome(d, z + j, count)), d, exact + j, count);
  }
}
void SecularWeightsOf(const Secular& s, SecularRoots roots, const double* z, double* exact) {
  s.squared ? Weights<true>(s, roots, z, exact) : Weights<false>(s, roots, z, exact);
}

// The components, and the sum of their squares. They are rounded once: what vectors have of orthogonality comes from
// here; unless what comes after is less precise by far, and four may share a division.
template <bool kSquared, bool kPrecise>
double Components(const SecularVector& v, double origin, double offset) {
  constexpr int kCount = kPrecise ? 1 : 4;
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V o = hn::Set(d, origin), x = hn::Set(d, offset);
  const auto gap = [&](V pole) HWY_ATTR { return hn::Sub(Apart<kSquared>(pole, o), x); };
  V sum = hn::Zero(d);
  int64_t j = 0;
  for (; j + kCount * lanes <= v.n; j += kCount * lanes) {
    V gaps[kCount], share[kCount];
#pragma GCC unroll 4
    for (int k = 0; k < kCount; ++k) gaps[k] = gap(hn::LoadU(d, v.d + j + k * lanes));
    if constexpr (!kPrecise) Reciprocals<kCount>(gaps, share);
#pragma GCC unroll 4
    for (int k = 0; k < kCount; ++k) {
      const V z = hn::LoadU(d, v.z + j + k * lanes), part = kPrecise ? hn::Div(z, gaps[k]) : hn::Mul(z, share[k]);
      hn::StoreU(part, d, v.room + j + k * lanes);
      sum = hn::MulAdd(part, part, sum);
    }
  }
  for (; j < v.n; j += lanes) {
    const int64_t rest = v.n - j < lanes ? v.n - j : lanes;
    const V part = hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(rest)),
                                      hn::Div(LoadSome(d, v.z + j, rest), gap(LoadSome(d, v.d + j, rest))));
    StoreSome(part, d, v.room + j, rest);
    sum = hn::MulAdd(part, part, sum);
  }
  return Total(d, sum);
}
void SecularComponents(const SecularVector& v, bool precise, double origin, double offset, double* squares) {
  const auto of = v.squared ? precise ? Components<true, true> : Components<true, false>
                  : precise ? Components<false, true>
                            : Components<false, false>;
  *squares = of(v, origin, offset);
}

template <class R>
void Scaled(int64_t n, const double* x, double scale, R* to) {
  const D d;
  const hn::Rebind<R, D> dr;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < n; j += lanes) {
    const int64_t rest = n - j < lanes ? n - j : lanes;
    const V v = hn::Mul(rest == lanes ? hn::LoadU(d, x + j) : LoadSome(d, x + j, rest), hn::Set(d, scale));
    const auto put = [&](auto r)
                         HWY_ATTR { rest == lanes ? hn::StoreU(r, dr, to + j) : StoreSome(r, dr, to + j, rest); };
    if constexpr (sizeof(R) == sizeof(double))
      put(v);
    else
      put(hn::DemoteTo(dr, v));
  }
}
void ScaledF32(int64_t n, const double* x, double scale, float* to) { Scaled(n, x, scale, to); }
void ScaledF64(int64_t n, const double* x, double scale, double* to) { Scaled(n, x, scale, to); }

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cmath>

namespace tessera::cpu::internal {

TESSERA_SIMD_TABLE(SecularRootsOf);
TESSERA_SIMD_TABLE(SecularWeightsOf);
TESSERA_SIMD_TABLE(SecularComponents);
TESSERA_SIMD_TABLE(ScaledF32);
TESSERA_SIMD_TABLE(ScaledF64);

double normal_scale(double largest) {
  if (!(largest > 0)) return 1;
  const int exponent = std::ilogb(largest);
  return std::ldexp(1.0, -(exponent < -1000 ? -1000 : exponent));
}
bool secular_roots(const Secular& s, int64_t begin, int64_t end, SecularRoots roots) {
  return TESSERA_SIMD(SecularRootsOf)(s, begin, end, roots);
}
void secular_weights(const Secular& s, SecularRoots roots, const double* z, double* exact) {
  TESSERA_SIMD(SecularWeightsOf)(s, roots, z, exact);
}
template <class R>
void secular_vector(const SecularVector& v, double origin, double offset, R* to) {
  constexpr bool kPrecise = sizeof(R) == sizeof(double);
  double squares = 0;
  TESSERA_SIMD(SecularComponents)(v, kPrecise, origin, offset, &squares);
  if (v.minus_one >= 0) {
    v.room[v.minus_one] = -1;
    squares += 1;
  }
  const double scale = 1 / std::sqrt(squares);
  if constexpr (kPrecise)
    TESSERA_SIMD(ScaledF64)(v.n, v.room, scale, to);
  else
    TESSERA_SIMD(ScaledF32)(v.n, v.room, scale, to);
}
template void secular_vector<float>(const SecularVector&, double, double, float*);
template void secular_vector<double>(const SecularVector&, double, double, double*);

}  // namespace tessera::cpu::internal
#endif
