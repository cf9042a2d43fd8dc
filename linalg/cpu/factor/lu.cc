// LU with partial pivoting, by recursion over the columns: what is left of the middle, what that does to the right, the
// right. Narrow panels are brought to columns and factored by their kernel. What stands on it: solutions, inverses,
// determinants.
#include <cmath>

#include "linalg/cpu/factor/blocks.h"

namespace tessera::cpu {
namespace factor {
namespace {

constexpr TriangularForm kUnitLower{false, true, false};

// a has dense rows, or dense columns.
template <class T>
int32_t factor_narrow(int64_t m, int64_t n, Matrix<T> a, int32_t* pivots) {
  const int64_t ld = (m + 15) / 16 * 16 + 16;  // no power of two: columns would share lines of the cache
  const ScratchArray<T> columns(ld * n);
  T* const c = columns.get();
  if (a.row_stride == 1)
    for (int64_t j = 0; j < n; ++j) std::copy_n(&a(0, j), m, c + j * ld);
  else
    transpose<T>(m, n, a.data, a.row_stride, c, ld);
  int32_t info = 0;
  kernels<BlockKernels<T>>().lu_panel(m, n, c, ld, pivots, &info);
  if (a.row_stride == 1)
    for (int64_t j = 0; j < n; ++j) std::copy_n(c + j * ld, m, &a(0, j));
  else
    transpose<T>(n, m, c, ld, a.data, a.row_stride);
  return info;
}

}  // namespace

// What is called in several places, for four types of numbers, is kept out of line: copies in its callers would be a
// third of their code. Rows are exchanged by strips of columns, which stay in the second cache while all pivots pass.
template <class T>
[[gnu::noinline]] void swap_rows(int64_t count, int64_t columns, Matrix<T> a, const int32_t* pivots, bool back) {
  constexpr int64_t kStrip = 512 / sizeof(T), kAhead = 4;
  const bool by_rows = a.col_stride == 1;
  const int64_t grain = std::max<int64_t>(by_rows ? kStrip : 64, 65536 / std::max<int64_t>(count, 1)),
                strip = by_rows ? kStrip : 1;
  const auto place = [&](int64_t step) { return back ? count - 1 - step : step; };
  parallel_for(columns, grain, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += strip) {
      const int64_t last = std::min(end, first + strip);
      for (int64_t s = 0; s < count; ++s) {
        const int64_t i = place(s), p = pivots[i];
        if (s + kAhead < count)
          for (int64_t j = first; j < last; j += 64 / sizeof(T))
            __builtin_prefetch(&a(pivots[place(s + kAhead)], j), 1);
        if (p == i) continue;
        if (by_rows)
          std::swap_ranges(&a(i, first), &a(i, first) + (last - first), &a(p, first));
        else
          std::swap(a(i, first), a(p, first));
      }
    }
  });
}

template <class T>
[[gnu::noinline]] int32_t factor_lu(int64_t m, int64_t n, Matrix<T> a, int32_t* pivots) {
  if (m == 0 || n == 0) return 0;
  if (n <= kBlock && m >= n) return factor_narrow(m, n, a, pivots);
  const int64_t left = m < n ? m : (n / 2 + kBlock - 1) / kBlock * kBlock, right = n - left;
  const int32_t info = factor_lu(m, left, a, pivots);
  const Matrix<T> b = a.at(0, left);
  swap_rows(left, right, b, pivots);
  solve_triangle<T>(left, right, a.reading(), kUnitLower, b);
  if (m == left) return info;
  subtract_product<T>(m - left, right, left, a.at(left, 0).reading(), b.reading(), b.at(left, 0));
  const int32_t later = factor_lu(m - left, right, b.at(left, 0), pivots + left);
  swap_rows(std::min(m - left, right), left, a.at(left, 0), pivots + left);
  for (int64_t i = left; i < std::min(m, n); ++i) pivots[i] += static_cast<int32_t>(left);
  return info ? info : later ? later + static_cast<int32_t>(left) : 0;
}

