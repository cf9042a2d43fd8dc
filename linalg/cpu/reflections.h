// Householder's reflections, alone and by blocks, of matrices in memory: what orthogonal factorizations and reductions
// to other forms are made of.
#pragma once

#include <algorithm>

#include "linalg/cpu/columns.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/support/scratch.h"

namespace tessera::cpu::columns {

using internal::ScratchArray;

// Bytes from which on vectors of any level are filled twice.
inline constexpr int64_t kWide = 128;

// How many of `count` reflections of so many rows are gathered before they are applied by matrix products: deep
// products read and write less, where matrices are not in a near cache, or where they are complex and the product is
// found by columns; but their panels cost more.
template <class T>
int64_t panel_for(int64_t rows, int64_t count, bool by_columns = false) {
  const int64_t size = rows * count;
  const bool small = size < 288 * 288 && !(by_columns && kIsComplex<T>);
  int64_t most = 128;
  if (small)
    most = by_columns ? std::max<int64_t>(16, kWide / sizeof(T)) : 16;
  else if (size < 576 * 576 && !(by_columns && kIsComplex<T>))
    most = 32;
  else if (size < 1024 * 1024)
    most = 64;
  return std::min(count, most);
}

// Where columns of `rows` elements begin: not a power of two apart, whose elements would share lines of the cache.
template <class T>
int64_t padded_rows(int64_t rows) {
  const int64_t line = 64 / static_cast<int64_t>(sizeof(T));
  const int64_t lines = (rows + line - 1) / line;
  return (lines + (lines % 8 == 0)) * line;
}

// H = I - tau (1, v) (1, v)^H such that H^H (alpha, x) = (beta, 0) with a real beta: alpha becomes beta, x becomes v.
// The result is tau: 0 where nothing is to be done.
template <class T>
T make_reflection(int64_t n, T& alpha, T* x) {
  using R = Real<T>;
  const Kernels<T>& k = kernels<T>();
  R rest = norm(n, x);
  if (rest == 0 && imag_part(alpha) == 0) return T(0);
  const auto length = [&] { return std::hypot(std::hypot(real_part(alpha), imag_part(alpha)), rest); };
  R beta = -std::copysign(length(), real_part(alpha));
  constexpr R kTiny = kSafeMin<T> / kEps<T>;
  int halvings = 0;
  while (std::abs(beta) < kTiny && halvings < 20) {  // of what is too small to divide by
    k.scale(n, T(1 / kTiny), x);
    alpha *= 1 / kTiny;
    rest = norm(n, x);
    beta = -std::copysign(length(), real_part(alpha));
    ++halvings;
  }
  T tau;
  if constexpr (kIsComplex<T>)
    tau = T((beta - alpha.real()) / beta, -alpha.imag() / beta);
  else
    tau = (beta - alpha) / beta;
  k.scale(n, T(1) / (alpha - beta), x);
  for (; halvings > 0; --halvings) beta *= kTiny;
  alpha = beta;
  return tau;
}

// Q = I - v t v^H: `count` reflections at once. v: rows x count in columns, with its ones and zeros; t: an upper
// triangle with zeros below, in columns, count apart.
template <class T>
struct Block {
  int64_t rows, count;
  const T* v;
  int64_t ld;
  const T* t;

