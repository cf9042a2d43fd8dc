// Least squares of small real matrices by the group, a matrix in each lane. Included once per SIMD target.
#if defined(TESSERA_LINALG_SMALL_LEAST_SQUARES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_LINALG_SMALL_LEAST_SQUARES_INL
#undef TESSERA_LINALG_SMALL_LEAST_SQUARES_INL
#else
#define TESSERA_LINALG_SMALL_LEAST_SQUARES_INL
#endif

#include <cmath>

#include "linalg/cpu/orthogonal/small-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::orthogonal {
namespace HWY_NAMESPACE {

// Vectors of lanes, one after the other.
template <class R>
class LeastSquaresLanes {
  using D = hn::ScalableTag<R>;
  using V = hn::Vec<D>;
  using M = hn::Mask<D>;
  using Place = typename Columns<R>::Place;
  static constexpr int64_t kLanes = Lanes<R>::kCount;

 public:
  // w: n columns of the matrix, then those of the right side. room: 2 n.
  LeastSquaresLanes(Place w, int64_t m, int64_t n, R* room) : w_(w), m_(m), n_(n), x_(room), y_(room + n * kLanes) {}

  // The lanes whose elements have squares that are numbers.
  M moderate() const {
    constexpr R kSmall = std::numeric_limits<R>::min(), kEps = std::numeric_limits<R>::epsilon();
    V largest = hn::Zero(D()), wrong = largest;
    for (int64_t j = 0; j < n_; ++j)
      for (int64_t i = 0; i < m_; ++i) {
        const V x = get(i, j);
        largest = hn::Max(largest, hn::Abs(x));
        wrong = hn::Add(wrong, hn::Sub(x, x));
      }
    const R least = std::sqrt(kSmall) / kEps;
    return hn::And(hn::Eq(wrong, hn::Zero(D())), hn::And(Gt(largest, least), hn::Lt(largest, hn::Set(D(), 1 / least))));
  }
  M no_zero_on_diagonal() const {
    M all = hn::Eq(hn::Zero(D()), hn::Zero(D()));
    for (int64_t j = 0; j < n_; ++j) all = hn::And(all, hn::Ne(get(j, j), hn::Zero(D())));
    return all;
  }
  // surely_full_rank of least_squares.cc.
  M surely_full_rank(R rcond) const {
    constexpr R kEps = std::numeric_limits<R>::epsilon() / 2, kMargin = 4;
    M sure = hn::Eq(hn::Zero(D()), hn::Zero(D()));
    for (int64_t j = 0; j < n_; ++j) sure = hn::And(sure, Gt(hn::Abs(get(j, j)), std::numeric_limits<R>::min() / kEps));
    const V one = hn::Set(D(), 1);
    fill(x_, one);
    solve_adjoint(true);
    V least = hn::Set(D(), std::numeric_limits<R>::infinity()), most = hn::Zero(D()), length = norm(x_);
    for (const bool adjoint : {false, true}) {
      divide(x_, x_, length);
      adjoint ? solve_adjoint(false) : solve();
      length = norm(x_);
      least = hn::Min(least, hn::Div(one, length));
    }
    fill(x_, one);
    for (int step = 0; step < 2; ++step) {
      divide(x_, x_, norm(x_));
      multiply();
      most = hn::Max(most, norm(y_));
      multiply_adjoint();
    }
    most = hn::Max(most, hn::Div(norm(x_), norm(y_)));
    const V limit = hn::Mul(hn::Set(D(), kMargin * std::max(rcond, kEps)), most);
    return hn::And(sure, hn::And(hn::Lt(most, hn::Set(D(), std::numeric_limits<R>::infinity())), hn::Gt(least, limit)));
  }
  // `columns` columns from c on: R^-1 times them.
  void solve_right_side(int64_t count) const {
    for_tiles<4>(n_, n_ + count, [&](int64_t c, auto width) HWY_ATTR {
      constexpr int kWidth = width();
      for (int64_t i = n_ - 1; i >= 0; --i) {
        V sum[kWidth];
        TESSERA_UNROLL for (int q = 0; q < kWidth; ++q) sum[q] = get(i, c + q);
        for (int64_t p = i + 1; p < n_; ++p) {
          const V r = get(i, p);
          TESSERA_UNROLL for (int q = 0; q < kWidth; ++q) sum[q] = hn::NegMulAdd(r, get(p, c + q), sum[q]);
        }
        const V pivot = get(i, i);
        TESSERA_UNROLL for (int q = 0; q < kWidth; ++q) w_.put(i, c + q, {hn::Div(sum[q], pivot)});
      }
    });
  }

