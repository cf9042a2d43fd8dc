#include "linalg/cpu/eigen/schur_deflation.h"

#include <algorithm>
#include <cmath>

#include "linalg/cpu/eigen/hessenberg.h"
#include "linalg/cpu/eigen/schur_blocks.h"
#include "linalg/cpu/eigen/small_reflection.h"
#include "linalg/cpu/reflections.h"

namespace tessera::cpu::columns {
namespace {

// x of m <= 4 equations, by elimination with the largest element that is left. a: m x m in columns, overwritten as x
// is. Pivots are not below `least`.
template <class T>
void solve_few(int64_t m, T* a, T* x, Real<T> least) {
  int64_t places[4] = {0, 1, 2, 3};
  for (int64_t k = 0; k < m; ++k) {
    int64_t row = k, column = k;
    for (int64_t j = k; j < m; ++j)
      for (int64_t i = k; i < m; ++i)
        if (size_of(a[i + j * m]) > size_of(a[row + column * m])) row = i, column = j;
    for (int64_t j = 0; j < m; ++j) std::swap(a[k + j * m], a[row + j * m]);
    std::swap(x[k], x[row]);
    std::swap_ranges(a + k * m, a + k * m + m, a + column * m);
    std::swap(places[k], places[column]);
    T& pivot = a[k + k * m];
    if (size_of(pivot) < least) pivot = least;
    for (int64_t i = k + 1; i < m; ++i) {
      const T f = a[i + k * m] / pivot;
      for (int64_t j = k + 1; j < m; ++j) a[i + j * m] -= times(f, a[k + j * m]);
      x[i] -= times(f, x[k]);
    }
  }
  T found[4];
  for (int64_t k = m - 1; k >= 0; --k) {
    for (int64_t j = k + 1; j < m; ++j) x[k] -= times(a[k + j * m], x[j]);
    x[k] /= a[k + k * m];
    found[places[k]] = x[k];
  }
  std::copy_n(found, m, x);
}

// The Schur form t = v^H h v of a window.
template <class T>
class Window {
  using R = Real<T>;

 public:
  explicit Window(const SchurProblem<T>& p) : p_(p), t_(in_columns(p.h, p.ld)), v_(in_columns(p.z, p.ld)) {}

  // The rows of the block that ends before row `end`.
  int64_t block_before(int64_t end) const { return !kIsComplex<T> && end > 1 && t_(end - 1, end - 2) != T(0) ? 2 : 1; }

  int64_t block_at(int64_t k) const { return k + 1 < p_.n ? block_before(k + 2) : 1; }

  // The size of an eigenvalue of the block that begins at row k.
  R value(int64_t k, int64_t size) const {
    R all = size_of(t_(k, k));
    if (size == 2) all += std::sqrt(std::abs(t_(k, k + 1))) * std::sqrt(std::abs(t_(k + 1, k)));
    return all;
  }

  // Brings the block of rows k ... up to row `to`; false where it stopped before.
  bool move(int64_t k, int64_t size, int64_t to) const {
    while (k > to) {
      const int64_t above = block_before(k);
      if (!swap(k - above, above, size)) return false;
      k -= above;
      if (size == 2 && t_(k + 1, k) == T(0)) size = 1;  // which falls apart
    }
    return true;
  }

 private:
  // Blocks of p and q rows from row k on change places; false where they are too close.
  bool swap(int64_t k, int64_t p, int64_t q) const {
    if constexpr (kIsComplex<T>) p = q = 1;
    const int64_t n = p + q;
    T d[16];
    const Matrix<T> local = in_columns(d, 4);
    R largest = 0;
    for (int64_t j = 0; j < n; ++j)
      for (int64_t i = 0; i < n; ++i) {
        local(i, j) = t_(k + i, k + j);
        largest = std::max(largest, size_of(local(i, j)));
      }
    // (x, 1) spans what belongs to the second block: t11 x - x t22 = -t12.
    T equations[16] = {}, x[4];
    for (int64_t j = 0; j < q; ++j)
      for (int64_t i = 0; i < p; ++i) {
        const int64_t row = i + j * p, m = p * q;
        x[row] = -local(i, p + j);
        for (int64_t l = 0; l < p; ++l) equations[row + (l + j * p) * m] += local(i, l);
        for (int64_t l = 0; l < q; ++l) equations[row + (i + l * p) * m] -= local(p + l, p + j);
      }
    solve_few(p * q, equations, x, std::max(kEps<T> * largest, kSafeMin<T> / kEps<T>));
    T factors[2 * kFactors];
    T basis[2][4] = {};
    for (int64_t j = 0; j < q; ++j) {
      std::copy_n(x + j * p, p, basis[j]);
      basis[j][p + j] = T(1);
    }
    for (int64_t j = 0; j < q; ++j) {
      T* const f = factors + j * kFactors;
      T column[3] = {basis[j][j], basis[j][j + 1], p == 2 ? basis[j][j + 2] : T(0)};
      if (!small_reflection(p + 1, column, f)) std::fill_n(f, kFactors, T(0));
      if (j + 1 < q) reflect_from_left(in_columns(basis[1], 4), 0, p + 1, f, 0, 1);
      reflect_from_left(local, j, p + 1, f, 0, n);
      reflect_from_right(local, j, p + 1, f, 0, n);
    }
    for (int64_t j = 0; j < q; ++j)
      for (int64_t i = q; i < n; ++i)
        if (!(size_of(local(i, j)) <= 20 * kEps<T> * largest)) return false;
    for (int64_t j = 0; j < q; ++j) {
      const T* const f = factors + j * kFactors;
      reflect_from_left(t_, k + j, p + 1, f, k, p_.n);
      reflect_from_right(t_, k + j, p + 1, f, 0, k + n);
      reflect_from_right(v_, k + j, p + 1, f, 0, p_.n);
    }
    for (int64_t j = 0; j < q; ++j)
      for (int64_t i = q; i < n; ++i) t_(k + i, k + j) = T(0);
    if constexpr (!kIsComplex<T>) {
      if (q == 2) standardize_block(p_, k);
      if (p == 2) standardize_block(p_, k + q);
    }
    return true;
  }

