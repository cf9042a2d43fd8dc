// Eigenvectors out of the real Schur forms in lanes: back-substitution, a vector of all lanes at a time. Included once
// per SIMD target.
#include <algorithm>
#include <limits>

#include "linalg/cpu/lockstep-inl.h"

#if defined(TESSERA_LINALG_LOCKSTEP_VECTORS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_LINALG_LOCKSTEP_VECTORS_INL
#undef TESSERA_LINALG_LOCKSTEP_VECTORS_INL
#else
#define TESSERA_LINALG_LOCKSTEP_VECTORS_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// t and z: rows of n + 1; blocks on the diagonal of t as schur.h has them. Where lanes have a pair in rows j and j + 1,
// vector j is solved for, and vector j + 1 is its conjugate.
template <class R>
class LockstepVectors : Lockstep<R> {
  using B = Lockstep<R>;
  using B::Load;
  using B::Set;
  using B::Store;
  using typename B::M;
  using typename B::V;

 public:
  // w: eigenvalues, v: results, as of LockstepEigKernels. scale: by which rows of the vectors are multiplied. room:
  // 2 (n + 2).
  LockstepVectors(const R* t, const R* z, int64_t n, const R* w, const R* scale, R* room, R* v)
      : t_(t), z_(z), n_(n), ld_(n + 1), w_(w), scale_(scale), re_(room), im_(room + (n + 2) * B::Lanes()), v_(v) {}

  // The lanes in which numbers became too large, or too small.
  M run() {
    M wrong = hn::Gt(Set(0), Set(0));
    for (int64_t j = 0; j < n_; ++j) {
      const V im = Load(w_, n_ + j);
      const M pair = hn::Gt(im, Set(0)), second = hn::Lt(im, Set(0));
      const int64_t last = hn::AllFalse(typename B::D(), pair) ? j : j + 1;
      begin(j, pair, second);
      substitute(j, last);
      wrong = hn::Or(wrong, hn::AndNot(second, combine(j, last, pair)));
      if (hn::AllFalse(typename B::D(), second)) continue;
      R* const to = v_ + 2 * j * n_ * B::Lanes();
      const R* const first = to - 2 * n_ * B::Lanes();
      for (int64_t i = 0; i < n_; ++i) {
        Store(hn::IfThenElse(second, Load(first, i), Load(to, i)), to, i);
        Store(hn::IfThenElse(second, hn::Neg(Load(first, n_ + i)), Load(to, n_ + i)), to, n_ + i);
      }
    }
    return wrong;
  }

 private:
  struct Complex {
    V re, im;
  };
  V get(int64_t i, int64_t j) const { return Load(t_, i * ld_ + j); }
  static HWY_INLINE Complex Times(Complex a, Complex b) {
    return {hn::NegMulAdd(a.im, b.im, hn::Mul(a.re, b.re)), hn::MulAdd(a.re, b.im, hn::Mul(a.im, b.re))};
  }
  // 1 / a, or 1 / least for smaller ones.
  static HWY_INLINE Complex Inverse(Complex a, V least) {
    const V size = hn::Max(hn::Abs(a.re), hn::Abs(a.im));
    const M small = hn::Lt(size, least);
    const V scale = hn::Div(Set(1), hn::IfThenElse(small, least, size));
    const V re = hn::IfThenElse(small, Set(1), hn::Mul(a.re, scale)),
            im = hn::IfThenZeroElse(small, hn::Mul(a.im, scale));
    const V over = hn::Div(scale, hn::MulAdd(re, re, hn::Mul(im, im)));
    return {hn::Mul(re, over), hn::Neg(hn::Mul(im, over))};
  }

