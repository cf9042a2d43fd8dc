// What stands on LU factorizations (lu_blocks.cc): solutions, determinants.
#include <cmath>
#include <numeric>

#include "linalg/cpu/factor/blocks.h"
#include "linalg/cpu/factor/by_rows.h"

namespace tessera::cpu {
namespace factor {
namespace {

// Rows of each b as LAPACK's pivots (counted from 1) say.
template <class T>
[[gnu::noinline]] void apply_pivots(const MatrixBatch& b, const int32_t* pivots, bool back) {
  const int64_t n = b.rows;
  for_matrices(b.count, n * b.cols, [&](int64_t k) {
    const ScratchArray<int32_t> from_0(n);
    for (int64_t i = 0; i < n; ++i) from_0[i] = pivots[k * n + i] - 1;
    swap_rows(n, b.cols, matrix_of<T>(b, k), from_0.get(), back);
  });
}

}  // namespace

}  // namespace factor

using namespace factor;

void run_lu_factor(DType dtype, const MatrixBatch& a, int32_t* pivots, int32_t* info) {
  const int64_t m = a.rows, n = a.cols, size = std::min(m, n);
  std::fill(info, info + a.count, 0);
  if (size == 0) return;
  visit_number(dtype, [&]<class T>(T) {
    if (is_lockstep<T>(a.count, m, n)) {
      for_groups<T>(a.count, m, n, [&](int64_t first, int64_t count) {
        kernels<SmallKernels<T>>().lu(count, m, n, source_of<T>(a, first), group_of<T>(a, first), pivots + first * size,
                                      info + first);
      });
      return;
    }
    for_matrices(a.count, m * n * size, [&](int64_t b) {
      info[b] = factor_lu<T>(m, n, matrix_of<T>(a, b), pivots + b * size, elsewhere<T>(a, b));
      for (int64_t i = 0; i < size; ++i) ++pivots[b * size + i];
    });
  });
}

namespace {

template <class T>
[[gnu::noinline]] void lu_solve_each(const MatrixBatch& lu, const int32_t* pivots, SystemForm form,
                                     const MatrixBatch& b) {
  const MatrixBatch a = form.transposed ? transposed(lu) : lu;
  if (!form.transposed) apply_pivots<T>(b, pivots, false);
  for (const bool upper : {false, true}) solve_each<T>(a, {upper, upper == form.transposed, form.conj}, b);
  if (form.transposed) apply_pivots<T>(b, pivots, true);
}

template <class T>
[[gnu::noinline]] void lu_solve_by_rows(const MatrixBatch& lu, const int32_t* pivots, SystemForm form,
                                        const MatrixBatch& b) {
  const int64_t n = b.rows, width = b.cols;
  const MatrixBatch a = form.transposed ? transposed(lu) : lu;
  for_rows_of<T>(b, n * n * width, [&](int64_t k, const Matrix<const T>& from, const Matrix<T>& x) {
    int32_t order[kBlock];
    std::iota(order, order + n, 0);
    for (int64_t i = 0; i < n; ++i) std::swap(order[i], order[pivots[k * n + i] - 1]);
    const Matrix<const T> triangles = matrix_of<T>(a, k).reading();
    const TriangularForm lower{false, !form.transposed, form.conj}, upper{true, form.transposed, form.conj};
    const ScratchArray<T> memory(n * width);
    const Matrix<T> rows = in_rows(memory.get(), width);
    solve_small(n, width, triangles, lower, from, form.transposed ? nullptr : order, rows);
    solve_small(n, width, triangles, upper, rows.reading(), nullptr, form.transposed ? rows : x);
    for (int64_t i = 0; i < n && form.transposed; ++i) std::copy_n(&rows(i, 0), width, &x(order[i], 0));
  });
}

}  // namespace

void run_lu_solve(DType dtype, const MatrixBatch& lu, const int32_t* pivots, SystemForm form, const MatrixBatch& b) {
  const int64_t n = b.rows;
  if (b.count == 0 || n == 0 || b.cols == 0) return;
  check_pivots("LU solution", pivots, b.count * n, n, false);
  visit_number(dtype, [&]<class T>(T) {
    if (goes_by_rows<T>(b)) return lu_solve_by_rows<T>(lu, pivots, form, b);
    if (!is_lockstep<T>(b.count, n, b.cols)) {
      bring<T>(b);
      return lu_solve_each<T>(lu, pivots, form, b);
    }
    for_groups<T>(b.count, n, std::max(n, b.cols), [&](int64_t first, int64_t count) {
      kernels<SmallKernels<T>>().lu_solve(count, n, b.cols, source_of<T>(lu, first), pivots + first * n, form,
                                          source_of<T>(b, first), group_of<T>(b, first));
    });
  });
}

void run_solve(DType dtype, const MatrixBatch& a, int32_t* pivots, int32_t* info, const MatrixBatch& b) {
  const int64_t n = a.rows;
  visit_number(dtype, [&]<class T>(T) {
    if (b.count == 0 || b.cols == 0 || n == 0 || goes_by_rows<T>(b) || !is_lockstep<T>(b.count, n, b.cols)) {
      run_lu_factor(dtype, a, pivots, info);
      MatrixBatch lu = a;
      lu.from = nullptr;
      return run_lu_solve(dtype, lu, pivots, {}, b);
    }
    for_groups<T>(b.count, n, std::max(n, b.cols), [&](int64_t first, int64_t count) {
      kernels<SmallSystems<T>>().solve(count, n, b.cols, source_of<T>(a, first), group_of<T>(a, first),
                                       pivots + first * n, info + first, source_of<T>(b, first), group_of<T>(b, first));
    });
  });
}

void run_determinant(DType dtype, const MatrixBatch& lu, const int32_t* pivots, DeterminantResult to) {
  const int64_t n = lu.rows;
  visit_number(dtype, [&]<class T>(T) {
    using R = Real<T>;
    for_matrices(lu.count, 4 * n, [&](int64_t b) {
      const Matrix<T> a = matrix_of<T>(lu, b);
      const auto pivot = [&](int64_t i) { return pivots[b * n + i] == i + 1 ? a(i, i) : -a(i, i); };
      if (to.value) {
        T value(1);
        for (int64_t i = 0; i < n; ++i) value *= pivot(i);
        static_cast<T*>(to.value)[b] = value;
      }
      if (!to.sign && !to.logabs) return;
      T sign(1);
      double logabs = 0, product = 1;  // of sizes whose logarithms are not in logabs yet
      constexpr double kSmall = 0x1p-500, kLarge = 0x1p500;
      const auto is_between = [](double x) { return x > kSmall && x < kLarge; };
      for (int64_t i = 0; i < n; ++i) {
        const T d = pivot(i);
        const R size = std::abs(d);
        sign *= size == 0 ? T(0) : d / size;
        if (!is_between(product)) {
          logabs += std::log(product);
          product = 1;
        }
        if (is_between(size))
          product *= size;
        else
          logabs += std::log(static_cast<double>(size));
      }
      if (to.sign) static_cast<T*>(to.sign)[b] = sign;
      if (to.logabs) static_cast<R*>(to.logabs)[b] = static_cast<R>(logabs + std::log(product));
    });
  });
}

void run_unpack_pivots(const int32_t* pivots, int64_t count, int64_t size, int64_t rows, int64_t* to) {
  check_pivots("lu_unpack", pivots, count * size, rows, false);
  for_matrices(count, rows, [&](int64_t b) {
    int64_t* const order = to + b * rows;
    for (int64_t i = 0; i < rows; ++i) order[i] = i;
    for (int64_t i = 0; i < size; ++i) std::swap(order[i], order[pivots[b * size + i] - 1]);
  });
}

}  // namespace tessera::cpu
