// Symmetric and Hermitian indefinite matrices: L D L^T by Bunch's and Kaufman's diagonal pivoting ("Some stable methods
// for calculating inertia and solving symmetric linear systems", Math. Comp. 31, 1977).
#include <cmath>
#include <cstdlib>

#include "linalg/cpu/columns.h"
#include "linalg/cpu/factor/blocks.h"
#include "linalg/cpu/factor/by_rows.h"

namespace tessera::cpu {
namespace factor {
namespace {

// A block D = [a b'; b c], where b is not small; scaled by b.
template <class T>
class Pair {
 public:
  Pair(T a, T b, T c, bool hermitian)
      : b_(b), across_(conj_if(b, hermitian)), a_(a / b_), c_(c / across_), scale_(T(1) / (a_ * c_ - T(1))) {}
  // (x, y) D = (u, v).
  void solve(T u, T v, T& x, T& y) const {
    u /= b_;
    v /= across_;
    x = scale_ * (c_ * u - v);
    y = scale_ * (a_ * v - u);
  }

 private:
  T b_, across_, a_, c_, scale_;
};

// The lower triangle by columns, each of which lies in one piece: element (i, j), i >= j, of an n x n matrix.
template <class T>
class LdlFactor {
  using R = Real<T>;
  using Pair = factor::Pair<T>;

 public:
  LdlFactor(int64_t n, T* columns, bool hermitian, int32_t* pivots)
      : n_(n), a_(columns), hermitian_(hermitian), pivots_(pivots) {}

  // By panels while what is left is large, then column by column.
  int32_t run() {
    int64_t k = 0;
    if (n_ > kLeft) {
      const ScratchArray<T> memory(n_ * kPanel);
      while (n_ - k > kLeft) k = eliminate_panel(k, memory.get());
    }
    while (k < n_) k += eliminate(k);
    return info_;
  }

 private:
  static constexpr int64_t kPanel = 48, kLeft = 2 * kPanel, kStrip = 128;
  struct Choice {
    int64_t row, size;
    bool zero;
  };
  // Of a row: the largest element beside its diagonal, and that of the diagonal.
  struct RowSizes {
    R beside, own;
  };

  T& at(int64_t i, int64_t j) { return a_[j * n_ + i]; }
  T other(T x) const { return conj_if(x, hermitian_); }  // the element on the other side of the diagonal
  T on_diagonal(T x) const { return hermitian_ ? T(real_part(x)) : x; }
  R diagonal_size(T x) const { return hermitian_ ? std::abs(real_part(x)) : size_of(x); }

  // Which row and column comes to k, and whether k + 1 belongs to it: elements of L stay below 1 / (1 - kLdlGrowth).
  // column: column k, from row k on; sizes_of(r): RowSizes of a row.
  template <class F>
  Choice choose(int64_t k, const T* column, F&& sizes_of) {
    constexpr R kGrowth = static_cast<R>(kLdlGrowth);
    const R own = diagonal_size(column[k]);
    R in_column = 0;
    int64_t r = k;
    for (int64_t i = k + 1; i < n_; ++i)
      if (size_of(column[i]) > in_column) in_column = size_of(column[i]), r = i;
    if (std::isnan(own) || (own == 0 && in_column == 0)) return {k, 1, true};
    if (own >= kGrowth * in_column) return {k, 1, false};
    const RowSizes row = sizes_of(r);
    if (own >= kGrowth * in_column * (in_column / row.beside)) return {k, 1, false};
    if (row.own >= kGrowth * row.beside) return {r, 1, false};
    return {r, 2, false};
  }
  // Writes the pivots of a step.
  void note(int64_t k, const Choice& c) {
    if (c.zero && !info_) info_ = static_cast<int32_t>(k + 1);
    for (int64_t i = k; i < k + c.size; ++i) pivots_[i] = static_cast<int32_t>(c.size == 1 ? c.row + 1 : -(c.row + 1));
  }

