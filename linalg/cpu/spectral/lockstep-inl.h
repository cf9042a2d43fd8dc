// Kernels of lockstep.h. Included once per SIMD target.
#include <algorithm>

#include "linalg/cpu/lockstep-inl.h"
#include "linalg/cpu/spectral/lockstep.h"

#if defined(TESSERA_LINALG_LOCKSTEP_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_LINALG_LOCKSTEP_INL
#undef TESSERA_LINALG_LOCKSTEP_INL
#else
#define TESSERA_LINALG_LOCKSTEP_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class R>
class LockstepEigh : Lockstep<R> {
  using B = Lockstep<R>;
  using B::Load;
  using B::Set;
  using B::Store;
  using typename B::M;
  using typename B::V;

 public:
  LockstepEigh(R* a, int64_t n, R* d, R* v, R* room)
      : a_(a),
        d_(d),
        v_(v),
        n_(n),
        e_(room),
        tau_(e_ + n * B::Lanes()),
        c_(tau_ + n * B::Lanes()),
        s_(c_ + n * B::Lanes()) {}

  uint32_t run() {
    reduce();
    if (v_) form();
    return iterate();
  }

 private:
  R* at(int64_t i, int64_t j) const { return a_ + (i * n_ + j) * B::Lanes(); }

  void reduce() {
    for (int64_t k = 0; k + 1 < n_; ++k) {
      const int64_t rest = n_ - k - 1;
      R *const v = at(k, k + 1), *const w = c_;
      V beta;
      const V tau = B::Reflect(v, rest, &beta);
      Store(beta, e_, k);
      Store(tau, tau_, k);
      multiply(k + 1, v, w);
      const V along = hn::Mul(hn::Mul(Set(R(-0.5)), hn::Mul(tau, tau)), B::Dot(w, v, rest));
      for (int64_t i = 0; i < rest; ++i) Store(hn::MulAdd(tau, Load(w, i), hn::Mul(along, Load(v, i))), w, i);
      for (int64_t c = 0; c < rest; ++c) {
        const V vc = Load(v, c), wc = Load(w, c);
        R* const column = at(k + 1 + c, k + 1);
        for (int64_t i = c; i < rest; ++i)
          Store(hn::NegMulAdd(vc, Load(w, i), hn::NegMulAdd(wc, Load(v, i), Load(column, i))), column, i);
      }
    }
    for (int64_t k = 0; k < n_; ++k) Store(Load(at(k, k), 0), d_, k);
  }
  // w = A v for what begins at column k.
  void multiply(int64_t k, const R* v, R* w) const {
    const int64_t n = n_ - k;
    for (int64_t i = 0; i < n; ++i) Store(Set(0), w, i);
    for (int64_t c = 0; c < n; ++c) {
      const R* const column = at(k + c, k);
      const V vc = Load(v, c);
      V sum = hn::Mul(Load(column, c), vc);
      for (int64_t i = c + 1; i < n; ++i) {
        const V x = Load(column, i);
        sum = hn::MulAdd(x, Load(v, i), sum);
        Store(hn::MulAdd(x, vc, Load(w, i)), w, i);
      }
      Store(hn::Add(sum, Load(w, c)), w, c);
    }
  }
  void form() {
    B::Identity(v_, n_, n_);
    for (int64_t k = n_ - 2; k >= 0; --k)
      B::ReflectRows(at(k, k + 1), n_ - k - 1, Load(tau_, k), v_ + (k + 1) * (n_ + 1) * B::Lanes(), n_, n_ - k - 1);
  }