  Matrix<T> vectors() const { return in_columns(const_cast<T*>(v), ld); }
  Matrix<T> triangle() const { return in_columns(const_cast<T*>(t), count); }
};

// c = Q c or Q^H c; c: rows x n.
template <class T>
void apply_left(const Block<T>& q, bool adjoint, int64_t n, Matrix<T> c) {
  if (n <= 0 || q.count == 0) return;
  const ScratchArray<T> memory(2 * q.count * n);
  const bool by_columns = c.row_stride == 1 && q.count * static_cast<int64_t>(sizeof(T)) >= kWide;  // as c lies
  const auto part = [&](T* p) { return by_columns ? in_columns(p, q.count) : in_rows(p, n); };
  const Matrix<T> w = part(memory.get()), u = part(memory.get() + q.count * n);
  multiply_adjoint(q.count, n, q.rows, T(1), q.vectors(), c, T(0), w);
  if (adjoint)
    multiply_adjoint(q.count, n, q.count, T(1), q.triangle(), w, T(0), u);
  else
    multiply(q.count, n, q.count, T(1), q.triangle(), w, T(0), u);
  multiply(q.rows, n, q.count, T(-1), q.vectors(), u, T(1), c);
}

// c = c Q or c Q^H; c: m x rows.
template <class T>
void apply_right(const Block<T>& q, bool adjoint, int64_t m, Matrix<T> c) {
  if (m <= 0 || q.count == 0) return;
  const ScratchArray<T> memory(2 * q.count * m);
  const bool by_rows = c.col_stride == 1 && q.count * static_cast<int64_t>(sizeof(T)) >= kWide;
  const auto part = [&](T* p) { return by_rows ? in_rows(p, q.count) : in_columns(p, m); };
  const Matrix<T> w = part(memory.get()), u = part(memory.get() + q.count * m);
  multiply(m, q.count, q.rows, T(1), c, q.vectors(), T(0), w);
  // w t or w t^H: as transposes, of which gemm conjugates the first factor.
  if (adjoint) {
    const ScratchArray<T> flipped(q.count * q.count);
    const Matrix<T> t = q.triangle(), f = in_columns(flipped.get(), q.count);
    for (int64_t i = 0; i < q.count; ++i)
      for (int64_t j = 0; j < q.count; ++j) f(i, j) = conjugate(t(j, i));
    multiply(m, q.count, q.count, T(1), w, f, T(0), u);
  } else {
    multiply(m, q.count, q.count, T(1), w, q.triangle(), T(0), u);
  }
  // c -= u v^H
  gemm_wide(kDType<T>, m, q.rows, q.count, number(T(-1)), u.ref(), q.vectors().transposed().ref(), number(T(1)),
            c.ref(), false, kIsComplex<T>);
}

// Column j of t from tau_j and the products of v_j with the vectors before it, which are overwritten.
template <class T>
void extend_triangle(int64_t j, T tau, const T* products, T* t, int64_t ld) {
  T* column = t + j * ld;
  std::fill_n(column, j, T(0));
  if (j > 0) kernels<T>().combine(j, j, t, ld, products, column);
  for (int64_t i = 0; i < j; ++i) column[i] = times(-tau, column[i]);
  column[j] = tau;
}

inline constexpr int64_t kNarrow = 16;  // reflections that are made, and gathered, one by one

// How many of n reflections are the left half where there are more.
inline int64_t left_half(int64_t n) { return std::max(kNarrow, n / 2 / kNarrow * kNarrow); }

// The t of all n from those of the left half and of the right one, which are in place: t12 = -t1 (v1^H v2) t2.
template <class T>
void join_triangles(int64_t rows, int64_t n, const T* v, int64_t ld, T* t, int64_t ldt) {
  const int64_t left = left_half(n), right = n - left;
  const ScratchArray<T> memory(2 * left * right);
  const Matrix<T> w = in_columns(memory.get(), left), u = in_columns(memory.get() + left * right, left),
                  all = in_columns(const_cast<T*>(v), ld), to = in_columns(t, ldt);
  multiply_adjoint(left, right, rows - left, T(1), all.at(left, 0), all.at(left, left), T(0), w);
  multiply(left, right, right, T(1), w, to.at(left, left), T(0), u);
  multiply(left, right, left, T(-1), to, u, T(0), to.at(0, left));
}

// t of a block from its vectors and their tau; what is below its diagonal has to be 0.
template <class T>
void make_triangle(int64_t rows, int64_t n, const T* v, int64_t ld, const T* tau, T* t, int64_t ldt) {
  if (n > kNarrow) {
    const int64_t left = left_half(n);
    make_triangle(rows, left, v, ld, tau, t, ldt);
    make_triangle(rows - left, n - left, v + left * ld + left, ld, tau + left, t + left * ldt + left, ldt);
    return join_triangles(rows, n, v, ld, t, ldt);
  }
  T products[kNarrow * kNarrow];
  const Matrix<T> all = in_columns(const_cast<T*>(v), ld);
  multiply_adjoint(n, n, rows, T(1), all, all, T(0), in_columns(products, n));
  for (int64_t j = 0; j < n; ++j) extend_triangle(j, tau[j], products + j * n, t, ldt);
}

// A block's vectors from below the diagonal of a: rows x count, to v.
template <class T>
void load_vectors(int64_t rows, int64_t count, Matrix<T> a, T* v, int64_t ld) {
  if (a.row_stride == 1) {
    for (int64_t j = 0; j < count; ++j) {
      T* const to = v + j * ld;
      std::fill_n(to, j, T(0));
      to[j] = T(1);
      std::copy_n(&a(j, j) + 1, rows - j - 1, to + j + 1);
    }
    return;
  }
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < count; ++j) v[i + j * ld] = i > j ? a(i, j) : i == j ? T(1) : T(0);
}