  // One step; results are its columns.
  int64_t eliminate(int64_t k) {
    const Choice c = choose(k, &at(0, k), [&](int64_t r) {
      RowSizes row{0, diagonal_size(at(r, r))};
      for (int64_t j = k; j < r; ++j) row.beside = std::max(row.beside, size_of(at(r, j)));
      for (int64_t i = r + 1; i < n_; ++i) row.beside = std::max(row.beside, size_of(at(i, r)));
      return row;
    });
    note(k, c);
    if (c.zero) {
      at(k, k) = on_diagonal(at(k, k));
      return 1;
    }
    exchange(k, k + c.size - 1, c.row, c.size == 2);
    if (c.size == 1)
      eliminate_one(k);
    else
      eliminate_two(k);
    return c.size;
  }

  // The columns from `begin` on, kPanel or one less: each is brought up to date when its turn comes, all to the right
  // of them by products in the end. w: n x kPanel, the columns of L D. Where the next ones begin.
  int64_t eliminate_panel(int64_t begin, T* w) {
    int64_t end = begin;
    while (end + 1 < begin + kPanel) end += panel_step(begin, end, w + (end - begin) * n_);
    for (int64_t j = end; j < n_; j += kStrip) {
      const int64_t width = std::min(kStrip, n_ - j);
      subtract_product<T>(n_ - j, width, end - begin, {&at(j, begin), 1, n_}, {w + j, n_, 1}, {&at(j, j), 1, n_}, false,
                          hermitian_);
      for (int64_t i = j; i < j + width; ++i) at(i, i) = on_diagonal(at(i, i));
    }
    // Columns of L keep the order of rows that they were found in.
    for (int64_t last = end - 1; last >= begin;) {
      const int64_t r = std::abs(static_cast<int64_t>(pivots_[last])) - 1, first = last - (pivots_[last] < 0 ? 1 : 0);
      exchange_rows(begin, first, last, r);
      last = first - 1;
    }
    return end;
  }
  void exchange_rows(int64_t begin, int64_t end, int64_t p, int64_t r) {
    for (int64_t j = begin; p != r && j < end; ++j) std::swap(at(p, j), at(r, j));
  }

  // one: column k - begin of w; the next one is free if the step takes two.
  int64_t panel_step(int64_t begin, int64_t k, T* one) {
    T *const two = one + n_, *const w = one - (k - begin) * n_;
    up_to_date(begin, k, k, w, one);
    const Choice c = choose(k, one, [&](int64_t r) {
      up_to_date(begin, k, r, w, two);
      RowSizes row{0, diagonal_size(two[r])};
      for (int64_t i = k; i < n_; ++i)
        if (i != r) row.beside = std::max(row.beside, size_of(two[i]));
      return row;
    });
    note(k, c);
    if (c.zero) {
      std::copy(one + k, one + n_, &at(k, k));
      std::fill(one + k, one + n_, T{});
      return 1;
    }
    const int64_t p = k + c.size - 1;
    exchange(k, p, c.row, false);
    exchange_rows(begin, k, p, c.row);
    if (c.size == 1 && c.row != k) std::copy(two + k, two + n_, one + k);
    for (T* column = w; column <= (c.size == 1 ? one : two); column += n_) std::swap(column[p], column[c.row]);
    if (c.size == 1)
      divide_by_one(k, one);
    else
      divide_by_two(k, one, two);
    return c.size;
  }
  // to: column j of what the columns from `begin` to k leave, from row k on.
  void up_to_date(int64_t begin, int64_t k, int64_t j, const T* w, T* to) {
    for (int64_t i = k; i < j; ++i) to[i] = other(at(j, i));
    std::copy(&at(j, j), &at(0, j) + n_, to + j);
    T factors[kPanel];
    for (int64_t q = 0; q < k - begin; ++q) factors[q] = -other(w[q * n_ + j]);
    columns::kernels<T>().combine(n_ - k, k - begin, &at(k, begin), n_, factors, to + k);
    to[j] = on_diagonal(to[j]);
  }

