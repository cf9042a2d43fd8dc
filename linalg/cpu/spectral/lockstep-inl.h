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
        ld_(lockstep_pitch(n)),
        e_(room),
        tau_(e_ + n * B::Lanes()),
        w_(tau_ + n * B::Lanes()),
        sweeps_(v, n, ld_, w_ + n * B::Lanes(), n) {}

  uint32_t run() {
    reduce();
    if (v_) form();
    const uint32_t failed = iterate();
    if (v_) sweeps_.apply();
    return failed;
  }

 private:
  R* at(int64_t i, int64_t j) const { return a_ + (i * ld_ + j) * B::Lanes(); }

  void reduce() {
    for (int64_t k = 0; k + 1 < n_; ++k) {
      const int64_t rest = n_ - k - 1;
      R *const v = at(k, k + 1), *const w = w_;
      V beta;
      const V tau = B::Reflect(v, rest, &beta);
      Store(beta, e_, k);
      Store(tau, tau_, k);
      multiply(k + 1, v, w);
      const V along = hn::Mul(hn::Mul(Set(R(-0.5)), hn::Mul(tau, tau)), B::Dot(w, v, rest));
      for (int64_t i = 0; i < rest; ++i) Store(hn::MulAdd(tau, Load(w, i), hn::Mul(along, Load(v, i))), w, i);
      int64_t c = 0;
      for (; c + 4 <= rest; c += 4) subtract<4>(k + 1, c, rest, v, w);
      for (; c < rest; ++c) subtract<1>(k + 1, c, rest, v, w);
    }
    for (int64_t k = 0; k < n_; ++k) Store(Load(at(k, k), 0), d_, k);
  }
  // Of what begins at column k, columns [c, c + kColumns) minus v w^T + w v^T, below the diagonal.
  template <int kColumns>
  void subtract(int64_t k, int64_t c, int64_t n, const R* v, const R* w) const {
    V vc[kColumns], wc[kColumns];
    const auto one = [&](int q, int64_t i, V vi, V wi) HWY_ATTR {
      R* const x = at(k + c + q, k + i);
      Store(hn::NegMulAdd(vc[q], wi, hn::NegMulAdd(wc[q], vi, Load(x, 0))), x, 0);
    };
#pragma GCC unroll 4
    for (int q = 0; q < kColumns; ++q) vc[q] = Load(v, c + q), wc[q] = Load(w, c + q);
#pragma GCC unroll 4
    for (int q = 0; q < kColumns; ++q) {
#pragma GCC unroll 4
      for (int p = q; p < kColumns; ++p) one(q, c + p, vc[p], wc[p]);
    }
    for (int64_t i = c + kColumns; i < n; ++i) {
      const V vi = Load(v, i), wi = Load(w, i);
#pragma GCC unroll 4
      for (int q = 0; q < kColumns; ++q) one(q, i, vi, wi);
    }
  }
  // w = A v for what begins at column k.
  void multiply(int64_t k, const R* v, R* w) const {
    const int64_t n = n_ - k;
    for (int64_t i = 0; i < n; ++i) Store(Set(0), w, i);
    int64_t c = 0;
    for (; c + 4 <= n; c += 4) multiply_columns<4>(k, c, n, v, w);
    for (; c < n; ++c) multiply_columns<1>(k, c, n, v, w);
  }
  template <int kColumns>
  void multiply_columns(int64_t k, int64_t c, int64_t n, const R* v, R* w) const {
    V vc[kColumns], sum[kColumns];
#pragma GCC unroll 4
    for (int q = 0; q < kColumns; ++q) {
      vc[q] = Load(v, c + q);
      sum[q] = hn::Mul(Load(at(k + c + q, k + c + q), 0), vc[q]);
    }
#pragma GCC unroll 4
    for (int q = 0; q < kColumns; ++q) {
#pragma GCC unroll 4
      for (int p = q + 1; p < kColumns; ++p) {
        const V x = Load(at(k + c + q, k + c + p), 0);
        sum[q] = hn::MulAdd(x, vc[p], sum[q]);
        sum[p] = hn::MulAdd(x, vc[q], sum[p]);
      }
    }
    for (int64_t i = c + kColumns; i < n; ++i) {
      const V vi = Load(v, i);
      V wi = Load(w, i);
#pragma GCC unroll 4
      for (int q = 0; q < kColumns; ++q) {
        const V x = Load(at(k + c + q, k + i), 0);
        sum[q] = hn::MulAdd(x, vi, sum[q]);
        wi = hn::MulAdd(x, vc[q], wi);
      }
      Store(wi, w, i);
    }
#pragma GCC unroll 4
    for (int q = 0; q < kColumns; ++q) Store(hn::Add(sum[q], Load(w, c + q)), w, c + q);
  }
  void form() {
    B::Identity(v_, n_, ld_);
    for (int64_t k = n_ - 2; k >= 0; --k)
      B::ReflectRows(at(k, k + 1), n_ - k - 1, Load(tau_, k), v_ + (k + 1) * (ld_ + 1) * B::Lanes(), ld_, n_ - k - 1);
  }

  uint32_t iterate() {
    const V zero = Set(0);
    int64_t top = n_ - 1;  // what is below is done in all lanes
    for (int64_t step = 0; step < 30 * n_ + 30; ++step) {
      V low = zero, high = zero, before = zero, last = zero, off = zero;
      M some = hn::Gt(zero, zero), closed = some;
      for (int64_t k = top - 1; k >= 0; --k) {
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
      top = B::Most(high);
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
    R *const cosines = sweeps_.cosines(), *const sines = sweeps_.sines();
    V x = Set(0), z = x;
    for (int64_t k = begin; k < end; ++k) {
      const V at = Set(static_cast<R>(k)), a = Load(d_, k), b = Load(d_, k + 1), off = Load(e_, k);
      const M inside = hn::And(hn::Ge(at, low), hn::Lt(at, high)), first = hn::Eq(at, low);
      x = hn::IfThenElse(first, hn::Sub(a, shift), x);
      z = hn::IfThenElse(first, off, z);
      const auto g = B::Rotation(x, z, inside);
      if (k > begin) Store(hn::IfThenElse(hn::And(inside, hn::Not(first)), g.r, Load(e_, k - 1)), e_, k - 1);
      const V change = hn::MulAdd(hn::Sub(b, a), g.s, hn::Mul(g.c, hn::Add(off, off)));
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
      Store(g.c, cosines, k);
      Store(g.s, sines, k);
    }
    if (v_) sweeps_.add(begin, end);
  }

  R *a_, *d_, *v_;
  int64_t n_, ld_;
  R *e_, *tau_, *w_;
  typename B::Sweeps sweeps_;
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
      : a_(a),
        m_(m),
        n_(n),
        ld_(lockstep_pitch(m)),
        ld_v_(lockstep_pitch(n)),
        d_(d),
        u_(u),
        u_rows_(u_rows),
        v_(v),
        e_(room),
        tau_left_(e_ + n * B::Lanes()),
        tau_right_(tau_left_ + n * B::Lanes()),
        factors_(tau_right_ + n * B::Lanes()),
        products_(factors_ + n * B::Lanes()),
        rows_(products_ + m * B::Lanes()),
        left_(u, m, ld_, rows_ + n * n * B::Lanes(), n),
        right_(v, n, ld_v_, rows_ + (n + 2 * B::Sweeps::kMost) * n * B::Lanes(), n) {}

  uint32_t run() {
    reduce();
    if (u_) form();
    const uint32_t failed = iterate();
    if (u_) left_.apply(), right_.apply();
    return failed;
  }

 private:
  R* column(int64_t j, int64_t i) const { return a_ + (j * ld_ + i) * B::Lanes(); }
  R* row(int64_t i, int64_t j) const { return rows_ + (i * n_ + j) * B::Lanes(); }

  // What the reflection of a row does to the columns waits until the next one's column is known: each column is then
  // read twice for both of them. products_: A w; row(k, j) of the last one, times its tau.
  void reduce() {
    for (int64_t k = 0; k < n_; ++k) {
      const int64_t rest = n_ - k - 1, length = m_ - k;
      R* const v = column(k, k);
      if (k > 0) B::Subtract(Load(factors_, k), products_, v, length);
      V beta;
      const V tau = B::Reflect(v, length, &beta);
      Store(beta, d_, k);
      Store(tau, tau_left_, k);
      if (rest == 0) break;
      int64_t j = k + 1;
      for (; j + 4 <= n_; j += 4) multiply<4>(k, j, tau);
      for (; j < n_; ++j) multiply<1>(k, j, tau);
      R* const w = row(k, k + 1);
      for (j = k + 1; j < n_; ++j) Store(hn::Sub(Load(column(j, k), 0), Load(factors_, j)), w, j - k - 1);
      const V tau_w = B::Reflect(w, rest, &beta);
      Store(beta, e_, k);
      Store(tau_w, tau_right_, k);
      for (int64_t i = 0; i + 1 < length; ++i) Store(Set(0), products_, i);
      for (j = k + 1; j + 4 <= n_; j += 4) subtract<4>(k, j, tau_w);
      for (; j < n_; ++j) subtract<1>(k, j, tau_w);
    }
  }
  // Columns from j on, from row k on: what waits is subtracted, and their products with v, times tau, become factors_.
  template <int kColumns>
  void multiply(int64_t k, int64_t j, V tau) {
    const R* const v = column(k, k);
    V sum[kColumns], factor[kColumns];
#pragma GCC unroll 4
    for (int q = 0; q < kColumns; ++q) {
      sum[q] = Set(0);
      factor[q] = k > 0 ? Load(factors_, j + q) : Set(0);
    }
    for (int64_t i = 0; i < m_ - k; ++i) {
      const V vi = Load(v, i), product = k > 0 ? Load(products_, i) : Set(0);
#pragma GCC unroll 4
      for (int q = 0; q < kColumns; ++q) {
        R* const to = column(j + q, k + i);
        const V x = hn::NegMulAdd(factor[q], product, Load(to, 0));
        Store(x, to, 0);
        sum[q] = hn::MulAdd(vi, x, sum[q]);
      }
    }
#pragma GCC unroll 4
    for (int q = 0; q < kColumns; ++q) Store(hn::Mul(tau, sum[q]), factors_, j + q);
  }
  // Columns from j on, below row k: minus v's part, and their products with w; then factors_ is of the latter.
  template <int kColumns>
  void subtract(int64_t k, int64_t j, V tau) {
    const R *const v = column(k, k + 1), *const w = row(k, j);
    V factor[kColumns], wj[kColumns];
#pragma GCC unroll 4
    for (int q = 0; q < kColumns; ++q) {
      factor[q] = Load(factors_, j + q);
      wj[q] = Load(w, q);
      Store(hn::Mul(tau, wj[q]), factors_, j + q);
    }
    for (int64_t i = 0; i < m_ - k - 1; ++i) {
      const V vi = Load(v, i);
      V product = Load(products_, i);
#pragma GCC unroll 4
      for (int q = 0; q < kColumns; ++q) {
        R* const to = column(j + q, k + 1 + i);
        const V x = hn::NegMulAdd(factor[q], vi, Load(to, 0));
        Store(x, to, 0);
        product = hn::MulAdd(wj[q], x, product);
      }
      Store(product, products_, i);
    }
  }
  void form() {
    const int64_t lanes = B::Lanes();
    B::Identity(u_, u_rows_, ld_);
    for (int64_t k = n_ - 1; k >= 0; --k)
      B::ReflectRows(column(k, k), m_ - k, Load(tau_left_, k), u_ + k * (ld_ + 1) * lanes, ld_, u_rows_ - k);
    B::Identity(v_, n_, ld_v_);
    for (int64_t k = n_ - 2; k >= 0; --k)
      B::ReflectRows(row(k, k + 1), n_ - k - 1, Load(tau_right_, k), v_ + (k + 1) * (ld_v_ + 1) * lanes, ld_v_,
                     n_ - k - 1);
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
    int64_t top_row = n_ - 1;  // what is below is done in all lanes
    for (int64_t step = 0; step < 40 * n_ + 30; ++step) {
      V low = zero, high = zero, before = zero, last = zero, off = zero, top = zero, least = zero, most = zero;
      M some = hn::Gt(zero, zero), closed = some;
      for (int64_t k = top_row - 1; k >= 0; --k) {
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
      top_row = B::Most(high);
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
    const int64_t begin = B::Least(low), end = B::Most(high);
    R *const left_c = left_.cosines(), *const left_s = left_.sines();
    R *const right_c = right_.cosines(), *const right_s = right_.sines();
    V f = start, g = start;
    for (int64_t k = begin; k < end; ++k) {
      const V at = Set(static_cast<R>(k)), a = Load(d_, k), b = Load(d_, k + 1), off = Load(e_, k);
      const M inside = hn::And(hn::Ge(at, low), hn::Lt(at, high)), first = hn::Eq(at, low);
      f = hn::IfThenElse(first, start, f);
      g = hn::IfThenElse(first, off, g);
      const auto [right, left] = B::RotationsOf(f, g, a, off, b, inside);
      if (k > begin) Store(hn::IfThenElse(hn::And(inside, hn::Not(first)), right.r, Load(e_, k - 1)), e_, k - 1);
      const V rest = hn::MulSub(right.c, off, hn::Mul(right.s, a)), scaled = hn::Mul(right.c, b);
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
      Store(left.c, left_c, k);
      Store(left.s, left_s, k);
      Store(right.c, right_c, k);
      Store(right.s, right_s, k);
    }
    if (!u_) return;
    left_.add(begin, end);
    right_.add(begin, end);
  }

  R* a_;
  int64_t m_, n_, ld_, ld_v_;
  R *d_, *u_;
  int64_t u_rows_;
  R *v_, *e_, *tau_left_, *tau_right_, *factors_, *products_, *rows_;
  typename B::Sweeps left_, right_;
};

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#endif
