#include "linalg/cpu/orthogonal/least_squares.h"

#include <numeric>

#include "linalg/cpu/batches.h"
#include "linalg/cpu/orthogonal/small.h"
#include "linalg/cpu/reflections.h"

namespace tessera::cpu {
namespace {

using namespace columns;

// Q R of m x n, which lie in columns, for their own sake: the block's triangles are only kept for one panel. b, `count`
// columns (or none), becomes Q^H b.
template <class T>
void factor_columns(int64_t m, int64_t n, T* a, int64_t ld, T* tau, Matrix<T> b, int64_t count) {
  const int64_t k = std::min(m, n), block = panel_for<T>(m, k, true);
  const ScratchArray<T> memory(2 * block * block);
  T *r = memory.get(), *t = r + block * block;
  for (int64_t j = 0; j < k; j += block) {
    const int64_t w = std::min(block, k - j), rows = m - j;
    T* p = a + j + j * ld;
    std::fill_n(t, w * w, T(0));
    factor_panel(rows, w, p, ld, r, w, t, w, tau + j);
    const Block<T> q{rows, w, p, ld, t};
    apply_left(q, true, n - j - w, in_columns(p + w * ld, ld));
    apply_left(q, true, count, b.at(j, 0));
    for (int64_t c = 0; c < w; ++c) std::copy_n(r + c * w, c + 1, p + c * ld);
  }
}

// c = Q^H c, or Q c: Q's vectors stand below the diagonal of a, in columns.
template <class T>
void rotate(int64_t m, int64_t count, const T* a, int64_t ld, const T* tau, bool adjoint, int64_t n, Matrix<T> c) {
  constexpr int64_t kPanel = 32;
  const int64_t block = std::min(count, kPanel), blocks = block == 0 ? 0 : (count + block - 1) / block;
  const int64_t rows = padded_rows<T>(m);
  const ScratchArray<T> memory(rows * block + block * block);
  T *v = memory.get(), *t = v + rows * block;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t j = (adjoint ? i : blocks - 1 - i) * block, b = std::min(block, count - j);
    load_vectors(m - j, b, in_columns(const_cast<T*>(a), ld).at(j, j), v, rows);
    std::fill_n(t, b * b, T(0));
    make_triangle(m - j, b, v, rows, tau + j, t, b);
    apply_left(Block<T>{m - j, b, v, rows, t}, adjoint, n, c.at(j, 0));
  }
}

// b = r^-1 b, or r^-H b; r: the upper triangle of n x n, in columns.
template <class T>
void solve_upper(int64_t n, int64_t columns, Matrix<T> r, bool adjoint, Matrix<T> b) {
  constexpr int64_t kBlock = 32, kFew = 4;
  T factors[kBlock];
  // Of row `from` times the factors of as many rows from `first` on.
  const auto eliminate = [&](int64_t from, const T* factor, int64_t first, int64_t count) {
    if (count == 0) return;
    if (b.col_stride == 1 && columns >= kFew)
      return kernels<T>().rank_one(columns, count, &b(from, 0), factor, &b(first, 0), b.row_stride);
    for (int64_t to = 0; to < count; ++to)
      for (int64_t c = 0; c < columns; ++c) b(first + to, c) -= times(factor[to], b(from, c));
  };
  const int64_t blocks = (n + kBlock - 1) / kBlock;
  for (int64_t k = 0; k < blocks; ++k) {
    const int64_t j = (adjoint ? k : blocks - 1 - k) * kBlock, end = std::min(n, j + kBlock);
    for (int64_t l = 0; l < end - j; ++l) {
      const int64_t i = adjoint ? j + l : end - 1 - l;
      const T pivot = adjoint ? conjugate(r(i, i)) : r(i, i);
      for (int64_t c = 0; c < columns; ++c) b(i, c) /= pivot;
      if (adjoint) {
        for (int64_t to = i + 1; to < end; ++to) factors[to - i - 1] = conjugate(r(i, to));
        eliminate(i, factors, i + 1, end - i - 1);
      } else {
        eliminate(i, &r(j, i), j, i - j);
      }
    }
    if (adjoint)
      multiply_adjoint(n - end, columns, end - j, T(-1), r.at(j, end), b.at(j, 0), T(1), b.at(end, 0));
    else
      multiply(j, columns, end - j, T(-1), r.at(0, j), b.at(j, 0), T(1), b);
  }
}

// Estimates of the largest and the smallest singular value of a triangle that grows by columns, as Bischof's: for each
// a unit vector x with |x^H R| near it, and of the next column only the best combination with x is sought.
template <class T>
class SingularRange {
  using R = Real<T>;

