// What the factorizations of linalg/cpu are made of: products, and the kernels that work on one
// block or on a group of small matrices.
#pragma once

#include <algorithm>
#include <cmath>

#include "linalg/cpu/batches.h"
#include "linalg/cpu/factor/factor.h"
#include "tensor/cpu/support/scratch.h"
#include "tensor/cpu/support/simd_move.h"

namespace tessera::cpu::factor {

using internal::Scratch;
using internal::ScratchArray;

using namespace numbers;

// c -= a b; a: m x k, b: k x n.
template <class T>
void subtract_product(int64_t m, int64_t n, int64_t k, Matrix<const T> a, Matrix<const T> b, Matrix<T> c,
                      bool conj_a = false, bool conj_b = false, GemmPart part = GemmPart::kAll) {
  if (m == 0 || n == 0 || k == 0) return;
  gemm_wide(kDType<T>, m, n, k, number(T(-1)), a.ref(), b.ref(), number(T(1)), c.ref(), conj_a, conj_b, part);
}

// 1 / x; the library's division takes care of every infinity, which most numbers do not need.
template <class T>
T reciprocal(T x) {
  if constexpr (kIsComplex<T>) {
    const Real<T> square = x.real() * x.real() + x.imag() * x.imag();
    if (std::isnormal(square) && std::isnormal(1 / square)) return T(x.real() / square, -x.imag() / square);
  }
  return T(1) / x;
}

// The size of blocks that kernels work on at once; larger problems are cut, and products put them together.
inline constexpr int64_t kBlock = 64;
// x = L^-1 b, n x n and n x width.
template <class T>
struct BlockSystem {
  int64_t n;
  Matrix<const T> l;          // of which the lower triangle is read
  const T* inverse_diagonal;  // what x's rows are multiplied by at the end of each; null: nothing
  const T* from;              // b's rows, `from_distance` apart, row i as row order[i] (null: i); may be x
  int64_t from_distance;
  const int32_t* order;
  T* x;  // rows `distance` apart
  int64_t distance, width;
};
// In tables by what calls them, so that a program keeps those that it needs.
template <class T>
struct BlockKernels {
  // LU of m x n (m >= n), columns next to each other at distance ld; pivots count from 0, in the block; info as
  // run_lu_factor's, left alone if there is nothing to say.
  void (*lu_panel)(int64_t m, int64_t n, T* a, int64_t ld, int32_t* pivots, int32_t* info);
  void (*solve_block)(const BlockSystem<T>& system);
  // c -= a b, c: m x n, a: m x k, b: k x n; b and c lie in columns, and so does a, or (subtract_dots) in rows. n is
  // small.
  void (*subtract_columns)(int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T* c,
                           int64_t ldc);
  void (*subtract_dots)(int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T* c,
                        int64_t ldc);
};
template <class T>
struct CholeskyKernels {
  // U of A = U^H U from the upper triangle, n x n by rows at distance ld, and U^H below it. 0, or the order of the
  // minor that is not positive definite. n: a multiple of 4, at most kBlock.
  int64_t (*block)(int64_t n, T* a, int64_t ld);
  void (*small)(int64_t count, int64_t n, Group<const T> a, Group<T> l, int32_t* info);
};
// Of small matrices; `count` <= lanes of them, `a` of those `from` there. Scratch of a thread is theirs.
template <class T>
struct SmallKernels {
  void (*lu)(int64_t count, int64_t m, int64_t n, Group<const T> from, Group<T> a, int32_t* pivots, int32_t* info);
  // b (n x width) = A^-1 from.
  void (*lu_solve)(int64_t count, int64_t n, int64_t width, Group<const T> lu, const int32_t* pivots, SystemForm form,
                   Group<const T> from, Group<T> b);
};
template <class T>
struct SmallSystems {
  // Both: LU of `from` in a, and b.
  void (*solve)(int64_t count, int64_t n, int64_t width, Group<const T> from, Group<T> a, int32_t* pivots,
                int32_t* info, Group<const T> from_b, Group<T> b);
};
template <class T>
struct SmallInverse {
  void (*inverse)(int64_t count, int64_t n, Group<const T> from, Group<T> a, int32_t* info);
};
template <class T>
struct SmallProductInverse {
  // a = (L L^H)^-1 of the lower triangle of `from`.
  void (*inverse)(int64_t count, int64_t n, Group<const T> from, Group<T> a);
};
template <class T>
struct SmallTriangles {
  void (*solve)(int64_t count, int64_t n, int64_t width, Group<const T> a, TriangularForm form, Group<const T> from,
                Group<T> b);
};
// (1 + sqrt(17)) / 8: how large a pivot of L D L^T is at least, beside what is in its column.
inline constexpr double kLdlGrowth = 0.6403882032022076;
template <class T>
struct SmallLdl {
  // What run_ldl_factor makes of real numbers; null: no faster than one matrix after the other.
  void (*factor)(int64_t count, int64_t n, Group<const T> from, Group<T> a, int32_t* pivots, int32_t* info);
  // b = A^-1 from, of run_ldl_factor's results, of real numbers.
  void (*solve)(int64_t count, int64_t n, int64_t width, Group<const T> ld, const int32_t* pivots, Group<const T> from,
                Group<T> b);
  // Rows x and y of n numbers become f[0] x + f[1] y and f[2] x + f[3] y; x alone, if y is null, f[0] x.
  void (*mix_rows)(int64_t n, T* x, T* y, const T* f);
};

// Those of the SIMD target of this machine.
template <class K>
const K& kernels();
// How many small matrices a group has there.
template <class T>
int64_t group_size();

// Whether so many matrices of that size go through the kernels for small ones.
template <class T>
bool is_lockstep(int64_t count, int64_t rows, int64_t cols) {
  return goes_by_groups(group_size<T>(), count, rows, cols);
}
// Calls f(first, count) for groups of so many of them.
template <class T, class F>
void for_groups(int64_t count, int64_t rows, int64_t cols, F&& f) {
  numbers::for_groups(group_size<T>(), count, rows, cols, f);
}

// Error unless `count` pivots (negative ones, too, if there are blocks of two) are numbers of one of `rows` rows.
inline void check_pivots(const char* name, const int32_t* pivots, int64_t count, int64_t rows, bool in_blocks) {
  const char* const of = in_blocks ? "LD.size(-2)" : "LU.size(-2)";
  for (int64_t i = 0; i < count; ++i) {
    const int64_t p = in_blocks && pivots[i] < 0 ? -static_cast<int64_t>(pivots[i]) : pivots[i];
    TESSERA_CHECK(p >= 1 && p <= rows, name, ": pivots must be greater or equal to 1 and smaller or equal to ", of,
                  ", between 1 and ", of, " = ", rows, ", but got ", pivots[i]);
  }
}

// to(j, i) = from(i, j): rows of `cols` elements at distance from_step become columns; both at least so far apart. By
// tiles of a line of the cache.
template <class T>
void transpose(int64_t rows, int64_t cols, const T* from, int64_t from_step, T* to, int64_t to_step) {
  constexpr int64_t kSize = static_cast<int64_t>(sizeof(T)), kTile = 64 / kSize;
  constexpr auto kTiles = kSize == 4 ? transpose_tiles4 : kSize == 8 ? transpose_tiles8 : transpose_tiles16;
  // Rows of tiles: neighbouring lines of few long rows, or what becomes such rows, are used soon after another.
  const int64_t at_once = rows > cols ? 2 : std::max<int64_t>(1, rows / kTile);
  const int64_t tiles = rows / kTile, done_rows = tiles * kTile, done_cols = done_rows ? cols / kTile * kTile : 0;
  for (int64_t i = 0; i < tiles; i += at_once)
    for (int64_t j = 0; j < done_cols; j += kTile)
      kTiles(reinterpret_cast<char*>(to + j * to_step + i * kTile), to_step * kSize,
             reinterpret_cast<const char*>(from + i * kTile * from_step + j), from_step * kSize,
             std::min(at_once, tiles - i));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = i < done_rows ? done_cols : 0; j < cols; ++j) to[j * to_step + i] = from[i * from_step + j];
}