namespace {

// Calls f(i) for each of the rows of `cols` elements.
template <class F>
void for_rows(int64_t rows, int64_t cols, F&& f) {
  parallel_for(rows, std::max<int64_t>(1, 16384 / std::max<int64_t>(cols, 1)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(i);
  });
}

// L becomes L^-1, unit lower, the rest is left alone.
template <class T>
void invert_unit_lower(int64_t n, Matrix<T> l) {
  if (n <= kBlock) {
    T inverse[kBlock * kBlock] = {};
    for (int64_t i = 0; i < n; ++i) inverse[i * n + i] = T(1);
    solve_triangle<T>(n, n, l.reading(), kUnitLower, {inverse, n, 1});
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < i; ++j) l(i, j) = inverse[i * n + j];
    return;
  }
  const int64_t top = (n / 2 + kBlock - 1) / kBlock * kBlock, rest = n - top;
  const Matrix<T> below = l.at(top, 0), last = l.at(top, top);
  solve_triangle<T>(rest, top, last.reading(), kUnitLower, below);
  solve_triangle<T>(top, rest, l.transposed().reading(), {true, true, false}, below.transposed());
  for_rows(rest, top, [&](int64_t i) {
    for (int64_t j = 0; j < top; ++j) below(i, j) = -below(i, j);
  });
  invert_unit_lower(top, l);
  invert_unit_lower(rest, last);
}

template <class T>
int32_t invert(int64_t n, Matrix<T> a) {
  const ScratchArray<int32_t> pivots(n);
  const int32_t info = factor_lu(n, n, a, pivots.get());
  if (info) return info;
  const ScratchArray<T> memory(n * n);
  const Matrix<T> w{memory.get(), n, 1};
  for_rows(n, n, [&](int64_t i) {
    for (int64_t j = 0; j < n; ++j) w(i, j) = j < i ? a(i, j) : T(j == i ? 1 : 0);
  });
  invert_unit_lower(n, w);
  solve_triangle<T>(n, n, a.reading(), {true, false, false}, w);
  const ScratchArray<int64_t> order(n);
  for (int64_t i = 0; i < n; ++i) order[i] = i;
  for (int64_t i = 0; i < n; ++i) std::swap(order[i], order[pivots[i]]);
  for_rows(n, n, [&](int64_t i) {
    for (int64_t j = 0; j < n; ++j) a(i, order[j]) = w(i, j);
  });
  return 0;
}

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

#define TESSERA_INSTANCES(T)                                                  \
  template void swap_rows(int64_t, int64_t, Matrix<T>, const int32_t*, bool); \
  template int32_t factor_lu(int64_t m, int64_t n, Matrix<T> a, int32_t* pivots);
TESSERA_INSTANCES(float)
TESSERA_INSTANCES(double)
TESSERA_INSTANCES(std::complex<float>)
TESSERA_INSTANCES(std::complex<double>)
#undef TESSERA_INSTANCES

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
    bring<T>(a);
    for_matrices(a.count, m * n * size, [&](int64_t b) {
      info[b] = factor_lu(m, n, matrix_of<T>(a, b), pivots + b * size);
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

}  // namespace

void run_lu_solve(DType dtype, const MatrixBatch& lu, const int32_t* pivots, SystemForm form, const MatrixBatch& b) {
  const int64_t n = b.rows;
  if (b.count == 0 || n == 0 || b.cols == 0) return;
  check_pivots("LU solution", pivots, b.count * n, n, false);
  visit_number(dtype, [&]<class T>(T) {
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
  bool is_done = false;
  visit_number(dtype, [&]<class T>(T) {
    if (b.count == 0 || b.cols == 0 || n == 0 || !is_lockstep<T>(b.count, n, b.cols)) return;
    for_groups<T>(b.count, n, std::max(n, b.cols), [&](int64_t first, int64_t count) {
      kernels<SmallSystems<T>>().solve(count, n, b.cols, source_of<T>(a, first), group_of<T>(a, first),
                                       pivots + first * n, info + first, source_of<T>(b, first), group_of<T>(b, first));
    });
    is_done = true;
  });
  if (is_done) return;
  run_lu_factor(dtype, a, pivots, info);
  MatrixBatch lu = a;
  lu.from = nullptr;
  run_lu_solve(dtype, lu, pivots, {}, b);
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
    bring<T>(a);
    for_matrices(a.count, n * n * n, [&](int64_t b) { info[b] = invert(n, matrix_of<T>(a, b)); });
  });
}

}  // namespace tessera::cpu