 public:
  SingularRange(int64_t n, T first) : memory_(2 * n) {
    most_ = least_ = std::abs(first);
    memory_[0] = memory_[n] = T(1);
    n_ = n;
  }
  // Whether the triangle with the next column (above, and the diagonal's element) seems to have no singular value below
  // rcond times the largest; if so it is taken.
  bool take(int64_t size, const T* above, T diagonal, R rcond) {
    Step most, least;
    step(most_, size, memory_.get(), above, diagonal, true, most);
    step(least_, size, memory_.get() + n_, above, diagonal, false, least);
    if (!(most.value * rcond <= least.value)) return false;
    apply(most, size, memory_.get());
    apply(least, size, memory_.get() + n_);
    most_ = most.value;
    least_ = least.value;
    return true;
  }

 private:
  // The new value, by the unit vector (s x, c).
  struct Step {
    R value;
    T s;
    R c;
  };
  // u^H M u is least or most for M = [old^2 + |a|^2, a d*; ..., |d|^2], where a = x^H above, d = diagonal. The smaller
  // eigenvalue follows from the determinant, old^2 |d|^2, the larger one.
  static void step(R old, int64_t size, const T* x, const T* above, T diagonal, bool largest, Step& result) {
    T a;
    kernels<T>().dots(size, 1, x, size, above, &a);
    const R scale = std::max({old, std::abs(a), std::abs(diagonal)});
    if (!(scale > 0)) {
      result = {R(0), T(0), R(1)};
      return;
    }
    const R o = old / scale, d = std::abs(diagonal) / scale, alpha = std::abs(a) / scale;
    const R m11 = o * o + alpha * alpha, m22 = d * d, m12 = alpha * d;
    const R more = (m11 + m22) / 2 + std::hypot((m11 - m22) / 2, m12);
    const R value = largest ? std::sqrt(more) : o * d / std::sqrt(more);
    const R v = largest ? more : value * value;
    // (s, c) in the kernel of M - v: by the row whose diagonal is further from v. Real, but for the phase of a d*.
    R s, c;
    if (std::abs(m11 - v) >= std::abs(m22 - v)) {
      s = -m12;
      c = m11 - v;
    } else {
      s = m22 - v;
      c = -m12;
    }
    R length = std::hypot(s, c);
    if (!(length > 0)) {  // no coupling, and both as good
      s = largest == (m11 >= m22) ? R(1) : R(0);
      c = 1 - s;
      length = 1;
    }
    const T phase = m12 > 0 ? times(a / std::abs(a), conjugate(diagonal) / std::abs(diagonal)) : T(1);
    result = {value * scale, phase * (s / length), c / length};
  }
  static void apply(const Step& p, int64_t size, T* x) {
    for (int64_t i = 0; i < size; ++i) x[i] = times(x[i], p.s);
    x[size] = T(p.c);
  }

