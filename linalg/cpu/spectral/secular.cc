#include "linalg/cpu/spectral/secular.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "linalg/cpu/spectral/secular.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tensor/cpu/support/lanes-inl.h"
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
  // Roots first, first + 1 ...; lanes past n - 1 repeat the last one.
  Roots(const Secular& s, int64_t first) : s_(s), first_(first) {
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
    const V eps = hn::Set(d_, s_.precision);
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
      const V next = inside(hn::Add(x_, move), below, above);
      // No number between the bounds is left.
      done = hn::Or(done, hn::Or(hn::Eq(next, x_), hn::Or(hn::Eq(next, below), hn::Eq(next, above))));
      x_ = hn::IfThenElse(done, x_, next);
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

  template <int kCount>
  HWY_INLINE void add(int64_t j, V x, V& sum, V& slope) const {
    V gap[kCount], share[kCount], term[kCount];
#pragma GCC unroll 4
    for (int k = 0; k < kCount; ++k) gap[k] = hn::Sub(Apart<kSquared>(hn::Set(d_, s_.d[j + k]), origin_), x);
    Reciprocals<kCount>(gap, share);
#pragma GCC unroll 4
    for (int k = 0; k < kCount; ++k) {
      term[k] = hn::Mul(hn::Set(d_, s_.weight[j + k]), share[k]);
      share[k] = hn::Mul(term[k], share[k]);
    }
    sum = hn::Add(sum, Sum<kCount>(term));
    slope = hn::Add(slope, Sum<kCount>(share));
  }
  // Poles j ... end.
  HWY_INLINE void add_all(int64_t j, int64_t end, V x, V& sum, V& slope) const {
    for (; j + 4 <= end; j += 4) add<4>(j, x, sum, slope);
    for (; j < end; ++j) add<1>(j, x, sum, slope);
  }
  Value value(V x) const {
    Value v;
    v.below = v.above = v.slope_below = v.slope_above = hn::Zero(d_);
    const int64_t last = first_ + kLanes() - 1, middle = last < s_.n ? last : s_.n - 1;
    add_all(0, first_ + 1, x, v.below, v.slope_below);
    // Poles that are below the roots of some lanes.
    for (int64_t j = first_ + 1; j <= middle; ++j) {
      V sum = hn::Zero(d_), slope = hn::Zero(d_);
      add<1>(j, x, sum, slope);
      HWY_ALIGN double at[8];
      for (int64_t k = 0; k < kLanes(); ++k) at[k] = static_cast<double>(index(k));
      const M is_below = hn::Ge(hn::Load(d_, at), hn::Set(d_, static_cast<double>(j)));
      v.below = hn::Add(v.below, hn::IfThenElseZero(is_below, sum));
      v.slope_below = hn::Add(v.slope_below, hn::IfThenElseZero(is_below, slope));
      v.above = hn::Add(v.above, hn::IfThenZeroElse(is_below, sum));
      v.slope_above = hn::Add(v.slope_above, hn::IfThenZeroElse(is_below, slope));
    }
    add_all(middle + 1, s_.n, x, v.above, v.slope_above);
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
  int64_t first_;
  V low_, high_, width_, low_weight_, high_weight_, origin_, x_;
};

template <bool kSquared>
bool FindRoots(const Secular& s, int64_t begin, int64_t end, SecularRoots roots) {
  const int64_t lanes = Roots<kSquared>::kLanes();
  for (int64_t i = begin; i < end; i += lanes) {
    Roots<kSquared> some(s, i);
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

template <bool kSquared>
double Components(int64_t n, const double* poles, const double* z, double origin, double offset, double* vector) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V o = hn::Set(d, origin), x = hn::Set(d, offset);
  V sum = hn::Zero(d);
  int64_t j = 0;
  // Rounded once: what vectors have of orthogonality comes from here.
  for (; j + lanes <= n; j += lanes) {
    const V v = hn::Div(hn::LoadU(d, z + j), hn::Sub(Apart<kSquared>(hn::LoadU(d, poles + j), o), x));
    hn::StoreU(v, d, vector + j);
    sum = hn::MulAdd(v, v, sum);
  }
  if (j < n) {
    const int64_t rest = n - j;
    const V gap = hn::Sub(Apart<kSquared>(LoadSome(d, poles + j, rest), o), x),
            v = hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(rest)), hn::Div(LoadSome(d, z + j, rest), gap));
    StoreSome(v, d, vector + j, rest);
    sum = hn::MulAdd(v, v, sum);
  }
  return Total(d, sum);
}
double SecularVectorOf(int64_t n, bool squared, const double* d, const double* z, double origin, double offset,
                       double* vector) {
  return squared ? Components<true>(n, d, z, origin, offset, vector)
                 : Components<false>(n, d, z, origin, offset, vector);
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cmath>

namespace tessera::cpu::internal {

TESSERA_SIMD_TABLE(SecularRootsOf);
TESSERA_SIMD_TABLE(SecularWeightsOf);
TESSERA_SIMD_TABLE(SecularVectorOf);

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
double secular_vector(int64_t n, bool squared, const double* d, const double* z, double origin, double offset,
                      double* vector) {
  return std::sqrt(TESSERA_SIMD(SecularVectorOf)(n, squared, d, z, origin, offset, vector));
}

}  // namespace tessera::cpu::internal
#endif
