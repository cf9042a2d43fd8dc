// Symmetric and Hermitian indefinite matrices: L D L^T by Bunch's and Kaufman's diagonal pivoting ("Some stable methods
// for calculating inertia and solving symmetric linear systems", Math. Comp. 31, 1977).
#include <cmath>
#include <cstdlib>

#include "linalg/cpu/factor/blocks.h"

namespace tessera::cpu {
namespace factor {
namespace {

// The lower triangle by columns, each of which lies in one piece: element (i, j), i >= j, of an n x n matrix.
template <class T>
class LdlFactor {
  using R = Real<T>;

 public:
  LdlFactor(int64_t n, T* columns, bool hermitian, int32_t* pivots)
      : n_(n), a_(columns), hermitian_(hermitian), pivots_(pivots) {}

  int32_t run() {
    int32_t info = 0;
    for (int64_t k = 0; k < n_;) {
      const Choice c = choose(k);
      if (c.zero) {
        if (!info) info = static_cast<int32_t>(k + 1);
        if (hermitian_) at(k, k) = T(real_part(at(k, k)));
        pivots_[k] = static_cast<int32_t>(k + 1);
        ++k;
        continue;
      }
      const int64_t moved = k + c.size - 1;
      exchange(k, moved, c.row, c.size == 2);
      if (c.size == 1)
        eliminate_one(k);
      else
        eliminate_two(k);
      for (int64_t i = k; i <= moved; ++i) pivots_[i] = static_cast<int32_t>(c.size == 1 ? c.row + 1 : -(c.row + 1));
      k += c.size;
    }
    return info;
  }

 private:
  struct Choice {
    int64_t row, size;
    bool zero;
  };

  T& at(int64_t i, int64_t j) { return a_[j * n_ + i]; }
  T other(T x) const { return conj_if(x, hermitian_); }  // the element on the other side of the diagonal
  R diagonal_size(int64_t i) { return hermitian_ ? std::abs(real_part(at(i, i))) : size_of(at(i, i)); }

  // Which row and column comes to k, and whether k + 1 belongs to it: elements of L stay below 1 / (1 - kGrowth).
  Choice choose(int64_t k) {
    constexpr R kGrowth = static_cast<R>(0.6403882032022076);  // (1 + sqrt(17)) / 8
    const R own = diagonal_size(k);
    R in_column = 0;
    int64_t r = k;
    for (int64_t i = k + 1; i < n_; ++i)
      if (size_of(at(i, k)) > in_column) in_column = size_of(at(i, k)), r = i;
    if (std::isnan(own) || (own == 0 && in_column == 0)) return {k, 1, true};
    if (own >= kGrowth * in_column) return {k, 1, false};
    R in_row = 0;
    for (int64_t j = k; j < r; ++j) in_row = std::max(in_row, size_of(at(r, j)));
    for (int64_t i = r + 1; i < n_; ++i) in_row = std::max(in_row, size_of(at(i, r)));
    if (own >= kGrowth * in_column * (in_column / in_row)) return {k, 1, false};
    if (diagonal_size(r) >= kGrowth * in_row) return {r, 1, false};
    return {r, 2, false};
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
    if (hermitian_) to[j] = T(real_part(to[j]));
  }

  void eliminate_one(int64_t k) {
    if (hermitian_) at(k, k) = T(real_part(at(k, k)));
    const T pivot = at(k, k);
    for (int64_t j = k + 1; j < n_; ++j) subtract(j, k, other(at(j, k)) / pivot);
    for (int64_t i = k + 1; i < n_; ++i) at(i, k) /= pivot;
  }

  // D = [a b'; b c], where b is not small; scaled by b.
  void eliminate_two(int64_t k) {
    if (hermitian_)
      for (int64_t i = k; i < k + 2; ++i) at(i, i) = T(real_part(at(i, i)));
    const T b = at(k + 1, k), a_over = at(k, k) / b, c_over = at(k + 1, k + 1) / other(b);
    const T scale = T(1) / (a_over * c_over - T(1));
    for (int64_t j = k + 2; j < n_; ++j) {
      // The row (x, y) of L: (x, y) D = (u, v).
      const T u = at(j, k) / b, v = at(j, k + 1) / other(b);
      const T x = scale * (c_over * u - v), y = scale * (a_over * v - u);
      for (int64_t i = j; i < n_; ++i) at(i, j) -= at(i, k) * other(x) + at(i, k + 1) * other(y);
      if (hermitian_) at(j, j) = T(real_part(at(j, j)));
      at(j, k) = x;
      at(j, k + 1) = y;
    }
  }

  int64_t n_;
  T* a_;
  bool hermitian_;
  int32_t* pivots_;
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

}  // namespace
}  // namespace factor

using namespace factor;

void run_ldl_factor(DType dtype, const MatrixBatch& a, bool hermitian, int32_t* pivots, int32_t* info) {
  const int64_t n = a.rows;
  std::fill(info, info + a.count, 0);
  visit_number(dtype, [&]<class T>(T) {
    for_matrices(a.count, n * n * n / 3, [&](int64_t b) {
      const Matrix<T> m = matrix_of<T>(a, b);
      const ScratchArray<T> columns(n * n);
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j <= i; ++j) columns[j * n + i] = m(i, j);
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
    for_matrices(b.count, n * n * b.cols, [&](int64_t i) {
      LdlSolve<T>(n, matrix_of<T>(ld, i).reading(), pivots + i * n, hermitian && kIsComplex<T>, matrix_of<T>(b, i),
                  b.cols)
          .run();
    });
  });
}

}  // namespace tessera::cpu
