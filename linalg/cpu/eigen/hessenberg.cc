#include "linalg/cpu/eigen/hessenberg.h"

#include "linalg/cpu/reflections.h"

namespace tessera::cpu::columns {
namespace {

template <class T>
void swap_both(int64_t n, T* a, int64_t ld, int64_t i, int64_t j) {
  if (i == j) return;
  std::swap_ranges(a + i * ld, a + i * ld + n, a + j * ld);
  for (int64_t c = 0; c < n; ++c) std::swap(a[i + c * ld], a[j + c * ld]);
}

}  // namespace

template <class T>
Balance<Real<T>> balance(int64_t n, T* a, int64_t ld, Real<T>* scale) {
  using R = Real<T>;
  Balance<R> b{0, n, scale};
  const auto is_zero = [&](int64_t i, int64_t j) { return a[i + j * ld] == T(0); };
  // A row with nothing but its diagonal element in [lo, hi) is brought to the end, such a column to the front.
  const auto row_is_alone = [&](int64_t i) {
    for (int64_t j = b.lo; j < b.hi; ++j)
      if (j != i && !is_zero(i, j)) return false;
    return true;
  };
  const auto column_is_alone = [&](int64_t j) {
    for (int64_t i = b.lo; i < b.hi; ++i)
      if (i != j && !is_zero(i, j)) return false;
    return true;
  };
  for (int64_t i = b.hi - 1; i >= b.lo && b.hi - b.lo > 1;) {
    if (!row_is_alone(i)) {
      --i;
      continue;
    }
    swap_both(n, a, ld, i, b.hi - 1);
    scale[--b.hi] = static_cast<R>(i);
    i = b.hi - 1;
  }
  for (int64_t j = b.lo; j < b.hi && b.hi - b.lo > 1;) {
    if (!column_is_alone(j)) {
      ++j;
      continue;
    }
    swap_both(n, a, ld, j, b.lo);
    scale[b.lo++] = static_cast<R>(j);
    j = b.lo;
  }
  std::fill(scale + b.lo, scale + b.hi, R(1));
  const R most = kEps<T> / kSafeMin<T>, least = 1 / most;
  bool changed = b.hi - b.lo > 1;
  while (changed) {
    changed = false;
    for (int64_t i = b.lo; i < b.hi; ++i) {
      R column = norm(b.hi - b.lo, a + b.lo + i * ld), row = 0, column_most = 0, row_most = 0;
      for (int64_t j = b.lo; j < b.hi; ++j)
        row = std::hypot(row, std::hypot(real_part(a[i + j * ld]), imag_part(a[i + j * ld])));
      for (int64_t j = 0; j < b.hi; ++j) column_most = std::max(column_most, size_of(a[j + i * ld]));
      for (int64_t j = b.lo; j < n; ++j) row_most = std::max(row_most, size_of(a[i + j * ld]));
      if (column == 0 || row == 0 || !(column + row < std::numeric_limits<R>::infinity())) continue;
      const R sum = column + row;
      R f = 1;
      while (column < row / 2 && std::max({f, column, column_most}) < most / 4 &&
             std::min({row, row_most}) > least * 4) {
        f *= 2, column *= 2, column_most *= 2, row /= 2, row_most /= 2;
      }
      while (column / 2 >= row && std::min({f, column, column_most}) > least * 4 &&
             std::max(row, row_most) < most / 4) {
        f /= 2, column /= 2, column_most /= 2, row *= 2, row_most *= 2;
      }
      if (f == 1 || column + row >= R(0.95) * sum) continue;
      if ((f < 1 && scale[i] < 1 && f * scale[i] <= least) || (f > 1 && scale[i] > 1 && scale[i] >= most / f)) continue;
      changed = true;
      scale[i] *= f;
      for (int64_t j = b.lo; j < n; ++j) a[i + j * ld] /= f;
      for (int64_t j = 0; j < b.hi; ++j) a[j + i * ld] *= f;
    }
  }
  return b;
}

template <class T>
void undo_balance(const Balance<Real<T>>& b, int64_t n, int64_t count, T* v, int64_t ld) {
  const auto swap_rows = [&](int64_t i) {
    const auto other = static_cast<int64_t>(b.scale[i]);
    if (other == i) return;
    for (int64_t j = 0; j < count; ++j) std::swap(v[i + j * ld], v[other + j * ld]);
  };
  for (int64_t j = 0; j < count; ++j)
    for (int64_t i = b.lo; i < b.hi; ++i) v[i + j * ld] *= b.scale[i];
  for (int64_t i = b.lo - 1; i >= 0; --i) swap_rows(i);
  for (int64_t i = b.hi; i < n; ++i) swap_rows(i);
}

template <class T>
void reduce_to_hessenberg(int64_t n, int64_t lo, int64_t hi, T* a, int64_t ld, T* q, int64_t q_ld) {
  const Kernels<T>& k = kernels<T>();
  const ScratchArray<T> memory(2 * n);
  T *tau = memory.get(), *w = tau + n;
  const int64_t count = std::max<int64_t>(0, hi - lo - 1);
  for (int64_t j = lo; j < hi - 1; ++j) {
    const int64_t rows = hi - j - 1;
    T* v = a + j + 1 + j * ld;
    tau[j] = make_reflection(rows - 1, *v, v + 1);
    const T beta = *v;
    *v = T(1);
    // From the left with the adjoint, then from the right.
    T* right = a + (j + 1) * ld;
    k.dots(rows, n - j - 1, right + j + 1, ld, v, w);
    for (int64_t c = 0; c < n - j - 1; ++c) w[c] = conjugate(times(tau[j], w[c]));
    k.rank_one(rows, n - j - 1, v, w, right + j + 1, ld);
    std::fill_n(w, hi, T(0));
    k.combine(hi, rows, right, ld, v, w);
    const ScratchArray<T> weights(rows);
    for (int64_t c = 0; c < rows; ++c) weights[c] = times(tau[j], conjugate(v[c]));
    k.rank_one(hi, rows, w, weights.get(), right, ld);
    *v = beta;
  }
  if (q) {
    for (int64_t j = 0; j < n; ++j)
      for (int64_t i = 0; i < n; ++i) q[i + j * q_ld] = i == j ? T(1) : T(0);
    const Matrix<T> inner = in_columns(q, q_ld).at(lo + 1, lo + 1);
    for (int64_t j = 0; j < count; ++j)
      for (int64_t i = j + 1; i < count; ++i) inner(i, j) = a[lo + 1 + i + (lo + j) * ld];
    if (count > 0) form_product(count, count, count, inner, tau + lo);
  }
  for (int64_t j = lo; j < hi - 2; ++j) std::fill(a + j + 2 + j * ld, a + hi + j * ld, T(0));
}

#define TESSERA_HESSENBERG(T)                                                         \
  template Balance<Real<T>> balance(int64_t, T*, int64_t, Real<T>*);                  \
  template void undo_balance(const Balance<Real<T>>&, int64_t, int64_t, T*, int64_t); \
  template void reduce_to_hessenberg(int64_t, int64_t, int64_t, T*, int64_t, T*, int64_t);
TESSERA_HESSENBERG(float)
TESSERA_HESSENBERG(double)
TESSERA_HESSENBERG(std::complex<float>)
TESSERA_HESSENBERG(std::complex<double>)
#undef TESSERA_HESSENBERG

}  // namespace tessera::cpu::columns
