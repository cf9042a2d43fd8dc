// Real and complex vectors: products with matrices whose rows are dense, and Householder's reflections of vectors in
// rows. What rows.h does for reals, for all four types of elements.
#pragma once

#include "linalg/cpu/reflections.h"
#include "linalg/cpu/spectral/rows.h"

namespace tessera::cpu::internal {

using namespace numbers;

// Products with `count` rows of n elements, and what they need of memory: for vectors of at most `longest` elements.
template <class T>
class RowProducts {
 public:
  using R = Real<T>;
  explicit RowProducts(int64_t longest) : longest_(longest), room_(kIsComplex<T> ? 8 * longest : 0) {}

  // out_i = sum_j conj(row_i[j]) x[j]. An x that meets many rows is prepared once.
  struct Factor {
    const R* sides[2];
  };
  Factor prepare(const T* x, int64_t n) const {
    if constexpr (!kIsComplex<T>)
      return {{x, nullptr}};
    else
      return {{reals(x), turned(x, n)}};
  }
  void dot(const T* rows, int64_t stride, int64_t count, int64_t n, const Factor& x, T* out) const {
    if constexpr (!kIsComplex<T>) {
      rows_dot({rows, stride, count, n, 1}, x.sides, &out);
    } else {
      R* sums[2] = {part(1), part(1) + longest_};
      rows_dot({reals(rows), 2 * stride, count, 2 * n, 2}, x.sides, sums);
      for (int64_t i = 0; i < count; ++i) out[i] = {sums[0][i], sums[1][i]};
    }
  }
  void dot(const T* rows, int64_t stride, int64_t count, int64_t n, const T* x, T* out) const {
    dot(rows, stride, count, n, prepare(x, n), out);
  }
  // y[j] += sum_i c_i row_i[j]: between begin_sum and end_sum as often as there are rows.
  void begin_sum(int64_t n) const {
    if constexpr (kIsComplex<T>) std::fill_n(part(2), 2 * n, R{0});
  }
  void add(const T* rows, int64_t stride, int64_t count, int64_t n, const T* c, T* y) const {
    if constexpr (!kIsComplex<T>) {
      rows_axpy({rows, stride, count, n, 1}, &c, &y);
    } else {
      const R* factors[2];
      split(c, count, factors);
      R* into[2] = {reals(y), part(2)};
      rows_axpy({reals(rows), 2 * stride, count, 2 * n, 2}, factors, into);
    }
  }
  void end_sum(int64_t n, T* y) const {
    if constexpr (kIsComplex<T>) add_turned(part(2), n, y);
  }
  void axpy(const T* rows, int64_t stride, int64_t count, int64_t n, const T* c, T* y) const {
    if (count == 0) return;
    begin_sum(n);
    add(rows, stride, count, n, c, y);
    end_sum(n, y);
  }
  // y = A x, where A is Hermitian and row_i[j] is its element (j, i) for j >= i, and for all of a block of kLine on its
  // diagonal; others are not read.
  void hermitian(const T* rows, int64_t stride, int64_t n, const T* x, T* y) const {
    std::fill_n(y, n, T{});
    if (n == 0) return;
    if constexpr (!kIsComplex<T>) {
      rows_symmetric({rows, stride, n, n, 1}, 1, &x, &y, &x, &y);
    } else {
      const R *factors[2], *side[2] = {reals(x), turned(x, n)};
      split(x, n, factors);
      R *into[2] = {reals(y), part(2)}, *sums[2] = {part(1), part(1) + longest_};
      begin_sum(n);
      for (R* sum : sums) std::fill_n(sum, n, R{0});
      rows_symmetric({reals(rows), 2 * stride, n, 2 * n, 2}, 2, factors, into, side, sums);
      end_sum(n, y);
      for (int64_t i = 0; i < n; ++i) y[i] += T(sums[0][i], sums[1][i]);
    }
  }

 private:
  static const R* reals(const T* x) { return reinterpret_cast<const R*>(x); }
  static R* reals(T* x) { return reinterpret_cast<R*>(x); }
  R* part(int64_t k) const { return room_.get() + 2 * k * longest_; }
  // -i x, so that the dot product of conj(a) and x has the imaginary part a . turned as reals.
  const R* turned(const T* x, int64_t n) const {
    R* const to = part(0);
    for (int64_t j = 0; j < n; ++j) {
      to[2 * j] = x[j].imag();
      to[2 * j + 1] = -x[j].real();
    }
    return to;
  }
  void split(const T* c, int64_t count, const R** parts) const {
    R* const to = part(3);
    for (int64_t i = 0; i < count; ++i) {
      to[i] = c[i].real();
      to[longest_ + i] = c[i].imag();
    }
    parts[0] = to;
    parts[1] = to + longest_;
  }
  // y += i x.
  static void add_turned(const R* x, int64_t n, T* y) {
    for (int64_t j = 0; j < n; ++j) y[j] += T(-x[2 * j + 1], x[2 * j]);
  }

  int64_t longest_;
  ScratchArray<R> room_;
};

// Brings rows that many rotations have been over back to length 1: by a small angle the cosine is 1 - s^2 / 2, which
// rounds to 1, so that each makes them longer.
template <class R>
void normalize_rows(R* rows, int64_t stride, int64_t count, int64_t n) {
  for (int64_t i = 0; i < count; ++i) {
    R* const row = rows + i * stride;
    columns::kernels<R>().scale(n, 1 / columns::norm(n, row), row);
  }
}

// How many columns are reduced before the rest is brought up to date: products with the panel so far cost less where it
// is narrow, those that bring the rest up to date where it is wide.
inline constexpr int64_t kPanel = 16;

// A reflection such that H^H x = (beta, 0 ... 0) with a real beta; x (n > 0 numbers) becomes its vector, 1 in front.
// The result is tau.
template <class T>
T make_reflector(T* x, int64_t n, double* beta) {
  const T tau = columns::make_reflection(n - 1, x[0], x + 1);
  *beta = real_part(x[0]);
  x[0] = T(1);
  return tau;
}

// Q = H_0 H_1 ... H_{count-1} of each row of Z (rows x n): reflector k is row k of v from column k + shift on, where
// its 1 is understood.
template <class T>
void apply_reflectors(const T* v, int64_t stride, int64_t count, int64_t shift, int64_t n, const T* tau, T* z,
                      int64_t z_stride, int64_t rows) {
  if (rows == 0 || count == 0) return;
  const Matrix<T> vectors = in_columns(const_cast<T*>(v) + shift, stride);
  const int64_t most = columns::panel_for<T>(n - shift, count, true);
  columns::Blocks<T>(n - shift, count, most, vectors, tau).apply_left(false, rows, in_columns(z + shift, z_stride));
}

}  // namespace tessera::cpu::internal