  ScratchArray<T> memory_;
  int64_t n_;
  R most_, least_;
};

// x = r^-1 x, or r^-H x, of the upper triangle of n x n in columns. choose: x is ones, whose signs are chosen on the
// way so that the result grows.
template <class T>
void solve_vector(int64_t n, const T* r, int64_t ld, bool adjoint, bool choose, T* x) {
  const Kernels<T>& k = kernels<T>();
  for (int64_t i = 0; i < n; ++i) {
    const int64_t j = adjoint ? i : n - 1 - i;
    const T *column = r + j * ld, pivot = column[j];
    if (adjoint) {
      T above = T(0);
      if (j > 0) k.dots(j, 1, column, ld, x, &above);
      x[j] = (choose && real_part(above) > 0 ? -x[j] : x[j]) - above;
      x[j] /= conjugate(pivot);
    } else {
      x[j] /= pivot;
      const T factor = -x[j];
      if (j > 0) k.combine(j, 1, column, ld, &factor, x);
    }
  }
}

// Whether the triangle's condition number is far below 1 / rcond, so that a factorization with pivots would find full
// rank, too. By two steps of inverse iteration from a vector as Cline, Moler, Stewart and Wilkinson choose it (1979),
// and as many of the power method, which come near both ends of the singular values.
template <class T>
bool surely_full_rank(int64_t n, const T* r, int64_t ld, Real<T> rcond) {
  using R = Real<T>;
  constexpr R kMargin = 4;
  const Kernels<T>& k = kernels<T>();
  const ScratchArray<T> memory(2 * n);
  T *const x = memory.get(), *const y = x + n;
  for (int64_t j = 0; j < n; ++j)
    if (!(size_of(r[j + j * ld]) > kSafeMin<T> / kEps<T>)) return false;
  std::fill_n(x, n, T(1));
  solve_vector(n, r, ld, true, true, x);
  R least = std::numeric_limits<R>::infinity(), most = 0, length = norm(n, x);
  for (const bool adjoint : {false, true}) {
    k.scale(n, T(1 / length), x);
    solve_vector(n, r, ld, adjoint, false, x);
    length = norm(n, x);
    least = std::min(least, 1 / length);
  }
  std::fill_n(x, n, T(1));
  for (int step = 0; step < 2; ++step) {
    length = norm(n, x);
    std::fill_n(y, n, T(0));
    for (int64_t j = 0; j < n; ++j) {
      const T factor = x[j] / length;
      k.combine(j + 1, 1, r + j * ld, ld, &factor, y);
    }
    most = std::max(most, norm(n, y));
    for (int64_t j = 0; j < n; ++j) k.dots(j + 1, 1, r + j * ld, ld, y, x + j);
  }
  most = std::max(most, norm(n, x) / norm(n, y));
  return most < std::numeric_limits<R>::infinity() && least > kMargin * std::max(rcond, kEps<T>) * most;
}

// Q R with columns in such an order that the largest remaining one comes next. A column's norm is corrected from step
// to step, and computed anew where that loses too much.
template <class T>
void factor_pivoted(int64_t m, int64_t n, T* a, int64_t ld, T* tau, int64_t* order) {
  using R = Real<T>;
  const Kernels<T>& k = kernels<T>();
  const R careful = std::sqrt(kEps<T>);
  const ScratchArray<R> norms(2 * n);
  const ScratchArray<T> products(n);
  R *now = norms.get(), *known = now + n;
  std::iota(order, order + n, int64_t{0});
  for (int64_t j = 0; j < n; ++j) now[j] = known[j] = norm(m, a + j * ld);
  for (int64_t j = 0; j < std::min(m, n); ++j) {
    const int64_t next = std::max_element(now + j, now + n) - now;
    if (next != j) {
      std::swap_ranges(a + j * ld, a + j * ld + m, a + next * ld);
      std::swap(order[j], order[next]);
      now[next] = now[j];
      known[next] = known[j];
    }
    T* v = a + j * ld + j;
    tau[j] = make_reflection(m - j - 1, *v, v + 1);
    const T beta = *v;
    *v = T(1);
    T* w = products.get();
    k.dots(m - j, n - j - 1, v + ld, ld, v, w);
    for (int64_t c = 0; c < n - j - 1; ++c) w[c] = conjugate(times(tau[j], w[c]));
    k.rank_one(m - j, n - j - 1, v, w, v + ld, ld);
    *v = beta;
    for (int64_t c = j + 1; c < n; ++c) {
      if (now[c] == 0) continue;
      const R part = std::abs(a[j + c * ld]) / now[c], left = std::max(R(0), (1 + part) * (1 - part));
      const R ratio = now[c] / known[c];
      if (left * ratio * ratio <= careful)
        now[c] = known[c] = norm(m - j - 1, a + j + 1 + c * ld);
      else
        now[c] *= std::sqrt(left);
    }
  }
}

// The power of two that brings the largest element near 1, where squares of elements might not fit.
template <class T>
Real<T> scale_of(int64_t m, int64_t n, Matrix<T> a) {
  using R = Real<T>;
  if (a.row_stride == 1) std::swap(m, n), a = a.transposed();
  if (a.col_stride == 1) {  // most often the sum of squares shows that all is well
    R sum = 0;
    for (int64_t i = 0; i < m; ++i) sum += kernels<T>().squares(n, &a(i, 0));
    const R tiny = kSafeMin<T> / (kEps<T> * kEps<T>);
    if (sum < 1 / tiny && sum > tiny * static_cast<R>(m) * static_cast<R>(kParts<T> * n)) return 1;
  }
  R most = 0;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) most = std::max(most, size_of(a(i, j)));
  const R small = std::sqrt(kSafeMin<T>) / kEps<T>;
  if (most == 0 || (most > small && most < 1 / small) || !(most < std::numeric_limits<R>::infinity())) return 1;
  return std::ldexp(R(1), -std::clamp(std::ilogb(most), -std::numeric_limits<R>::max_exponent + 2,
                                      std::numeric_limits<R>::max_exponent - 2));
}

template <class T>
struct Problem {
  int64_t m, n, columns;
  Matrix<T> a, b;  // b: max(m, n) rows
  Real<T> rcond;
};