  // The elements of vector j that are known: of a block [a, b; c, a] with b c < 0 and root r, (1, i r / b) or
  // (-r / c, i).
  void begin(int64_t j, M pair, M second) {
    const V one = Set(1), zero = Set(0), root = Load(w_, n_ + j);
    Store(hn::IfThenZeroElse(second, one), re_, j);
    Store(zero, im_, j);
    if (j + 1 == n_) return;
    Store(zero, re_, j + 1);
    Store(zero, im_, j + 1);
    if (hn::AllFalse(typename B::D(), pair)) return;
    const V b = get(j, j + 1), c = get(j + 1, j);
    const M upper = hn::Ge(hn::Abs(b), hn::Abs(c));
    const V over = hn::Div(root, hn::IfThenElse(pair, hn::IfThenElse(upper, b, c), one));
    Store(hn::IfThenElse(hn::AndNot(upper, pair), hn::Neg(over), Load(re_, j)), re_, j);
    Store(hn::IfThenElseZero(pair, hn::IfThenElse(upper, over, one)), im_, j + 1);
  }

  // (t - w) x = 0, from row j - 1 up. The row of a block below waits for the one above.
  void substitute(int64_t j, int64_t last) {
    const V zero = Set(0), size = hn::Add(hn::Abs(Load(w_, j)), hn::Abs(Load(w_, n_ + j)));
    const V floor = Set(std::numeric_limits<R>::min() * (static_cast<R>(n_) / (2 * B::kEps)));
    const V least = hn::Max(hn::Mul(Set(2 * B::kEps), size), floor);
    Complex below{zero, zero};
    for (int64_t i = j - 1; i >= 0; --i) {
      const Complex rest = product(i, i + 1, last);
      Complex x = rest;
      const Complex p{hn::Sub(get(i, i), Load(w_, j)), hn::Neg(Load(w_, n_ + j))};
      const V c = get(i + 1, i);
      const M top = i + 1 < j ? hn::Ne(c, zero) : hn::Gt(zero, zero);
      if (hn::AllFalse(typename B::D(), top)) {
        x = Times(x, Inverse(p, least));
      } else {
        // [p, b; c, p] (x, y) = (x, below), whose determinant is (p - i m)(p + i m).
        const V b = get(i, i + 1), m = hn::IfThenElseZero(top, hn::Mul(hn::Sqrt(hn::Abs(b)), hn::Sqrt(hn::Abs(c))));
        const Complex one = Inverse({p.re, hn::Sub(p.im, m)}, least), other = Inverse({p.re, hn::Add(p.im, m)}, least);
        const Complex px = Times(p, x), pb = Times(p, below);
        const Complex up =
            Times(Times({hn::NegMulAdd(b, below.re, px.re), hn::NegMulAdd(b, below.im, px.im)}, one), other);
        const Complex down = Times(Times({hn::NegMulAdd(c, x.re, pb.re), hn::NegMulAdd(c, x.im, pb.im)}, one), other);
        x = Times(x, one);  // m is 0 where there is one row
        x = {hn::IfThenElse(top, up.re, x.re), hn::IfThenElse(top, up.im, x.im)};
        Store(hn::IfThenElse(top, down.re, Load(re_, i + 1)), re_, i + 1);
        Store(hn::IfThenElse(top, down.im, Load(im_, i + 1)), im_, i + 1);
      }
      const M waits = i > 0 ? hn::Ne(get(i, i - 1), zero) : hn::Gt(zero, zero);
      if (!hn::AllFalse(typename B::D(), waits)) {
        below = rest;
        x = {hn::IfThenZeroElse(waits, x.re), hn::IfThenZeroElse(waits, x.im)};
      }
      Store(x.re, re_, i);
      Store(x.im, im_, i);
    }
  }
  // -sum of t(i, l) x[l] for l from `from` to `last`.
  HWY_INLINE Complex product(int64_t i, int64_t from, int64_t last) const {
    Complex sum{Set(0), Set(0)}, other = sum;
    int64_t l = from;
    for (; l < last; l += 2) {
      const V t = get(i, l), u = get(i, l + 1);
      sum.re = hn::NegMulAdd(t, Load(re_, l), sum.re);
      sum.im = hn::NegMulAdd(t, Load(im_, l), sum.im);
      other.re = hn::NegMulAdd(u, Load(re_, l + 1), other.re);
      other.im = hn::NegMulAdd(u, Load(im_, l + 1), other.im);
    }
    if (l == last) {
      const V t = get(i, l);
      sum.re = hn::NegMulAdd(t, Load(re_, l), sum.re);
      sum.im = hn::NegMulAdd(t, Load(im_, l), sum.im);
    }
    return {hn::Add(sum.re, other.re), hn::Add(sum.im, other.im)};
  }