 private:
  V get(int64_t i, int64_t j) const { return w_.get(i, j).v; }
  static V at(const R* x, int64_t i) { return hn::LoadU(D(), x + i * kLanes); }
  static void put(V v, R* x, int64_t i) { hn::StoreU(v, D(), x + i * kLanes); }
  static M Gt(V x, R limit) { return hn::Gt(x, hn::Set(D(), limit)); }
  void fill(R* x, V v) const {
    for (int64_t i = 0; i < n_; ++i) put(v, x, i);
  }
  void divide(const R* x, R* to, V by) const {
    const V inverse = hn::Div(hn::Set(D(), 1), by);
    for (int64_t i = 0; i < n_; ++i) put(hn::Mul(inverse, at(x, i)), to, i);
  }
  V norm(const R* x) const {
    V sum = hn::Zero(D());
    for (int64_t i = 0; i < n_; ++i) sum = hn::MulAdd(at(x, i), at(x, i), sum);
    return hn::Sqrt(sum);
  }
  // sum of r(i, j) x_i for i < count.
  V dot(int64_t j, int64_t count, const R* x) const {
    V sum = hn::Zero(D()), other = sum;
    int64_t i = 0;
    for (; i + 2 <= count; i += 2) {
      sum = hn::MulAdd(get(i, j), at(x, i), sum);
      other = hn::MulAdd(get(i + 1, j), at(x, i + 1), other);
    }
    if (i < count) sum = hn::MulAdd(get(i, j), at(x, i), sum);
    return hn::Add(sum, other);
  }
  // x = R^-T x; choose: x is ones, whose signs are chosen so that the result grows.
  void solve_adjoint(bool choose) const {
    for (int64_t j = 0; j < n_; ++j) {
      const V above = dot(j, j, x_), x = at(x_, j);
      const V signed_x = choose ? hn::IfThenElse(hn::Gt(above, hn::Zero(D())), hn::Neg(x), x) : x;
      put(hn::Div(hn::Sub(signed_x, above), get(j, j)), x_, j);
    }
  }
  void add_column(int64_t j, int64_t count, V factor, R* to) const {
    for (int64_t i = 0; i < count; ++i) put(hn::MulAdd(factor, get(i, j), at(to, i)), to, i);
  }
  // x = R^-1 x, y = R x, x = R^T y.
  void solve() const {
    for (int64_t j = n_ - 1; j >= 0; --j) {
      const V x = hn::Div(at(x_, j), get(j, j));
      put(x, x_, j);
      add_column(j, j, hn::Neg(x), x_);
    }
  }
  void multiply() const {
    fill(y_, hn::Zero(D()));
    for (int64_t j = 0; j < n_; ++j) add_column(j, j + 1, at(x_, j), y_);
  }
  void multiply_adjoint() const {
    for (int64_t j = 0; j < n_; ++j) put(dot(j, j + 1, y_), x_, j);
  }

  Place w_;
  int64_t m_, n_;
  R *x_, *y_;
};

template <class R>
uint32_t small_least_squares(int64_t count, int64_t m, int64_t n, int64_t width, const Group<const R>& a,
                             const Group<R>& b, bool any_rank, R rcond) {
  const Columns<R> columns(m, n, width);
  columns.load(count, a);
  columns.load_beside(count, reading(b));
  const internal::Scratch memory(LaneMatrix<R>::bytes(1, 2 * n));
  const LeastSquaresLanes<R> lanes(columns.place(), m, n, memory.template as<R>());
  auto good = lanes.moderate();
  const Factors<R> f(n);
  factor_columns<R>(columns.place(), m, n + width, n, f);
  good = hn::And(good, any_rank ? lanes.surely_full_rank(rcond) : lanes.no_zero_on_diagonal());
  const hn::ScalableTag<R> d;
  R chosen[Lanes<R>::kCount];
  hn::StoreU(hn::IfThenElseZero(good, hn::Set(d, 1)), d, chosen);
  uint32_t bits = 0;
  for (int64_t lane = 0; lane < count; ++lane) bits |= static_cast<uint32_t>(chosen[lane] != 0) << lane;
  if (bits == 0) return 0;
  lanes.solve_right_side(width);
  const internal::ScratchArray<R> result(count * m * width);
  columns.store_beside(count, {result.get(), m * width, width, 1});
  for (int64_t lane = 0; lane < count; ++lane)
    for (int64_t i = 0; bits >> lane & 1 && i < m; ++i)
      for (int64_t j = 0; j < width; ++j)
        b.data[lane * b.step + i * b.row + j * b.col] = result[(lane * m + i) * width + j];
  return bits;
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::orthogonal
HWY_AFTER_NAMESPACE();

#endif