  // Columns of L from those of L D.
  void divide_by_one(int64_t k, const T* w) {
    const T pivot = at(k, k) = w[k];
    for (int64_t i = k + 1; i < n_; ++i) at(i, k) = w[i] / pivot;
  }
  void divide_by_two(int64_t k, const T* v, const T* w) {
    at(k, k) = v[k];
    at(k + 1, k) = v[k + 1];
    at(k + 1, k + 1) = w[k + 1];
    const Pair pair(at(k, k), at(k + 1, k), at(k + 1, k + 1), hermitian_);
    for (int64_t i = k + 2; i < n_; ++i) pair.solve(v[i], w[i], at(i, k), at(i, k + 1));
  }

  // Rows and columns p and r > p of what is not factored yet. In a block of two, column k is not, too.
  void exchange(int64_t k, int64_t p, int64_t r, bool in_two) {
    if (p == r) return;
    for (int64_t i = r + 1; i < n_; ++i) std::swap(at(i, p), at(i, r));
    for (int64_t i = p + 1; i < r; ++i) {
      const T below = at(i, p);
      at(i, p) = other(at(r, i));
      at(r, i) = other(below);
    }
    at(r, p) = other(at(r, p));
    std::swap(at(p, p), at(r, r));
    if (in_two) std::swap(at(p, k), at(r, k));
  }

  // Column j minus `factor` times column k, from the diagonal on.
  void subtract(int64_t j, int64_t k, T factor) {
    T* const to = &at(0, j);
    const T* const from = &at(0, k);
    for (int64_t i = j; i < n_; ++i) to[i] -= from[i] * factor;
    to[j] = on_diagonal(to[j]);
  }

  void eliminate_one(int64_t k) {
    const T pivot = at(k, k) = on_diagonal(at(k, k));
    for (int64_t j = k + 1; j < n_; ++j) subtract(j, k, other(at(j, k)) / pivot);
    for (int64_t i = k + 1; i < n_; ++i) at(i, k) /= pivot;
  }

  void eliminate_two(int64_t k) {
    for (int64_t i = k; i < k + 2; ++i) at(i, i) = on_diagonal(at(i, i));
    const Pair pair(at(k, k), at(k + 1, k), at(k + 1, k + 1), hermitian_);
    for (int64_t j = k + 2; j < n_; ++j) {
      T x, y;
      pair.solve(at(j, k), at(j, k + 1), x, y);
      for (int64_t i = j; i < n_; ++i) at(i, j) -= at(i, k) * other(x) + at(i, k + 1) * other(y);
      at(j, j) = on_diagonal(at(j, j));
      at(j, k) = x;
      at(j, k + 1) = y;
    }
  }

  int64_t n_;
  T* a_;
  bool hermitian_;
  int32_t* pivots_;
  int32_t info_ = 0;
};

template <class T>
class LdlSolve {
 public:
  LdlSolve(int64_t n, Matrix<const T> ld, const int32_t* pivots, bool hermitian, Matrix<T> b, int64_t width)
      : n_(n), ld_(ld), pivots_(pivots), hermitian_(hermitian), b_(b), width_(width) {}

  void run() {
    for (int64_t k = 0; k < n_;) {
      const int64_t size = size_at(k), last = k + size - 1;
      exchange(last);
      for (int64_t q = k; q <= last; ++q)
        for (int64_t i = last + 1; i < n_; ++i) subtract(i, q, ld_(i, q));
      if (size == 1)
        divide(k);
      else
        divide_two(k);
      k += size;
    }
    for (int64_t last = n_ - 1; last >= 0;) {
      const int64_t size = pivots_[last] < 0 && last > 0 ? 2 : 1, k = last - size + 1;
      for (int64_t q = k; q <= last; ++q)
        for (int64_t i = last + 1; i < n_; ++i) subtract(q, i, other(ld_(i, q)));
      exchange(last);
      last -= size;
    }
  }