  // v_j = z x, of norm 1; the largest element of complex ones is turned to be real.
  M combine(int64_t j, int64_t last, M pair) {
    V most = Set(0);
    for (int64_t l = 0; l <= last; ++l) most = hn::Max(most, hn::Add(hn::Abs(Load(re_, l)), hn::Abs(Load(im_, l))));
    const M good = hn::And(hn::Gt(most, Set(0)), hn::Lt(most, Set(std::numeric_limits<R>::max())));
    const V inverse = hn::Div(Set(1), hn::IfThenElse(good, most, Set(1)));
    for (int64_t l = 0; l <= last; ++l) {
      Store(hn::Mul(inverse, Load(re_, l)), re_, l);
      Store(hn::Mul(inverse, Load(im_, l)), im_, l);
    }
    R* const to = v_ + 2 * j * n_ * B::Lanes();
    int64_t row = 0;
    for (; row + 4 <= n_; row += 4) multiply_rows<4>(row, last, to);
    for (; row < n_; ++row) multiply_rows<1>(row, last, to);
    V total = Set(0), largest = Set(-1), at = Set(0), at_re = Set(1), at_im = Set(0);
    for (int64_t i = 0; i < n_; ++i) {
      const V re = Load(to, i), im = Load(to, n_ + i);
      const V square = hn::MulAdd(re, re, hn::Mul(im, im));
      const M larger = hn::Gt(square, largest);
      total = hn::Add(total, square);
      largest = hn::IfThenElse(larger, square, largest);
      at = hn::IfThenElse(larger, Set(static_cast<R>(i)), at);
      at_re = hn::IfThenElse(larger, re, at_re);
      at_im = hn::IfThenElse(larger, im, at_im);
    }
    constexpr R kLeast = std::numeric_limits<R>::min() / (B::kEps * B::kEps), kMost = 1 / kLeast;
    const M finite = hn::And(hn::Gt(total, Set(kLeast)), hn::Lt(total, Set(kMost)));
    const V length = hn::Sqrt(hn::IfThenElse(finite, total, Set(1)));
    const V root = hn::Sqrt(hn::IfThenElse(finite, largest, Set(1)));
    const V over = hn::Div(Set(1), hn::IfThenElse(pair, hn::Mul(root, length), length));
    const Complex turn{hn::Mul(over, hn::IfThenElse(pair, at_re, Set(1))),
                       hn::IfThenElseZero(pair, hn::Neg(hn::Mul(over, at_im)))};
    for (int64_t i = 0; i < n_; ++i) {
      const Complex x = Times({Load(to, i), Load(to, n_ + i)}, turn);
      const M real = hn::Eq(at, Set(static_cast<R>(i)));
      Store(hn::Add(x.re, Set(0)), to, i);  // no negative zeros, as in lockstep-inl.h
      Store(hn::Add(hn::IfThenZeroElse(real, x.im), Set(0)), to, n_ + i);
    }
    return hn::Not(hn::And(good, finite));
  }
  // Rows of scale z x.
  template <int kRows>
  HWY_INLINE void multiply_rows(int64_t row, int64_t last, R* to) const {
    V re[kRows], im[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) re[r] = im[r] = Set(0);
    for (int64_t l = 0; l <= last; ++l) {
      const V x = Load(re_, l), y = Load(im_, l);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const V f = Load(z_, (row + r) * ld_ + l);
        re[r] = hn::MulAdd(f, x, re[r]);
        im[r] = hn::MulAdd(f, y, im[r]);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const V f = Load(scale_, row + r);
      Store(hn::Mul(f, re[r]), to, row + r);
      Store(hn::Mul(f, im[r]), to, n_ + row + r);
    }
  }

  const R *t_, *z_;
  const int64_t n_, ld_;
  const R *w_, *scale_;
  R *re_, *im_, *v_;
};

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#endif
