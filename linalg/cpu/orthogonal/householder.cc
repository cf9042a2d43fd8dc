#include "linalg/cpu/orthogonal/householder.h"

#include "linalg/cpu/orthogonal/small.h"
#include "linalg/cpu/reflections.h"

namespace tessera::cpu {
namespace {

using namespace columns;

template <class T>
void factor(int64_t m, int64_t n, Matrix<T> a, T* tau) {
  const int64_t k = std::min(m, n), block = panel_for<T>(m, k), ld = padded_rows<T>(m);
  const ScratchArray<T> memory(ld * block + 2 * block * block);
  T *p = memory.get(), *r = p + ld * block, *t = r + block * block;
  for (int64_t j = 0; j < k; j += block) {
    const int64_t b = std::min(block, k - j), rows = m - j;
    const Matrix<T> panel = a.at(j, j);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t c = 0; c < b; ++c) p[i + c * ld] = panel(i, c);
    std::fill_n(t, b * b, T(0));
    factor_panel(rows, b, p, ld, r, b, t, b, tau + j);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t c = 0; c < b; ++c) panel(i, c) = i > c ? p[i + c * ld] : r[i + c * b];
    if (j + b < n) apply_left({rows, b, p, ld, t}, true, n - j - b, a.at(j, j + b));
  }
}

template <class T>
void apply(int64_t m, int64_t n, int64_t count, Matrix<T> v, const T* tau, Matrix<T> c, bool left, bool adjoint) {
  const int64_t size = left ? m : n, most = panel_for<T>(size, count, c.row_stride == 1);
  const Blocks<T> blocks(size, count, most, v, tau);
  if (left)
    blocks.apply_left(adjoint, n, c);
  else
    blocks.apply_right(adjoint, m, c);
}

}  // namespace

void run_geqrf(DType dtype, MatrixBatch a, void* tau) {
  const int64_t k = std::min(a.rows, a.cols);
  if (k == 0) return;
  visit_number(dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto& small = orthogonal::small_kernels<T>();
    if (goes_by_groups(small.lanes(), a.count, a.rows, a.cols)) {
      for_groups(small.lanes(), a.count, a.rows, a.cols, [&](int64_t first, int64_t count) {
        small.qr(count, a.rows, a.cols, source_of<T>(a, first), group_of<T>(a, first),
                 static_cast<T*>(tau) + first * k);
      });
      return;
    }
    bring<T>(a);
    for_matrices(a.count, 2.0 * a.rows * a.cols * k,
                 [&](int64_t i) { factor(a.rows, a.cols, matrix_of<T>(a, i), static_cast<T*>(tau) + i * k); });
  });
}

void run_householder_product(DType dtype, MatrixBatch q, const void* tau, int64_t reflections, int64_t tau_stride) {
  if (q.cols == 0) return;
  visit_number(dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto& small = orthogonal::small_kernels<T>();
    if (goes_by_groups(small.lanes(), q.count, q.rows, q.cols)) {
      for_groups(small.lanes(), q.count, q.rows, q.cols, [&](int64_t first, int64_t count) {
        small.product(count, q.rows, q.cols, reflections, static_cast<const T*>(tau) + first * tau_stride, tau_stride,
                      group_of<T>(q, first));
      });
      return;
    }
    for_matrices(q.count, 2.0 * q.rows * q.cols * (reflections + 1), [&](int64_t i) {
      form_product(q.rows, q.cols, reflections, matrix_of<T>(q, i), static_cast<const T*>(tau) + i * tau_stride);
    });
  });
}

void run_apply_reflections(DType dtype, MatrixBatch v, const void* tau, int64_t reflections, int64_t tau_stride,
                           MatrixBatch c, bool left, bool adjoint) {
  if (c.rows == 0 || c.cols == 0) return;
  visit_number(dtype, [&](auto zero) {
    using T = decltype(zero);
    for_matrices(c.count, 4.0 * c.rows * c.cols * (reflections + 1), [&](int64_t i) {
      apply(c.rows, c.cols, reflections, matrix_of<T>(v, i), static_cast<const T*>(tau) + i * tau_stride,
            matrix_of<T>(c, i), left, adjoint);
    });
  });
}

void run_upper_triangle(DType dtype, MatrixBatch from, MatrixBatch to) {
  visit_number(dtype, [&](auto zero) {
    using T = decltype(zero);
    for_matrices(to.count, static_cast<double>(to.rows * to.cols), [&](int64_t i) {
      const Matrix<T> source = matrix_of<T>(from, i), target = matrix_of<T>(to, i);
      if (source.col_stride == 1 && target.col_stride == 1) {
        for (int64_t r = 0; r < to.rows; ++r) {
          const int64_t below = std::min(r, to.cols);
          if (&source(r, 0) != &target(r, 0))
            std::copy(&source(r, 0) + below, &source(r, 0) + to.cols, &target(r, 0) + below);
          std::fill_n(&target(r, 0), below, T(0));
        }
        return;
      }
      for (int64_t r = 0; r < to.rows; ++r)
        for (int64_t c = 0; c < to.cols; ++c) target(r, c) = r > c ? T(0) : source(r, c);
    });
  });
}

}  // namespace tessera::cpu