 private:
  T other(T x) const { return conj_if(x, hermitian_); }
  int64_t size_at(int64_t k) const { return pivots_[k] < 0 && k + 1 < n_ ? 2 : 1; }
  void exchange(int64_t k) {
    const int64_t p = std::abs(static_cast<int64_t>(pivots_[k])) - 1;
    if (p == k) return;
    for (int64_t j = 0; j < width_; ++j) std::swap(b_(k, j), b_(p, j));
  }
  void subtract(int64_t i, int64_t k, T factor) {
    for (int64_t j = 0; j < width_; ++j) b_(i, j) -= factor * b_(k, j);
  }
  void divide(int64_t k) {
    for (int64_t j = 0; j < width_; ++j) b_(k, j) /= hermitian_ ? T(real_part(ld_(k, k))) : ld_(k, k);
  }
  void divide_two(int64_t k) {
    const T b = ld_(k + 1, k), a_over = ld_(k, k) / b, c_over = ld_(k + 1, k + 1) / other(b);
    const T scale = T(1) / (a_over * c_over - T(1));
    for (int64_t j = 0; j < width_; ++j) {
      const T u = b_(k, j), v = b_(k + 1, j);
      b_(k, j) = scale * (c_over * u - v) / b;
      b_(k + 1, j) = scale * (a_over * v - u) / other(b);
    }
  }

  int64_t n_;
  Matrix<const T> ld_;
  const int32_t* pivots_;
  bool hermitian_;
  Matrix<T> b_;
  int64_t width_;
};

// Of more right-hand sides: the factorization as P A P^T = L D L^T, by rows, of real numbers.
template <class T>
class LdlRows {
 public:
  LdlRows(int64_t n, const Matrix<const T>& ld, const int32_t* pivots)
      : n_(n), memory_(n * n), l_(in_rows(memory_.get(), n).reading()) {
    T* const l = memory_.get();
    for (int64_t i = 0; i < n; ++i) {
      order_[i] = static_cast<int32_t>(i);
      if (ld.col_stride == 1)
        std::copy_n(&ld(i, 0), n, l + i * n);
      else
        for (int64_t j = 0; j < i; ++j) l[i * n + j] = ld(i, j);
    }
    for (int64_t k = 0; k < n; k += size_[k]) {
      size_[k] = pivots[k] < 0 && k + 1 < n ? 2 : 1;
      invert(k, ld);
      const int64_t last = k + size_[k] - 1, with = std::abs(static_cast<int64_t>(pivots[last])) - 1;
      if (last > k) l[last * n + k] = T{};
      if (with == last) continue;
      std::swap(order_[last], order_[with]);
      std::swap_ranges(l + last * n, l + last * n + k, l + with * n);  // which have the order that they were found in
    }
  }
  // Whether factors are as good as divisions.
  bool is_good() const { return is_good_; }

  void solve(int64_t width, const Matrix<const T>& from, const Matrix<T>& x) const {
    const ScratchArray<T> memory(n_ * width);
    const Matrix<T> y = in_rows(memory.get(), width);
    solve_small(n_, width, l_, kUnitLower, from, order_, y);
    for (int64_t k = 0; k < n_; k += size_[k])
      kernels<SmallLdl<T>>().mix_rows(width, &y(k, 0), size_[k] == 2 ? &y(k + 1, 0) : nullptr, factors_[k]);
    solve_small(n_, width, l_.transposed(), {true, true, false}, y.reading(), nullptr, y);
    for (int64_t i = 0; i < n_; ++i) std::copy_n(&y(i, 0), width, &x(order_[i], 0));
  }