// to = from, `rows` x `cols`; each has dense rows, or dense columns.
template <class T>
void copy_matrix(int64_t rows, int64_t cols, Matrix<T> from, Matrix<T> to) {
  if (from.col_stride == 1 && to.col_stride == 1)
    for (int64_t i = 0; i < rows; ++i) std::copy_n(&from(i, 0), cols, &to(i, 0));
  else if (from.col_stride == 1)
    transpose<T>(rows, cols, from.data, from.row_stride, to.data, to.col_stride);
  else if (to.col_stride == 1)
    transpose<T>(cols, rows, from.data, from.col_stride, to.data, to.row_stride);
  else
    for (int64_t j = 0; j < cols; ++j) std::copy_n(&from(0, j), rows, &to(0, j));
}

inline constexpr TriangularForm kUnitLower{false, true, false};

// What more than one driver calls.

// b = A^-1 b for a triangle, n x n, b: n x width.
template <class T>
void solve_triangle(int64_t n, int64_t width, Matrix<const T> a, TriangularForm form, Matrix<T> b);
// The same for each matrix of a batch.
template <class T>
void solve_each(const MatrixBatch& a, TriangularForm form, const MatrixBatch& b);
// LU of m x n; pivots count from 0; returns info. from: where, with a's strides, what is factored stands (null: in a).
template <class T>
int32_t factor_lu(int64_t m, int64_t n, Matrix<T> a, int32_t* pivots, const T* from = nullptr);
// Rows of a change places as pivots (from 0) say: in their order, or (back) in the opposite one.
template <class T>
void swap_rows(int64_t count, int64_t columns, Matrix<T> a, const int32_t* pivots, bool back = false);

}  // namespace tessera::cpu::factor