  uint32_t iterate() {
    const V zero = Set(0);
    for (int64_t step = 0; step < 30 * n_ + 30; ++step) {
      V low = zero, high = zero, before = zero, last = zero, off = zero;
      M some = hn::Gt(zero, zero), closed = some;
      for (int64_t k = n_ - 2; k >= 0; --k) {
        const V size = hn::Abs(Load(e_, k)), a = Load(d_, k), b = Load(d_, k + 1);
        const M big =
            hn::And(hn::Gt(size, hn::Mul(Set(B::kEps), hn::Add(hn::Abs(a), hn::Abs(b)))), hn::Gt(size, Set(B::kFloor)));
        const V kept = hn::IfThenElseZero(big, Load(e_, k));
        Store(kept, e_, k);
        closed = hn::Or(closed, hn::And(some, hn::Not(big)));
        const M first = hn::And(big, hn::Not(some)), inside = hn::And(big, hn::Not(closed));
        high = hn::IfThenElse(first, Set(static_cast<R>(k + 1)), high);
        before = hn::IfThenElse(first, a, before);
        last = hn::IfThenElse(first, b, last);
        off = hn::IfThenElse(first, kept, off);
        low = hn::IfThenElse(inside, Set(static_cast<R>(k)), low);
        some = hn::Or(some, big);
      }
      if (hn::AllFalse(hn::ScalableTag<R>(), some)) return 0;
      if (step == 30 * n_ + 29) return B::Bits(some);
      // Of the last 2 x 2 block's eigenvalues that nearer to its last element.
      const V half = hn::Mul(Set(R(0.5)), hn::Sub(before, last)),
              root = hn::Sqrt(hn::MulAdd(half, half, hn::Mul(off, off))),
              under = hn::Add(half, hn::CopySign(root, half));
      const M is_nothing = hn::Eq(under, zero);
      const V shift = hn::NegMulAdd(
          off, hn::IfThenZeroElse(is_nothing, hn::Div(off, hn::IfThenElse(is_nothing, Set(1), under))), last);
      sweep(hn::IfThenElse(some, low, Set(static_cast<R>(n_))), high, shift);
    }
    return 0;
  }

  void sweep(V low, V high, V shift) {
    const int64_t begin = B::Least(low), end = B::Most(high);
    V x = Set(0), z = x;
    for (int64_t k = begin; k < end; ++k) {
      const V at = Set(static_cast<R>(k)), a = Load(d_, k), b = Load(d_, k + 1), off = Load(e_, k);
      const M inside = hn::And(hn::Ge(at, low), hn::Lt(at, high)), first = hn::Eq(at, low);
      x = hn::IfThenElse(first, hn::Sub(a, shift), x);
      z = hn::IfThenElse(first, off, z);
      const auto g = B::Rotation(x, z, inside);
      if (k > begin) Store(hn::IfThenElse(hn::And(inside, hn::Not(first)), g.r, Load(e_, k - 1)), e_, k - 1);
      const V change = hn::MulAdd(hn::Sub(b, a), g.s, hn::Mul(hn::Add(g.c, g.c), off));
      Store(hn::MulAdd(g.s, change, a), d_, k);
      Store(hn::NegMulAdd(g.s, change, b), d_, k + 1);
      x = hn::MulSub(g.c, change, off);
      Store(hn::IfThenElse(inside, x, off), e_, k);
      if (k + 2 < n_) {
        const V next = Load(e_, k + 1);
        const M goes_on = hn::And(inside, hn::Lt(Set(static_cast<R>(k + 1)), high));
        z = hn::Mul(g.s, next);
        Store(hn::IfThenElse(goes_on, hn::Mul(g.c, next), next), e_, k + 1);
      }
      Store(g.c, c_, k);
      Store(g.s, s_, k);
    }
    if (v_) B::RotateRows(v_, n_, begin, end, c_, s_);
  }

  R *a_, *d_, *v_;
  int64_t n_;
  R *e_, *tau_, *c_, *s_;
};

template <class R>
class LockstepSvd : Lockstep<R> {
  using B = Lockstep<R>;
  using B::Load;
  using B::Set;
  using B::Store;
  using typename B::M;
  using typename B::V;

 public:
  LockstepSvd(R* a, int64_t m, int64_t n, R* d, R* u, int64_t u_rows, R* v, R* room)
      : a_(a), m_(m), n_(n), d_(d), u_(u), u_rows_(u_rows), v_(v) {
    const int64_t lanes = B::Lanes();
    e_ = room;
    tau_left_ = e_ + n * lanes;
    tau_right_ = tau_left_ + n * lanes;
    products_ = tau_right_ + n * lanes;
    c_ = products_ + m * lanes;  // of the left rotations, then of the right ones
    s_ = c_ + (m + n) * lanes;
    rows_ = s_ + (m + n) * lanes;
  }

  uint32_t run() {
    reduce();
    if (u_) form();
    return iterate();
  }

