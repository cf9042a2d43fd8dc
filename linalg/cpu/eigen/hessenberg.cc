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
  const ScratchArray<T> copy(b.hi - b.lo);
  bool changed = b.hi - b.lo > 1;
  while (changed) {
    changed = false;
    for (int64_t i = b.lo; i < b.hi; ++i) {
      for (int64_t j = b.lo; j < b.hi; ++j) copy[j - b.lo] = a[i + j * ld];
      R column = norm(b.hi - b.lo, a + b.lo + i * ld), row = norm(b.hi - b.lo, copy.get()), column_most = 0,
        row_most = 0;
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

namespace {

// Columns that are reduced before what is behind them is brought up to date by products.
constexpr int64_t kPanel = 32;

// `count` columns from `begin` on, reduced while those behind are left as they were: the whole is to become
// Q^H A Q = Q^H (A - Y T V^H), where Q = I - V T V^H and Y = A V, of which the rows from begin + 1 on are kept.
template <class T>
class HessenbergPanel {
 public:
  HessenbergPanel(int64_t n, int64_t hi, int64_t begin, int64_t count, T* a, int64_t ld, T* memory)
      : n_(n),
        first_(begin + 1),
        rows_(hi - first_),
        count_(count),
        front_(first_ % (64 / static_cast<int64_t>(sizeof(T)))),
        a_(a + begin * ld),
        ld_(ld),
        step_(padded_rows<T>(hi)),
        v_(memory),
        y_(v_ + kPanel * step_),
        t_(y_ + kPanel * step_),
        one_(t_ + kPanel * kPanel),
        two_(one_ + kPanel) {
    std::fill_n(t_, count * count, T(0));
  }

  static int64_t room(int64_t hi) { return kPanel * (2 * padded_rows<T>(hi) + kPanel + 2); }

  // Column begin + i; the result is its tau.
  T reduce(int64_t i) const {
    const Kernels<T>& k = kernels<T>();
    T* const column = a_ + i * ld_ + first_;
    if (i > 0) {
      for (int64_t p = 0; p < i; ++p) one_[p] = -conjugate(v_[p * step_ + i - 1]);
      std::fill_n(two_, i, T(0));
      k.combine(i, i, t_, count_, one_, two_);
      k.combine(rows_, i, y_ + front_, step_, two_, column);
      k.dots(rows_, i, v_, step_, column, one_);
      k.dots(i, i, t_, count_, one_, two_);
      for (int64_t p = 0; p < i; ++p) two_[p] = -two_[p];
      k.combine(rows_, i, v_, step_, two_, column);
    }
    T *const v = v_ + i * step_, *const y = y_ + i * step_;
    const T tau = make_reflection(rows_ - i - 1, column[i], column + i + 1);
    std::fill_n(v, i, T(0));
    std::copy_n(column + i, rows_ - i, v + i);
    v[i] = T(1);
    // From where the memory of columns is aligned.
    std::fill_n(y, front_ + rows_, T(0));
    k.combine(front_ + rows_, rows_ - i, a_ + (i + 1) * ld_ + first_ - front_, ld_, v + i, y);
    k.dots(rows_ - i, i, v_ + i, step_, v + i, one_);
    extend_triangle(i, tau, one_, t_, count_);
    return tau;
  }

  // Brings what is behind the panel, and what is above it, up to date.
  void update() const {
    const Block<T> q{rows_, count_, v_, step_, t_};
    T* const behind = a_ + count_ * ld_;
    apply_right(q, false, first_, in_columns(a_ + ld_, ld_));
    const ScratchArray<T> memory(count_ * rows_);
    const Matrix<T> u = in_columns(memory.get(), rows_);
    multiply(rows_, count_, count_, T(1), in_columns(y_ + front_, step_), q.triangle(), T(0), u);
    gemm_wide(kDType<T>, rows_, rows_ - count_ + 1, count_, number(T(-1)), u.ref(),
              q.vectors().at(count_ - 1, 0).transposed().ref(), number(T(1)), in_columns(behind + first_, ld_).ref(),
              false, kIsComplex<T>);
    apply_left(q, true, n_ - (first_ - 1) - count_, in_columns(behind + first_, ld_));
  }

 private:
  int64_t n_, first_, rows_, count_, front_;
  T* a_;
  int64_t ld_, step_;
  T *v_, *y_, *t_, *one_, *two_;
};

}  // namespace

template <class T>
void reduce_to_hessenberg(int64_t n, int64_t lo, int64_t hi, T* a, int64_t ld, T* q, int64_t q_ld) {
  const int64_t count = std::max<int64_t>(0, hi - lo - 1);
  const ScratchArray<T> memory(n + HessenbergPanel<T>::room(hi));
  T* const tau = memory.get() + HessenbergPanel<T>::room(hi);
  for (int64_t begin = lo; begin < hi - 1; begin += kPanel) {
    const int64_t width = std::min(kPanel, hi - 1 - begin);
    const HessenbergPanel<T> panel(n, hi, begin, width, a, ld, memory.get());
    for (int64_t i = 0; i < width; ++i) tau[begin + i] = panel.reduce(i);
    panel.update();
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