// As make_reflection, by the inner products y of all n columns with the first one, a, whose rows are those of (alpha,
// x). factors: for the other columns, what they lose of the vector, which is in a's place afterwards.
template <class T>
T make_reflection_by(int64_t rows, int64_t n, T* a, int64_t ld, const T* y, T* factors, T* beta) {
  using R = Real<T>;
  const Kernels<T>& k = kernels<T>();
  const T alpha = a[0];
  const R all = real_part(y[0]), first = real_part(times(alpha, conjugate(alpha)));
  T tau;
  // Where neither squares nor products with what is not of length 1 yet lose digits.
  if (all > R(0x1p-40) && all < R(0x1p40) && all - first > all * R(0x1p-10)) {
    const R length = -std::copysign(std::sqrt(all), real_part(alpha));
    const T scale = conjugate(alpha - length) / real_part(times(alpha - length, conjugate(alpha - length)));
    tau = (length - alpha) / length;
    *beta = length;
    k.scale(rows, scale, a);
    a[0] = T(1);
    // v = (alpha, x) scale + (1 - alpha scale, 0).
    const T rest = T(1) - times(alpha, scale);
    for (int64_t c = 1; c < n; ++c) factors[c] = times(scale, y[c]) + times(rest, conjugate(a[c * ld]));
  } else {
    tau = make_reflection(rows - 1, a[0], a + 1);
    *beta = a[0];
    a[0] = T(1);
    k.dots(rows, n - 1, a + ld, ld, a, factors + 1);
  }
  for (int64_t c = 1; c < n; ++c) factors[c] = conjugate(times(tau, factors[c]));
  return tau;
}

// factor_panel for few columns, without t. Rows that are done become zeros: all loops begin where memory is aligned.
template <class T>
void factor_narrow(int64_t rows, int64_t n, T* p, int64_t ld, T* r, int64_t ldr, T* tau) {
  const Kernels<T>& k = kernels<T>();
  T y[kNarrow], factors[kNarrow];
  k.dots(rows, n, p, ld, p, y);
  for (int64_t j = 0; j < n; ++j) {
    T *const v = p + j * ld, *const row = v + j;
    tau[j] = make_reflection_by(rows - j, n - j, row, ld, y, factors, r + j + j * ldr);
    const int64_t left = n - j - 1, from = (j + 1) / kNarrow * kNarrow;
    for (int64_t c = 1; c <= left; ++c) {
      r[j + (j + c) * ldr] = row[c * ld] - factors[c];
      row[c * ld] = T(0);
    }
    if (left == 0) break;
    *row = T(0);
    T* const next = v + ld + from;
    k.rank_one(rows - from, 1, v + from, factors + 1, next, ld);
    y[0] = T(k.squares(rows - from, next));
    k.rank_one_dots(rows - from, left - 1, v + from, factors + 2, next + ld, ld, next, y + 1);
    *row = T(1);
  }
}

// Factors p: rows x n in columns, rows >= n. p becomes the block's vectors, r (in columns, ldr apart) gets the triangle
// R and t the block's, ldt apart; what is below their diagonals is left alone in r, and has to be 0 in t.
template <class T>
void factor_panel(int64_t rows, int64_t n, T* p, int64_t ld, T* r, int64_t ldr, T* t, int64_t ldt, T* tau) {
  if (n <= kNarrow) {
    factor_narrow(rows, n, p, ld, r, ldr, tau);
    return make_triangle(rows, n, p, ld, tau, t, ldt);
  }
  const int64_t left = left_half(n), right = n - left;
  T *const p2 = p + left * ld, *const t22 = t + left * ldt + left;
  factor_panel(rows, left, p, ld, r, ldr, t, ldt, tau);
  const ScratchArray<T> memory(2 * left * right);
  const Matrix<T> w = in_columns(memory.get(), left), u = in_columns(memory.get() + left * right, left);
  const Matrix<T> v1 = in_columns(p, ld);
  multiply_adjoint(left, right, rows, T(1), v1, in_columns(p2, ld), T(0), w);
  multiply_adjoint(left, right, left, T(1), in_columns(t, ldt), w, T(0), u);
  multiply(rows, right, left, T(-1), v1, u, T(1), in_columns(p2, ld));
  for (int64_t j = 0; j < right; ++j) {
    std::copy_n(p2 + j * ld, left, r + (left + j) * ldr);
    std::fill_n(p2 + j * ld, left, T(0));
  }
  factor_panel(rows - left, right, p2 + left, ld, r + left * ldr + left, ldr, t22, ldt, tau + left);
  join_triangles(rows, n, p, ld, t, ldt);
}

