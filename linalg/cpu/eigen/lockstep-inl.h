// Kernels of lockstep.h. Included once per SIMD target.
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

#include "linalg/cpu/eigen/lockstep.h"
#include "linalg/cpu/eigen/lockstep_vectors-inl.h"
#include "linalg/cpu/eigen/schur_blocks.h"
#include "linalg/cpu/lockstep-inl.h"

#if defined(TESSERA_LINALG_LOCKSTEP_EIG_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_LINALG_LOCKSTEP_EIG_INL
#undef TESSERA_LINALG_LOCKSTEP_EIG_INL
#else
#define TESSERA_LINALG_LOCKSTEP_EIG_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Real Schur forms by steps with two shifts (Francis 1962): every lane works on the last of its blocks that has more
// than two rows, and all go down the diagonal together. What becomes of a lane never depends on the others.
template <class R>
class LockstepEig : Lockstep<R> {
  using B = Lockstep<R>;
  using B::Load;
  using B::Set;
  using B::Store;
  using typename B::M;
  using typename B::V;

 public:
  LockstepEig(R* h, int64_t n, R* w, R* v, R* room) : h_(h), w_(w), v_(v), n_(n), ld_(n + 1) {
    const int64_t step = (n + 2) * B::Lanes();
    scale_ = room;
    column_ = scale_ + step;
    parts_ = column_ + step;       // of one vector: two arrays
    numbers_ = parts_ + 2 * step;  // of single lanes
    z_ = room + 8 * step;
  }

  uint32_t run() {
    M others = balance();
    for (int64_t i = 0; i < ld_ * ld_; ++i) Store(hn::IfThenZeroElse(others, Load(h_, i)), h_, i);
    reduce();
    others = hn::Or(others, iterate());
    split();
    if (v_) others = hn::Or(others, LockstepVectors<R>(h_, z_, n_, w_, scale_, parts_, v_).run());
    return B::Bits(others);
  }

 private:
  // Of the block that a step is for: rows low ... high, and the shifts, re +- i im or twice re.
  struct Step {
    V low, high, re, im;
    M some;
  };

  R* at(int64_t i, int64_t j) const { return h_ + (i * ld_ + j) * B::Lanes(); }
  V get(int64_t i, int64_t j) const { return Load(h_, i * ld_ + j); }
  void put(V x, int64_t i, int64_t j) { Store(x, h_, i * ld_ + j); }
  R* z(int64_t i, int64_t j) const { return z_ + (i * ld_ + j) * B::Lanes(); }
  static M None() { return hn::Gt(Set(0), Set(0)); }
  // Of zeros, the positive one: where nothing is subtracted for another lane's sake, a zero may change its sign.
  static V NoSign(V x) { return hn::Add(x, Set(0)); }
  static bool IsEmpty(M m) { return hn::AllFalse(typename B::D(), m); }