template <class T>
void zero_rows(int64_t from, int64_t to, const Problem<T>& p) {
  for (int64_t i = from; i < to; ++i)
    for (int64_t c = 0; c < p.columns; ++c) p.b(i, c) = T(0);
}

// 1 + the place of a zero on the diagonal, or 0.
template <class T>
int32_t zero_on_diagonal(int64_t n, Matrix<T> r) {
  for (int64_t i = 0; i < n; ++i)
    if (r(i, i) == T(0)) return static_cast<int32_t>(i + 1);
  return 0;
}

// a, times scale, to columns, by tiles that stay in the cache.
template <class T>
void load(int64_t m, int64_t n, Matrix<T> a, Real<T> scale, bool conjugated, T* to, int64_t ld) {
  constexpr int64_t kTile = 16;
  for (int64_t i0 = 0; i0 < m; i0 += kTile)
    for (int64_t j0 = 0; j0 < n; j0 += kTile)
      for (int64_t j = j0; j < std::min(n, j0 + kTile); ++j)
        for (int64_t i = i0; i < std::min(m, i0 + kTile); ++i)
          to[i + j * ld] = (conjugated ? conjugate(a(i, j)) : a(i, j)) * scale;
}

// Q R of A, or of its conjugate transpose: what has more rows than columns. If it is A, b becomes Q^H b.
template <class T>
class Factored {
 public:
  Factored(const Problem<T>& p, Real<T> scale)
      : p_(p),
        tall_(p.m >= p.n),
        rows_(std::max(p.m, p.n)),
        k_(std::min(p.m, p.n)),
        ld_(padded_rows<T>(rows_)),
        memory_(ld_ * k_ + k_) {
    T* const q = memory_.get();
    load(rows_, k_, tall_ ? p.a : p.a.transposed(), scale, !tall_, q, ld_);
    for (int64_t j = 0; j < k_; ++j)
      zero_ &= std::all_of(q + j * ld_, q + j * ld_ + rows_, [](T x) { return x == T(0); });
    if (!zero_) factor_columns(rows_, k_, q, ld_, tau(), p.b, tall_ ? p.columns : 0);
  }
  bool zero() const { return zero_; }
  Matrix<T> triangle() const { return in_columns(memory_.get(), ld_); }
  bool surely_full_rank(Real<T> rcond) const { return !zero_ && cpu::surely_full_rank(k_, memory_.get(), ld_, rcond); }
  // b becomes the solution.
  void solve() const {
    if (tall_) {
      solve_upper(k_, p_.columns, triangle(), false, p_.b);
    } else {
      solve_upper(k_, p_.columns, triangle(), true, p_.b);
      zero_rows(k_, rows_, p_);
      rotate(rows_, k_, memory_.get(), ld_, tau(), false, p_.columns, p_.b);
    }
  }

 private:
  T* tau() const { return memory_.get() + ld_ * k_; }

  const Problem<T>& p_;
  bool tall_, zero_ = true;
  int64_t rows_, k_, ld_;
  ScratchArray<T> memory_;
};

template <class T>
int32_t solve_full_rank(const Problem<T>& p, Real<T> scale) {
  const Factored<T> factored(p, scale);
  if (factored.zero()) {  // x is zero, and all of b is left
    const int64_t rows = std::max(p.m, p.n);
    const ScratchArray<T> column(p.m);
    for (int64_t c = 0; c < p.columns; ++c) {
      for (int64_t i = 0; i < p.m; ++i) column[i] = p.b(i, c);
      const T left = T(norm(p.m, column.get()));
      for (int64_t i = 0; i < rows; ++i) p.b(i, c) = i == p.n ? left : T(0);
    }
    return 0;
  }
  if (const int32_t at = zero_on_diagonal(std::min(p.m, p.n), factored.triangle())) return at;
  factored.solve();
  return 0;
}