 private:
  // Of a block of D, as Pair does it.
  void invert(int64_t k, const Matrix<const T>& ld) {
    T* const f = factors_[k];
    f[0] = 1 / (size_[k] == 1 ? ld(k, k) : ld(k + 1, k));
    is_good_ = is_good_ && std::isnormal(f[0]);
    if (size_[k] == 1) return;
    const T a_over = ld(k, k) * f[0], c_over = ld(k + 1, k + 1) * f[0];
    f[1] = f[2] = -f[0] / (a_over * c_over - 1);
    f[0] = -f[1] * c_over;
    f[3] = -f[1] * a_over;
  }

  int64_t n_;
  bool is_good_ = true;
  ScratchArray<T> memory_;
  Matrix<const T> l_;
  T factors_[kBlock][4];  // of mix_rows, where a block of D begins
  int32_t order_[kBlock];
  int8_t size_[kBlock];  // of that block
};

}  // namespace
}  // namespace factor

using namespace factor;

void run_ldl_factor(DType dtype, const MatrixBatch& a, bool hermitian, int32_t* pivots, int32_t* info) {
  const int64_t n = a.rows;
  std::fill(info, info + a.count, 0);
  visit_number(dtype, [&]<class T>(T) {
    if constexpr (!kIsComplex<T>) {
      if (const auto factor = kernels<SmallLdl<T>>().factor; factor && n > 0 && is_lockstep<T>(a.count, n, n)) {
        for_groups<T>(a.count, n, n, [&](int64_t first, int64_t count) {
          factor(count, n, source_of<T>(a, first), group_of<T>(a, first), pivots + first * n, info + first);
        });
        return;
      }
    }
    for_matrices(a.count, n * n * n / 3, [&](int64_t b) {
      const Matrix<T> m = matrix_of<T>(a, b);
      const Matrix<const T> from{source_of<T>(a, b).data, m.row_stride, m.col_stride};
      const ScratchArray<T> columns(n * n);
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j <= i; ++j) columns[j * n + i] = from(i, j);
      info[b] = LdlFactor<T>(n, columns.get(), hermitian && kIsComplex<T>, pivots + b * n).run();
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j) m(i, j) = j <= i ? columns[j * n + i] : T{};
    });
  });
}

void run_ldl_solve(DType dtype, const MatrixBatch& ld, const int32_t* pivots, bool hermitian, const MatrixBatch& b) {
  const int64_t n = b.rows;
  check_pivots("LDL solution", pivots, b.count * n, n, true);
  visit_number(dtype, [&]<class T>(T) {
    const auto solve_one = [&](int64_t i, const Matrix<T>& x) {
      LdlSolve<T>(n, matrix_of<T>(ld, i).reading(), pivots + i * n, hermitian && kIsComplex<T>, x, b.cols).run();
    };
    if constexpr (!kIsComplex<T>) {
      if (goes_by_rows<T>(b)) {
        for_rows_of<T>(b, n * n * b.cols, [&](int64_t i, const Matrix<const T>& from, const Matrix<T>& x) {
          const LdlRows<T> rows(n, matrix_of<T>(ld, i).reading(), pivots + i * n);
          if (rows.is_good()) return rows.solve(b.cols, from, x);
          for (int64_t j = 0; j < n && from.data != x.data; ++j) std::copy_n(&from(j, 0), b.cols, &x(j, 0));
          solve_one(i, x);
        });
        return;
      }
      if (n > 0 && b.cols > 0 && is_lockstep<T>(b.count, n, b.cols)) {
        for_groups<T>(b.count, n, std::max(n, b.cols), [&](int64_t first, int64_t count) {
          kernels<SmallLdl<T>>().solve(count, n, b.cols, source_of<T>(ld, first), pivots + first * n,
                                       source_of<T>(b, first), group_of<T>(b, first));
        });
        return;
      }
    }
    bring<T>(b);
    for_matrices(b.count, n * n * b.cols, [&](int64_t i) { solve_one(i, matrix_of<T>(b, i)); });
  });
}

}  // namespace tessera::cpu