 private:
  R* column(int64_t j, int64_t i) const { return a_ + (j * m_ + i) * B::Lanes(); }
  R* row(int64_t i, int64_t j) const { return rows_ + (i * n_ + j) * B::Lanes(); }

  void reduce() {
    for (int64_t k = 0; k < n_; ++k) {
      const int64_t rest = n_ - k - 1, below = m_ - k - 1;
      R* const v = column(k, k);
      V beta;
      const V tau = B::Reflect(v, below + 1, &beta);
      Store(beta, d_, k);
      Store(tau, tau_left_, k);
      B::ReflectRows(v, below + 1, tau, column(k + 1, k), m_, rest);
      if (rest == 0) break;
      R* const w = row(k, k + 1);
      for (int64_t j = 0; j < rest; ++j) Store(Load(column(k + 1 + j, k), 0), w, j);
      const V tau_w = B::Reflect(w, rest, &beta);
      Store(beta, e_, k);
      Store(tau_w, tau_right_, k);
      if (below == 0) continue;
      for (int64_t i = 0; i < below; ++i) Store(Set(0), products_, i);
      for (int64_t j = 0; j < rest; ++j) B::Subtract(hn::Neg(Load(w, j)), column(k + 1 + j, k + 1), products_, below);
      for (int64_t j = 0; j < rest; ++j)
        B::Subtract(hn::Mul(tau_w, Load(w, j)), products_, column(k + 1 + j, k + 1), below);
    }
  }
  void form() {
    const int64_t lanes = B::Lanes();
    B::Identity(u_, u_rows_, m_);
    for (int64_t k = n_ - 1; k >= 0; --k)
      B::ReflectRows(column(k, k), m_ - k, Load(tau_left_, k), u_ + k * (m_ + 1) * lanes, m_, u_rows_ - k);
    B::Identity(v_, n_, n_);
    for (int64_t k = n_ - 2; k >= 0; --k)
      B::ReflectRows(row(k, k + 1), n_ - k - 1, Load(tau_right_, k), v_ + (k + 1) * (n_ + 1) * lanes, n_, n_ - k - 1);
  }

  // The smaller singular value of [f g; 0 h].
  static V shift_of(V f, V g, V h) {
    f = hn::Abs(f), g = hn::Abs(g), h = hn::Abs(h);
    const V one = Set(1), least = hn::Min(f, h), most = hn::Max(f, h), tiny = Set(B::kFloor),
            inverse = hn::Div(one, hn::Max(most, tiny)), sum = hn::MulAdd(least, inverse, one),
            difference = hn::Mul(hn::Sub(most, least), inverse);
    const M is_small = hn::Lt(g, most);
    const V ratio = hn::IfThenElse(is_small, hn::Mul(g, inverse), hn::Div(most, hn::Max(g, tiny)));
    const V r2 = hn::Mul(ratio, ratio), a = hn::Mul(sum, sum), b = hn::Mul(difference, difference);
    const V near = hn::Div(Set(2), hn::Add(hn::Sqrt(hn::Add(a, r2)), hn::Sqrt(hn::Add(b, r2))));
    const V far =
        hn::Div(hn::Add(ratio, ratio), hn::Add(hn::Sqrt(hn::MulAdd(a, r2, one)), hn::Sqrt(hn::MulAdd(b, r2, one))));
    return hn::Mul(least, hn::IfThenElse(is_small, near, far));
  }