  // Brings rows and columns to like norms by powers of two. The lanes in which one has nothing beside its diagonal
  // element: eigenvalues that can be read off are left to those who look for them.
  M balance() {
    for (int64_t i = 0; i < n_; ++i) Store(Set(1), scale_, i);
    M alone = None();
    bool changed = n_ > 1;
    for (int round = 0; changed && round < 16; ++round) {
      changed = false;
      for (int64_t i = 0; i < n_; ++i) {
        V row = Set(0), column = row;
        for (int64_t j = 0; j < n_; ++j) {
          if (j == i) continue;
          const V x = get(i, j), y = get(j, i);
          row = hn::MulAdd(x, x, row);
          column = hn::MulAdd(y, y, column);
        }
        const M none = hn::Eq(hn::Min(row, column), Set(0));
        alone = hn::Or(alone, none);
        const M unlike = hn::Gt(hn::Max(row, column), hn::Mul(Set(4), hn::Min(row, column)));
        if (IsEmpty(hn::AndNot(none, unlike))) continue;
        Store(hn::IfThenElse(none, Set(1), row), numbers_, 0);
        Store(hn::IfThenElse(none, Set(1), column), numbers_, 1);
        for (int64_t lane = 0; lane < B::Lanes(); ++lane)
          numbers_[lane] = factor_for(std::sqrt(numbers_[lane]), std::sqrt(numbers_[B::Lanes() + lane]));
        const V f = Load(numbers_, 0);
        const M scaled = hn::Ne(f, Set(1));
        if (IsEmpty(scaled)) continue;
        changed = true;
        const V inverse = hn::Div(Set(1), f);
        Store(hn::Mul(f, Load(scale_, i)), scale_, i);
        for (int64_t j = 0; j < n_; ++j) {
          put(hn::Mul(inverse, get(i, j)), i, j);
          put(hn::Mul(f, get(j, i)), j, i);
        }
      }
    }
    return alone;
  }
  // By what a column is multiplied and its row divided; 1 where that would gain little.
  static R factor_for(R row, R column) {
    const R sum = row + column;
    R f = 1;
    for (; column < row / 2; column *= 2, row /= 2) f *= 2;
    for (; row <= column / 2; column /= 2, row *= 2) f /= 2;
    return row + column < R(0.95) * sum ? f : R(1);
  }

