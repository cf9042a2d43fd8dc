// Householder's reflections, alone and by blocks, of matrices in memory: what orthogonal factorizations and reductions
// to other forms are made of.
#pragma once

#include <algorithm>

#include "linalg/cpu/columns.h"
#include "tensor/cpu/support/scratch.h"

namespace tessera::cpu::columns {

using internal::ScratchArray;

// How many of `count` reflections are gathered before they are applied by matrix products: what those gain by being
// deep is lost where the panel itself costs more.
inline int64_t panel_for(int64_t count) { return std::min<int64_t>(count, count < 1536 ? 64 : 128); }

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
  const Matrix<T> w{memory.get(), n, 1}, u{memory.get() + q.count * n, n, 1};
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
  const Matrix<T> w = in_columns(memory.get(), m), u = in_columns(memory.get() + q.count * m, m);
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

// t of a block from its vectors and their tau: t: count x count.
template <class T>
void make_triangle(int64_t rows, int64_t count, const T* v, int64_t ld, const T* tau, T* t) {
  const ScratchArray<T> products(count * count);
  const Matrix<T> all = in_columns(const_cast<T*>(v), ld);
  multiply_adjoint(count, count, rows, T(1), all, all, T(0), in_columns(products.get(), count));
  std::fill_n(t, count * count, T(0));
  for (int64_t j = 0; j < count; ++j) extend_triangle(j, tau[j], products.get() + j * count, t, count);
}

// A block's vectors from below the diagonal of a: rows x count, to v.
template <class T>
void load_vectors(int64_t rows, int64_t count, Matrix<T> a, T* v, int64_t ld) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < count; ++j) v[i + j * ld] = i > j ? a(i, j) : i == j ? T(1) : T(0);
}

// Factors p: rows x n in columns, rows >= n. p becomes the block's vectors, r (in columns, ldr apart) gets the triangle
// R and t the block's, ldt apart; what is below their diagonals is left alone in r, and has to be 0 in t.
template <class T>
void factor_panel(int64_t rows, int64_t n, T* p, int64_t ld, T* r, int64_t ldr, T* t, int64_t ldt, T* tau) {
  constexpr int64_t kNarrow = 16;
  const Kernels<T>& k = kernels<T>();
  if (n <= kNarrow) {
    T products[kNarrow];
    for (int64_t j = 0; j < n; ++j) {
      T* column = p + j * ld;
      std::copy_n(column, j, r + j * ldr);
      std::fill_n(column, j, T(0));
      T* v = column + j;
      tau[j] = make_reflection(rows - j - 1, *v, v + 1);
      r[j + j * ldr] = *v;
      *v = T(1);
      k.dots(rows - j, n, p + j, ld, v, products);
      for (int64_t c = j + 1; c < n; ++c) products[c] = conjugate(times(tau[j], products[c]));
      k.rank_one(rows - j, n - j - 1, v, products + j + 1, v + ld, ld);
      extend_triangle(j, tau[j], products, t, ldt);
    }
    return;
  }
  const int64_t left = std::max(kNarrow, n / 2 / kNarrow * kNarrow), right = n - left;
  T *p2 = p + left * ld, *t12 = t + left * ldt, *t22 = t12 + left;
  factor_panel(rows, left, p, ld, r, ldr, t, ldt, tau);
  const ScratchArray<T> memory(2 * left * right);
  const Matrix<T> w = in_columns(memory.get(), left), u = in_columns(memory.get() + left * right, left);
  const Matrix<T> v1 = in_columns(p, ld), t1 = in_columns(t, ldt);
  multiply_adjoint(left, right, rows, T(1), v1, in_columns(p2, ld), T(0), w);
  multiply_adjoint(left, right, left, T(1), t1, w, T(0), u);
  multiply(rows, right, left, T(-1), v1, u, T(1), in_columns(p2, ld));
  for (int64_t j = 0; j < right; ++j) {
    std::copy_n(p2 + j * ld, left, r + (left + j) * ldr);
    std::fill_n(p2 + j * ld, left, T(0));
  }
  factor_panel(rows - left, right, p2 + left, ld, r + left * ldr + left, ldr, t22, ldt, tau + left);
  // Of both: t12 = -t1 (v1^H v2) t2.
  multiply_adjoint(left, right, rows - left, T(1), in_columns(p + left, ld), in_columns(p2 + left, ld), T(0), w);
  multiply(left, right, right, T(1), w, in_columns(t22, ldt), T(0), u);
  multiply(left, right, left, T(-1), t1, u, T(0), in_columns(t12, ldt));
}

// Calls fn(first, Block) for blocks of the first `count` reflections in v, from the first or from the last on.
template <class T, class F>
void for_blocks(int64_t m, int64_t count, Matrix<T> v, const T* tau, bool backwards, F&& fn) {
  const int64_t block = panel_for(count), blocks = block == 0 ? 0 : (count + block - 1) / block;
  const int64_t ld = padded_rows<T>(m);
  const ScratchArray<T> memory(ld * block + block * block);
  T *p = memory.get(), *t = p + ld * block;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t j = (backwards ? blocks - 1 - i : i) * block, b = std::min(block, count - j), rows = m - j;
    load_vectors(rows, b, v.at(j, j), p, ld);
    make_triangle(rows, b, p, ld, tau + j, t);
    fn(j, Block<T>{rows, b, p, ld, t});
  }
}

// The first n columns of the product of the first `count` reflections, whose vectors stand below q's diagonal, in q's
// place; m >= n >= count.
template <class T>
void form_product(int64_t m, int64_t n, int64_t count, Matrix<T> q, const T* tau) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = count; j < n; ++j) q(i, j) = i == j ? T(1) : T(0);
  for_blocks(m, count, q, tau, true, [&](int64_t j, const Block<T>& block) {
    const int64_t b = block.count;
    // Behind the vectors, which `block` has copies of: the unit vectors.
    for (int64_t i = 0; i < m; ++i)
      for (int64_t c = j; c < j + b; ++c) q(i, c) = i == c ? T(1) : T(0);
    apply_left(block, false, n - j, q.at(j, j));
  });
}

}  // namespace tessera::cpu::columns