template <class T>
int64_t solve_pivoted(const Problem<T>& p, Real<T> scale) {
  const int64_t k = std::min(p.m, p.n), ld = padded_rows<T>(p.m);
  const ScratchArray<T> memory(ld * p.n + k);
  const ScratchArray<int64_t> order(p.n);
  T *q = memory.get(), *tau = q + ld * p.n;
  load(p.m, p.n, p.a, scale, false, q, ld);
  factor_pivoted(p.m, p.n, q, ld, tau, order.get());
  int64_t rank = 0;
  if (k > 0 && q[0] != T(0)) {
    SingularRange<T> range(k, q[0]);
    rank = 1;
    while (rank < k && range.take(rank, q + rank * ld, q[rank + rank * ld], p.rcond)) ++rank;
  }
  if (rank == 0) {
    zero_rows(0, p.n, p);
    return 0;
  }
  rotate(p.m, k, q, ld, tau, true, p.columns, p.b);
  if (rank == p.n) {
    solve_upper(rank, p.columns, in_columns(q, ld), false, p.b);
  } else {
    // The smallest solution: the rows of R that count, as Q2 R2 of their conjugate transpose.
    const int64_t tall = padded_rows<T>(p.n);
    const ScratchArray<T> more(tall * rank + rank);
    T *q2 = more.get(), *tau2 = q2 + tall * rank;
    for (int64_t j = 0; j < rank; ++j)
      for (int64_t i = 0; i < p.n; ++i) q2[i + j * tall] = i < j ? T(0) : conjugate(q[j + i * ld]);
    factor_columns(p.n, rank, q2, tall, tau2, p.b, 0);
    solve_upper(rank, p.columns, in_columns(q2, tall), true, p.b);
    zero_rows(rank, p.n, p);
    rotate(p.n, rank, q2, tall, tau2, false, p.columns, p.b);
  }
  const ScratchArray<T> sorted(p.n);
  for (int64_t c = 0; c < p.columns; ++c) {
    for (int64_t i = 0; i < p.n; ++i) sorted[order[i]] = p.b(i, c);
    for (int64_t i = 0; i < p.n; ++i) p.b(i, c) = sorted[i];
  }
  return rank;
}

// Most matrices have full rank by far, which a factorization without pivots shows sooner: it goes by matrix products.
// Where it does not, its triangle stands for A.
template <class T>
int64_t solve_any_rank(const Problem<T>& p, Real<T> scale) {
  const Factored<T> factored(p, scale);
  if (factored.surely_full_rank(p.rcond)) {
    factored.solve();
    return std::min(p.m, p.n);
  }
  if (factored.zero() || p.m < p.n) return solve_pivoted(p, scale);
  const Matrix<T> r = factored.triangle();
  for (int64_t j = 0; j < p.n; ++j)
    for (int64_t i = j + 1; i < p.n; ++i) r(i, j) = T(0);
  return solve_pivoted(Problem<T>{p.n, p.n, p.columns, r, p.b, p.rcond}, Real<T>(1));
}

template <class T>
void solve(LeastSquares method, const Problem<T>& p, int64_t* rank, int32_t* failed) {
  int32_t at = 0;
  if (std::min(p.m, p.n) == 0) {
    zero_rows(0, p.n, p);
    if (rank) *rank = 0;
  } else {
    const Real<T> scale = scale_of(p.m, p.n, p.a);
    if (method == LeastSquares::kFullRank)
      at = solve_full_rank(p, scale);
    else
      *rank = solve_any_rank(p, scale);
    if (scale != 1)
      for (int64_t i = 0; i < p.n; ++i)
        for (int64_t c = 0; c < p.columns; ++c) p.b(i, c) *= scale;
  }
  if (failed) *failed = at;
}

}  // namespace

void run_least_squares(DType dtype, LeastSquares method, double rcond, MatrixBatch a, MatrixBatch b, int64_t* rank,
                       int32_t* failed) {
  const double operations = 2.0 * a.rows * a.cols * (std::min(a.rows, a.cols) + 2 * b.cols);
  visit_number(dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto limit = static_cast<Real<T>>(rcond);
    const auto one = [&](int64_t i) {
      const Problem<T> p{a.rows, a.cols, b.cols, matrix_of<T>(a, i), matrix_of<T>(b, i), limit};
      solve(method, p, rank ? rank + i : nullptr, failed ? failed + i : nullptr);
    };
    if constexpr (!kIsComplex<T>) {
      const int64_t lanes = orthogonal::small_kernels<T>().lanes();
      if (a.rows >= a.cols && a.cols > 0 && b.cols > 0 && goes_by_groups(lanes, a.count, a.rows, a.cols + b.cols)) {
        for_groups(lanes, a.count, a.rows, a.cols + b.cols, [&](int64_t first, int64_t count) {
          const uint32_t done = orthogonal::small_least_squares<T>().solve(
              count, a.rows, a.cols, b.cols, source_of<T>(a, first), group_of<T>(b, first),
              method == LeastSquares::kPivoted, limit);
          for (int64_t lane = 0; lane < count; ++lane) {
            if (!(done >> lane & 1)) {
              one(first + lane);
              continue;
            }
            if (rank) rank[first + lane] = a.cols;
            if (failed) failed[first + lane] = 0;
          }
        });
        return;
      }
    }
    for_matrices(a.count, operations, one);
  });
}

}  // namespace tessera::cpu