// The first `count` reflections of m rows in v, gathered in blocks of at most `size`.
template <class T>
class Blocks {
 public:
  Blocks(int64_t m, int64_t count, int64_t size, Matrix<T> v, const T* tau)
      : m_(m), count_(count), size_(size), v_(v), triangles_(number() * size * size) {
    std::fill_n(triangles_.get(), number() * size * size, T(0));
    parallel_for(number(), 1, [&](int64_t begin, int64_t end) {
      const ScratchArray<T> memory(padded_rows<T>(m_) * size_);
      for (int64_t i = begin; i < end; ++i) {
        const Block<T> block = load(i, memory.get());
        make_triangle(block.rows, block.count, block.v, block.ld, tau + i * size_, triangle(i), block.count);
      }
    });
  }

  // Calls fn(first reflection, Block) from the first block or from the last on.
  template <class F>
  void each(bool backwards, F&& fn) const {
    const ScratchArray<T> memory(padded_rows<T>(m_) * size_);
    for (int64_t k = 0; k < number(); ++k) {
      const int64_t i = backwards ? number() - 1 - k : k;
      fn(i * size_, load(i, memory.get()));
    }
  }

  // c = Q c or Q^H c, for c with n columns: strips of them, each by itself.
  void apply_left(bool adjoint, int64_t n, Matrix<T> c) const {
    parallel_for(n, kStrip, [&](int64_t begin, int64_t end) {
      each(!adjoint, [&](int64_t first, const Block<T>& block) {
        columns::apply_left(block, adjoint, end - begin, c.at(first, begin));
      });
    });
  }
  // c = c Q or c Q^H, for c with m rows: strips of them.
  void apply_right(bool adjoint, int64_t m, Matrix<T> c) const {
    parallel_for(m, kStrip, [&](int64_t begin, int64_t end) {
      each(adjoint, [&](int64_t first, const Block<T>& block) {
        columns::apply_right(block, adjoint, end - begin, c.at(begin, first));
      });
    });
  }

 private:
  static constexpr int64_t kStrip = 256;

  int64_t number() const { return size_ == 0 ? 0 : (count_ + size_ - 1) / size_; }
  T* triangle(int64_t i) const { return triangles_.get() + i * size_ * size_; }
  Block<T> load(int64_t i, T* p) const {
    const int64_t j = i * size_, b = std::min(size_, count_ - j), rows = m_ - j, ld = padded_rows<T>(m_);
    load_vectors(rows, b, v_.at(j, j), p, ld);
    return {rows, b, p, ld, triangle(i)};
  }

  int64_t m_, count_, size_;
  Matrix<T> v_;
  ScratchArray<T> triangles_;
};

// The first n columns of the product of the first `count` reflections, whose vectors stand below q's diagonal, in q's
// place; m >= n >= count. A block meets the first unit vectors, of which nothing has to be multiplied, and columns of
// blocks behind it, which begin with zeros.
template <class T>
void form_product(int64_t m, int64_t n, int64_t count, Matrix<T> q, const T* tau) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = count; j < n; ++j) q(i, j) = i == j ? T(1) : T(0);
  const int64_t most = panel_for<T>(m, count);
  const ScratchArray<T> memory(2 * most * n);
  Blocks<T>(m, count, most, q, tau).each(true, [&](int64_t j, const Block<T>& block) {
    const int64_t b = block.count, cols = n - j, below = block.rows - b;
    const Matrix<T> w = in_rows(memory.get(), cols), u = in_rows(memory.get() + b * cols, cols), v = block.vectors(),
                    c = q.at(j, j);
    for (int64_t i = 0; i < b; ++i)
      for (int64_t k = 0; k < b; ++k) w(i, k) = conjugate(v(k, i));
    multiply_adjoint(b, cols - b, below, T(1), v.at(b, 0), c.at(b, b), T(0), w.at(0, b));
    multiply(b, cols, b, T(1), block.triangle(), w, T(0), u);
    multiply(b, cols, b, T(-1), v, u, T(0), c);
    for (int64_t i = 0; i < b; ++i) c(i, i) += T(1);
    multiply(below, b, b, T(-1), v.at(b, 0), u, T(0), c.at(b, 0));
    multiply(below, cols - b, b, T(-1), v.at(b, 0), u.at(0, b), T(1), c.at(b, b));
  });
}

}  // namespace tessera::cpu::columns