  const SchurProblem<T>& p_;
  const Matrix<T> t_, v_;
};

// What a Schur form's diagonal says.
template <class T>
void read_eigenvalues(int64_t n, Matrix<T> t, std::complex<Real<T>>* w) {
  for (int64_t k = 0; k < n; ++k) {
    w[k] = t(k, k);
    if constexpr (!kIsComplex<T>) {
      if (k + 1 == n || t(k + 1, k) == T(0)) continue;
      const T root = std::sqrt(std::abs(t(k, k + 1))) * std::sqrt(std::abs(t(k + 1, k)));
      w[k] = {t(k, k), root};
      w[k + 1] = std::conj(w[k]);
      ++k;
    }
  }
}

// c, of m rows and n columns, becomes what product(to) makes of it.
template <class T, class Product>
void replace(int64_t m, int64_t n, Matrix<T> c, const Product& product) {
  if (m <= 0 || n <= 0) return;
  const ScratchArray<T> memory(m * n);
  const Matrix<T> to = in_columns(memory.get(), m);
  product(to);
  for (int64_t j = 0; j < n; ++j) std::copy_n(&to(0, j), m, &c(0, j));
}

}  // namespace

template <class T>
int64_t deflate_early(const SchurProblem<T>& p, int64_t lo, int64_t hi, int64_t size, Real<T> tiny) {
  using R = Real<T>;
  const int64_t begin = hi - size, ld = padded_rows<T>(size);
  const Matrix<T> h = in_columns(p.h, p.ld);
  const ScratchArray<T> memory(4 * ld * size);
  const Matrix<T> t = in_columns(memory.get(), ld), v = in_columns(t.data + ld * size, ld),
                  q = in_columns(v.data + ld * size, ld), u = in_columns(q.data + ld * size, ld);
  std::fill_n(v.data, ld * size, T(0));
  for (int64_t j = 0; j < size; ++j) {
    std::copy_n(&h(begin, begin + j), size, &t(0, j));
    v(j, j) = T(1);
  }
  std::complex<R>* const w = p.w + begin;
  const SchurProblem<T> inner{size, 0, size, t.data, ld, true, v.data, size, ld, w};
  if (schur(inner) != 0) return -1;
  // What an eigenvalue at the end has to do with the rest is its element of the row beside the window.
  const T spike = h(begin, begin - 1);
  const Window<T> window(inner);
  int64_t left = size;
  for (int64_t top = 0; top < left;) {
    const int64_t rows = window.block_before(left), k = left - rows;
    R beside = size_of(times(spike, v(0, k))), value = window.value(k, rows);
    if (rows == 2) beside = std::max(beside, size_of(times(spike, v(0, k + 1))));
    if (value == 0) value = size_of(spike);
    if (beside <= std::max(tiny, kEps<T> * value)) {
      left = k;
      continue;
    }
    if (!window.move(k, rows, top)) break;
    top += window.block_at(top);
  }
  read_eigenvalues(size, t, w);
  if (left == size) return 0;

  // Back to Hessenberg's form.
  T beside = T(0);
  if (left > 0) {
    T tau, *const x = u.data;
    for (int64_t i = 0; i < left; ++i) x[i] = times(spike, conjugate(v(0, i)));
    tau = make_reflection(left - 1, x[0], x + 1);
    beside = x[0];
    x[0] = T(1);
    const Block<T> one{left, 1, x, ld, &tau};
    apply_left(one, true, size, t);
    apply_right(one, false, left, t);
    apply_right(one, false, size, v);
    reduce_to_hessenberg(size, 0, left, t.data, ld, q.data, ld);
    multiply(size, size, size, T(1), v, q, T(0), u);
  } else {
    std::copy_n(v.data, ld * size, u.data);
  }
  h(begin, begin - 1) = beside;
  for (int64_t j = 0; j < size; ++j) std::copy_n(&t(0, j), size, &h(begin, begin + j));
  const int64_t top = p.form ? 0 : lo, right = p.form ? p.n : hi;
  const auto times_window = [&](int64_t rows, Matrix<T> c) {
    replace(rows, size, c, [&](Matrix<T> to) { multiply(rows, size, size, T(1), c, u, T(0), to); });
  };
  times_window(begin - top, h.at(top, begin));
  if (p.z) times_window(p.z_rows, in_columns(p.z, p.z_ld).at(0, begin));
  const Matrix<T> behind = h.at(begin, hi);
  replace(size, right - hi, behind,
          [&](Matrix<T> to) { multiply_adjoint(size, right - hi, size, T(1), u, behind, T(0), to); });
  return size - left;
}

template int64_t deflate_early(const SchurProblem<float>&, int64_t, int64_t, int64_t, float);
template int64_t deflate_early(const SchurProblem<double>&, int64_t, int64_t, int64_t, double);
template int64_t deflate_early(const SchurProblem<std::complex<float>>&, int64_t, int64_t, int64_t, float);
template int64_t deflate_early(const SchurProblem<std::complex<double>>&, int64_t, int64_t, int64_t, double);

}  // namespace tessera::cpu::columns