  uint32_t iterate() {
    const V zero = Set(0);
    for (int64_t step = 0; step < 40 * n_ + 30; ++step) {
      V low = zero, high = zero, before = zero, last = zero, off = zero, top = zero, least = zero, most = zero;
      M some = hn::Gt(zero, zero), closed = some;
      for (int64_t k = n_ - 2; k >= 0; --k) {
        const V size = hn::Abs(Load(e_, k)), a = Load(d_, k), b = Load(d_, k + 1), abs_a = hn::Abs(a),
                abs_b = hn::Abs(b);
        const M big =
            hn::And(hn::Gt(size, hn::Mul(Set(B::kEps), hn::Add(abs_a, abs_b))), hn::Gt(size, Set(B::kEps * B::kEps)));
        const V kept = hn::IfThenElseZero(big, Load(e_, k));
        Store(kept, e_, k);
        closed = hn::Or(closed, hn::And(some, hn::Not(big)));
        const M first = hn::And(big, hn::Not(some)), inside = hn::And(big, hn::Not(closed));
        high = hn::IfThenElse(first, Set(static_cast<R>(k + 1)), high);
        before = hn::IfThenElse(first, a, before);
        last = hn::IfThenElse(first, b, last);
        off = hn::IfThenElse(first, kept, off);
        least = hn::IfThenElse(first, abs_b, least);
        most = hn::IfThenElse(first, abs_b, most);
        low = hn::IfThenElse(inside, Set(static_cast<R>(k)), low);
        top = hn::IfThenElse(inside, a, top);
        least = hn::IfThenElse(inside, hn::Min(least, abs_a), least);
        most = hn::IfThenElse(inside, hn::Max(most, hn::Max(abs_a, size)), most);
        some = hn::Or(some, big);
      }
      if (hn::AllFalse(hn::ScalableTag<R>(), some)) return 0;
      if (step == 40 * n_ + 29) return B::Bits(some);
      const V shift = shift_of(before, off, last), abs_top = hn::Abs(top);
      const M shifted = hn::And(hn::Gt(least, hn::Mul(Set(B::kEps), most)),
                                hn::Gt(hn::Mul(shift, shift), hn::Mul(Set(B::kEps), hn::Mul(abs_top, abs_top))));
      const V start = hn::Mul(hn::Sub(abs_top, shift),
                              hn::Add(hn::CopySign(Set(1), top), hn::Div(shift, hn::IfThenElse(shifted, top, Set(1)))));
      sweep(hn::IfThenElse(some, low, Set(static_cast<R>(n_))), high, hn::IfThenElse(shifted, start, top));
    }
    return 0;
  }

  void sweep(V low, V high, V start) {
    const int64_t begin = B::Least(low), end = B::Most(high), lanes = B::Lanes();
    R *const right_c = c_ + m_ * lanes, *const right_s = s_ + m_ * lanes;
    V f = start, g = start;
    for (int64_t k = begin; k < end; ++k) {
      const V at = Set(static_cast<R>(k)), a = Load(d_, k), b = Load(d_, k + 1), off = Load(e_, k);
      const M inside = hn::And(hn::Ge(at, low), hn::Lt(at, high)), first = hn::Eq(at, low);
      f = hn::IfThenElse(first, start, f);
      g = hn::IfThenElse(first, off, g);
      const auto right = B::Rotation(f, g, inside);
      if (k > begin) Store(hn::IfThenElse(hn::And(inside, hn::Not(first)), right.r, Load(e_, k - 1)), e_, k - 1);
      f = hn::MulAdd(right.c, a, hn::Mul(right.s, off));
      const V rest = hn::MulSub(right.c, off, hn::Mul(right.s, a)), scaled = hn::Mul(right.c, b);
      const auto left = B::Rotation(f, hn::Mul(right.s, b), inside);
      Store(hn::IfThenElse(inside, left.r, a), d_, k);
      f = hn::MulAdd(left.c, rest, hn::Mul(left.s, scaled));
      Store(hn::IfThenElse(inside, hn::MulSub(left.c, scaled, hn::Mul(left.s, rest)), b), d_, k + 1);
      const M goes_on = hn::And(inside, hn::Lt(Set(static_cast<R>(k + 1)), high));
      Store(hn::IfThenElse(inside, f, off), e_, k);
      if (k + 2 < n_) {
        const V next = Load(e_, k + 1);
        g = hn::Mul(left.s, next);
        Store(hn::IfThenElse(goes_on, hn::Mul(left.c, next), next), e_, k + 1);
      }
      Store(left.c, c_, k);
      Store(left.s, s_, k);
      Store(right.c, right_c, k);
      Store(right.s, right_s, k);
    }
    if (!u_) return;
    B::RotateRows(u_, m_, begin, end, c_, s_);
    B::RotateRows(v_, n_, begin, end, right_c, right_s);
  }

  R* a_;
  int64_t m_, n_;
  R *d_, *u_;
  int64_t u_rows_;
  R *v_, *e_, *tau_left_, *tau_right_, *products_, *c_, *s_, *rows_;
};

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#endif