  void reduce() {
    if (v_) B::Identity(z_, n_, ld_);
    for (int64_t k = 0; k + 2 < n_; ++k) {
      const int64_t rest = n_ - k - 1;
      for (int64_t i = 0; i < rest; ++i) Store(get(k + 1 + i, k), column_, i);
      V beta;
      const V tau = B::Reflect(column_, rest, &beta);
      put(beta, k + 1, k);
      for (int64_t i = k + 2; i < n_; ++i) put(Set(0), i, k);
      for (int64_t j = k + 1; j < n_; j += 4) {
        if (j + 4 <= n_)
          reflect_columns<4>(tau, k + 1, j, rest);
        else
          for (int64_t one = j; one < n_; ++one) reflect_columns<1>(tau, k + 1, one, rest);
      }
      B::ReflectRows(column_, rest, tau, at(0, k + 1), ld_, n_);
      if (v_) B::ReflectRows(column_, rest, tau, z(1, k + 1), ld_, n_ - 1);
    }
  }
  // kColumns columns of h, `rest` rows from `row` on, times the reflection in column_.
  template <int kColumns>
  void reflect_columns(V tau, int64_t row, int64_t col, int64_t rest) {
    V sum[kColumns];
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j) sum[j] = Set(0);
    for (int64_t i = 0; i < rest; ++i) {
      const V x = Load(column_, i);
#pragma GCC unroll 4
      for (int j = 0; j < kColumns; ++j) sum[j] = hn::MulAdd(x, get(row + i, col + j), sum[j]);
    }
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j) sum[j] = hn::Mul(tau, sum[j]);
    for (int64_t i = 0; i < rest; ++i) {
      const V x = Load(column_, i);
#pragma GCC unroll 4
      for (int j = 0; j < kColumns; ++j) put(hn::NegMulAdd(x, sum[j], get(row + i, col + j)), row + i, col + j);
    }
  }

  // Until nothing is left but blocks of one or two rows. The lanes that would not come to that.
  M iterate() {
    int64_t top = n_ - 1;
    V before = Set(static_cast<R>(top)), count = Set(0), largest = Set(0);
    for (int64_t i = 0; i < ld_ * n_; ++i) largest = hn::Max(largest, hn::Abs(Load(h_, i)));
    const V floor = Set(std::numeric_limits<R>::min() * (static_cast<R>(n_) / (2 * B::kEps)));
    const V least = hn::Max(floor, hn::Mul(Set(2 * B::kEps), largest));
    for (int64_t left = 30 * n_; left > 0; --left) {
      // After twenty steps for a block, what is nothing beside the largest element is nothing, as in schur.cc.
      const V tiny = hn::IfThenElse(hn::Gt(count, Set(20)), least, floor);
      const Step s = next_step(top, tiny, count, before);
      if (IsEmpty(s.some)) return None();
      count = hn::IfThenElse(hn::Eq(s.high, before), hn::Add(count, Set(1)), Set(1));
      before = s.high;
      top = B::Most(s.high);
      sweep(s);
    }
    return next_step(top, least, count, before).some;
  }

  // Whether h(k, k - 1) matters: as is_negligible of schur_blocks.h has it.
  static HWY_INLINE M Matters(V below, V above, V a, V b, V tiny) {
    const V size = hn::Abs(below), other = hn::Abs(above), eps = Set(2 * B::kEps), abs_b = hn::Abs(b);
    const M large = hn::Gt(size, hn::Mul(eps, hn::Add(hn::Abs(a), abs_b)));
    const V apart = hn::Abs(hn::Sub(a, b)), aa = hn::Max(abs_b, apart), bb = hn::Min(abs_b, apart);
    const M changes = hn::Gt(hn::Mul(size, other), hn::Mul(eps, hn::Mul(aa, bb)));
    return hn::And(hn::Gt(size, tiny), hn::Or(large, changes));
  }

  // Sets what does not matter to zero, from row `top` up, in each lane from row `before` up, where its block ended:
  // what is below was settled, and must not be looked at again for another lane's sake. count: steps for that block;
  // every tenth takes shifts from elsewhere.
  Step next_step(int64_t top, V tiny, V count, V before) {
    const V zero = Set(0);
    Step s{zero, zero, zero, zero, None()};
    V run = zero, last = zero, other = zero, product = zero, near = zero, far = zero;
    M closed = None();
    for (int64_t k = top; k > 0; --k) {
      const V below = get(k, k - 1), above = get(k - 1, k), a = get(k - 1, k - 1), b = get(k, k);
      const V row = Set(static_cast<R>(k));
      const M open = hn::Le(row, before), big = hn::And(open, Matters(below, above, a, b, tiny));
      put(hn::IfThenZeroElse(hn::AndNot(big, open), below), k, k - 1);
      closed = hn::Or(closed, hn::AndNot(big, hn::Ge(run, Set(2))));
      const M goes_on = hn::AndNot(closed, big);
      run = hn::IfThenElse(closed, run, hn::IfThenElseZero(big, hn::Add(run, Set(1))));
      const M first = hn::And(goes_on, hn::Eq(run, Set(1)));
      s.high = hn::IfThenElse(first, row, s.high);
      last = hn::IfThenElse(first, b, last);
      other = hn::IfThenElse(first, a, other);
      product = hn::IfThenElse(first, hn::Mul(below, above), product);
      near = hn::IfThenElse(first, below, near);
      far = hn::IfThenElse(hn::And(goes_on, hn::Eq(run, Set(2))), below, far);
      s.low = hn::IfThenElse(goes_on, hn::Sub(row, Set(1)), s.low);
      if (hn::AllTrue(typename B::D(), closed)) break;
    }
    s.some = hn::Ge(run, Set(2));
    s.low = hn::IfThenElse(s.some, s.low, Set(static_cast<R>(n_)));
    s.high = hn::IfThenElseZero(s.some, s.high);
    // The eigenvalues of the last two rows: a pair, or twice that nearer to the last element.
    const V half = NoSign(hn::Mul(Set(R(0.5)), hn::Sub(other, last))), square = hn::MulAdd(half, half, product);
    const V root = hn::Sqrt(hn::Abs(square)), under = hn::Add(half, hn::CopySign(root, half));
    const M pair = hn::Lt(square, zero), nothing = hn::Eq(under, zero);
    const V step = hn::IfThenZeroElse(nothing, hn::Div(product, hn::IfThenElse(nothing, Set(1), under)));
    s.re = hn::IfThenElse(pair, hn::Add(last, half), hn::Sub(last, step));
    s.im = hn::IfThenElseZero(pair, root);
    const V tenths = hn::Mul(count, Set(R(0.1)));
    const M unlucky = hn::And(hn::Eq(s.high, before), hn::And(hn::Gt(count, zero), hn::Eq(hn::Round(tenths), tenths)));
    const V size = hn::Add(hn::Abs(near), hn::Abs(far));
    s.re = hn::IfThenElse(unlucky, hn::MulAdd(Set(R(0.75)), size, last), s.re);
    s.im = hn::IfThenElse(unlucky, hn::Mul(Set(R(0.66)), size), s.im);
    return s;
  }

  // I - (1, v1, v2)^T (f, f1, f2): nothing in lanes that are not to be changed.
  struct Reflection {
    V v1, v2, f, f1, f2;
  };

  void sweep(const Step& s) {
    const int64_t begin = B::Least(s.low), end = B::Most(s.high);
    const int64_t left = v_ ? n_ : end + 1, above = v_ ? 0 : begin;
    for (int64_t k = begin; k < end; ++k) {
      const Reflection r = reflection(k, begin, s);
      for (int64_t j = k; j < left; ++j) apply(r, at(k, j), ld_);
      const int64_t rows = std::min(k + 4, end + 1);
      for (int64_t i = above; i < rows; ++i) apply(r, at(i, k), 1);
      if (v_)
        for (int64_t i = 0; i < n_; ++i) apply(r, z(i, k), 1);
    }
  }

  // What brings the bulge in column k - 1, or the first column of (H - s1)(H - s2) where a block begins, to a multiple
  // of the first unit vector; the bulge becomes that.
  HWY_INLINE Reflection reflection(int64_t k, int64_t begin, const Step& s) {
    const V at = Set(static_cast<R>(k)), zero = Set(0);
    const M inside = hn::And(hn::Ge(at, s.low), hn::Lt(at, s.high)), first = hn::Eq(at, s.low);
    V x = zero, y = zero, t = zero;
    if (k > begin) x = get(k, k - 1), y = get(k + 1, k - 1), t = get(k + 2, k - 1);
    if (!IsEmpty(first)) {
      const V a = hn::Sub(get(k, k), s.re), b = hn::Sub(get(k + 1, k + 1), s.re), h10 = get(k + 1, k);
      const V size = hn::Add(hn::Add(hn::Abs(a), s.im), hn::Abs(h10));
      const V inverse = hn::Div(Set(1), hn::IfThenElse(first, size, Set(1))), low = hn::Mul(h10, inverse);
      const V square = hn::MulAdd(a, hn::Mul(a, inverse), hn::Mul(s.im, hn::Mul(s.im, inverse)));
      x = hn::IfThenElse(first, hn::MulAdd(low, get(k, k + 1), square), x);
      y = hn::IfThenElse(first, hn::Mul(low, hn::Add(a, b)), y);
      t = hn::IfThenElse(first, hn::Mul(low, get(k + 2, k + 1)), t);
    }
    const V rest = hn::Add(hn::Abs(y), hn::Abs(t)), size = hn::Add(hn::Abs(x), rest);
    // What has no inverse is nothing: the matrix is of about 1.
    const M some = hn::And(hn::Gt(rest, zero), hn::Gt(size, Set(std::numeric_limits<R>::min())));
    const M turns = hn::And(inside, some), chased = hn::AndNot(first, inside);
    const V inverse = hn::Div(Set(1), hn::IfThenElse(turns, size, Set(1)));
    const V p = hn::Mul(x, inverse), q = hn::Mul(y, inverse), r = hn::Mul(t, inverse);
    const V length = hn::Sqrt(hn::MulAdd(p, p, hn::MulAdd(q, q, hn::Mul(r, r))));
    const V beta = hn::Neg(hn::CopySign(length, NoSign(p))), under = hn::Sub(p, beta);
    const V both = hn::Div(Set(1), hn::IfThenElse(turns, hn::Mul(beta, under), Set(1)));
    const V to = hn::Mul(both, beta);
    Reflection result;
    result.v1 = hn::IfThenElseZero(turns, hn::Mul(q, to));
    result.v2 = hn::IfThenElseZero(turns, hn::Mul(r, to));
    result.f = hn::IfThenElseZero(turns, hn::Neg(hn::Mul(under, hn::Mul(both, under))));
    result.f1 = hn::Mul(result.f, result.v1);
    result.f2 = hn::Mul(result.f, result.v2);
    if (k > begin) {
      put(hn::IfThenElse(hn::And(turns, chased), hn::Mul(beta, size), get(k, k - 1)), k, k - 1);
      put(hn::IfThenZeroElse(chased, get(k + 1, k - 1)), k + 1, k - 1);
      put(hn::IfThenZeroElse(chased, get(k + 2, k - 1)), k + 2, k - 1);
    }
    return result;
  }
  // To three elements, `stride` apart.
  static HWY_INLINE void apply(const Reflection& r, R* x, int64_t stride) {
    const V a = Load(x, 0), b = Load(x, stride), c = Load(x, 2 * stride);
    const V sum = hn::MulAdd(r.v2, c, hn::MulAdd(r.v1, b, a));
    Store(hn::NegMulAdd(r.f, sum, a), x, 0);
    Store(hn::NegMulAdd(r.f1, sum, b), x, stride);
    Store(hn::NegMulAdd(r.f2, sum, c), x, 2 * stride);
  }

  // The eigenvalues; blocks of two rows are turned so that pairs alone are left.
  void split() {
    for (int64_t i = 0; i < n_; ++i) {
      Store(NoSign(get(i, i)), w_, i);
      Store(Set(0), w_, n_ + i);
    }
    const int64_t lanes = B::Lanes();
    R *const cosines = numbers_, *const sines = numbers_ + lanes;
    for (int64_t k = 0; k + 1 < n_; ++k) {
      if (IsEmpty(hn::Ne(get(k + 1, k), Set(0)))) continue;
      Store(Set(1), cosines, 0);
      Store(Set(0), sines, 0);
      for (int64_t lane = 0; lane < lanes; ++lane) {
        if (at(k + 1, k)[lane] == 0) continue;
        std::complex<R> w[2];
        for (R* x : {at(k, k), at(k, k + 1), at(k + 1, k + 1)}) x[lane] += R(0);
        const auto turn =
            columns::standardize(at(k, k)[lane], at(k, k + 1)[lane], at(k + 1, k)[lane], at(k + 1, k + 1)[lane], w);
        cosines[lane] = turn.c;
        sines[lane] = turn.s;
        for (int64_t i = 0; i < 2; ++i) {
          w_[(k + i) * lanes + lane] = w[i].real();
          w_[(n_ + k + i) * lanes + lane] = w[i].imag();
        }
      }
      if (v_) turn_both(k, Load(cosines, 0), Load(sines, 0));
    }
  }
  void turn_both(int64_t k, V c, V s) {
    const auto turn = [&](R* x, int64_t stride) HWY_ATTR {
      const V a = Load(x, 0), b = Load(x, stride);
      Store(hn::MulAdd(s, b, hn::Mul(c, a)), x, 0);
      Store(hn::MulSub(c, b, hn::Mul(s, a)), x, stride);
    };
    for (int64_t j = k + 2; j < n_; ++j) turn(at(k, j), ld_);
    for (int64_t i = 0; i < k; ++i) turn(at(i, k), 1);
    for (int64_t i = 0; i < n_; ++i) turn(z(i, k), 1);
  }

  R *h_, *w_, *v_;
  int64_t n_, ld_;
  R *scale_, *column_, *parts_, *numbers_, *z_;
};

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#endif
