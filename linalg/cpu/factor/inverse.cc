// Inverses: of a triangle by halves, and what stands on it.
#include "linalg/cpu/factor/blocks.h"

namespace tessera::cpu {
namespace factor {
namespace {

// Calls f(i) for each of the rows of `cols` elements.
template <class F>
void for_rows(int64_t rows, int64_t cols, F&& f) {
  parallel_for(rows, std::max<int64_t>(1, 16384 / std::max<int64_t>(cols, 1)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(i);
  });
}

// Rows and columns of blocks on the diagonal of a triangle that is inverted, and rows of a product that are made at
// once: few cost fewer operations, many fewer looks at memory.
int64_t block_of(int64_t n) { return n <= 512 ? 32 : 64; }
int64_t rows_at_once(int64_t n) { return n <= 1024 ? 24 : 128; }

// The lower half of w, whose rows are dense, = L^-1: rows of a block, which the ones above have been subtracted from,
// are solved for, and subtracted from those below. w is not read; zeros: so many follow on the diagonal, at least a
// block's.
template <class T>
void invert_lower(int64_t n, Matrix<const T> l, TriangularForm form, int64_t zeros, Matrix<T> w) {
  const int64_t block = block_of(n);
  for_rows(n, n, [&](int64_t i) { std::fill_n(&w(i, 0), std::min(n, i + zeros), T{}); });
  for (int64_t first = 0; first < n; first += block) {
    const int64_t size = std::min(block, n - first), last = first + size;
    for (int64_t i = first; i < last; ++i) w(i, i) = T(1);
    const Matrix<T> rows = w.at(first, 0);
    solve_triangle<T>(size, last, l.at(first, first), form, rows);
    if (last < n)
      subtract_product<T>(n - last, last, size, l.at(last, first), rows.reading(), w.at(last, 0), form.conj);
  }
}

// Rows a power of two apart would share lines of the cache.
int64_t pitch_of(int64_t n) { return n % 64 == 0 ? n + 8 : n; }

template <class T>
int32_t invert(int64_t n, Matrix<T> a, const T* from) {
  const ScratchArray<int32_t> pivots(n);
  const int32_t info = factor_lu(n, n, a, pivots.get(), from);
  if (info) return info;
  const ScratchArray<T> memory(n * pitch_of(n));
  const Matrix<T> w = in_rows(memory.get(), pitch_of(n));
  invert_lower(n, a.reading(), kUnitLower, n, w);
  solve_triangle<T>(n, n, a.reading(), {true, false, false}, w);
  const ScratchArray<int64_t> order(n);
  for (int64_t i = 0; i < n; ++i) order[i] = i;
  for (int64_t i = 0; i < n; ++i) std::swap(order[i], order[pivots[i]]);
  for_rows(n, n, [&](int64_t i) {
    for (int64_t j = 0; j < n; ++j) a(i, order[j]) = w(i, j);
  });
  return 0;
}

// to = (L L^H)^-1 = W^H W with W = L^-1, which is put together apart from both. to has dense rows, and L may lie there.
// conj: of conj(L).
template <class T>
void invert_product(int64_t n, Matrix<const T> l, bool conj, Matrix<T> to) {
  const ScratchArray<T> memory(n * pitch_of(n));
  const Matrix<T> w = in_rows(memory.get(), pitch_of(n));
  const int64_t block = rows_at_once(n), blocks = (n + block - 1) / block;
  invert_lower(n, l, {false, false, conj}, std::max(block, block_of(n)), w);
  // Rows of the lower half by blocks, then what mirrors them.
  parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b * block, size = std::min(block, n - first), last = first + size;
      multiply_adjoint<T>(size, last, n - first, T(1), w.at(first, first), w.at(first, 0), T{}, to.at(first, 0));
      copy_matrix(first, size, to.at(first, 0).transposed(), to.at(0, first));
      if constexpr (kIsComplex<T>)
        for (int64_t j = 0; j < first; ++j)
          for (int64_t i = first; i < last; ++i) to(j, i) = std::conj(to(j, i));
      for (int64_t i = first; i < last; ++i) {
        to(i, i) = T(real_part(to(i, i)));
        for (int64_t j = first; j < i; ++j) to(j, i) = conj_if(to(i, j), true);
      }
    }
  });
}

}  // namespace
}  // namespace factor

using namespace factor;

void run_inverse(DType dtype, const MatrixBatch& a, int32_t* info) {
  const int64_t n = a.rows;
  std::fill(info, info + a.count, 0);
  if (n == 0) return;
  visit_number(dtype, [&]<class T>(T) {
    if (is_lockstep<T>(a.count, n, n)) {
      for_groups<T>(a.count, n, 2 * n, [&](int64_t first, int64_t count) {
        kernels<SmallInverse<T>>().inverse(count, n, source_of<T>(a, first), group_of<T>(a, first), info + first);
      });
      return;
    }
    for_matrices(a.count, n * n * n,
                 [&](int64_t b) { info[b] = invert<T>(n, matrix_of<T>(a, b), elsewhere<T>(a, b)); });
  });
}

void run_cholesky_inverse(DType dtype, const MatrixBatch& a, bool upper) {
  const int64_t n = a.rows;
  if (n == 0) return;
  visit_number(dtype, [&]<class T>(T) {
    if (is_lockstep<T>(a.count, n, n)) {
      // What an upper triangle's transpose gives is the transpose of what is wanted.
      const MatrixBatch lower = upper ? transposed(a) : a;
      for_groups<T>(a.count, n, n, [&](int64_t first, int64_t count) {
        kernels<SmallProductInverse<T>>().inverse(count, n, source_of<T>(lower, first), group_of<T>(lower, first));
      });
      return;
    }
    const bool by_rows = a.col_stride == 1, is_upper = upper == by_rows;  // of what has dense rows
    const MatrixBatch rows = by_rows ? a : transposed(a);
    for_matrices(a.count, n * n * n * (kIsComplex<T> ? 2.0 : 0.5), [&](int64_t b) {
      const Matrix<T> to = matrix_of<T>(rows, b);
      const Matrix<const T> from = {source_of<T>(rows, b).data, to.row_stride, to.col_stride};
      invert_product<T>(n, is_upper ? from.transposed() : from, is_upper, to);
    });
  });
}

}  // namespace tessera::cpu
