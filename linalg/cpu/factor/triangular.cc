// Triangular systems: blocks on the diagonal by their kernel, what is beside them by products.
#include <cmath>
#include <optional>

#include "linalg/cpu/factor/blocks.h"
#include "linalg/cpu/factor/by_rows.h"

namespace tessera::cpu {
namespace factor {
namespace {

constexpr int64_t kNarrow = 8;  // so few columns of b are solved for by few rows of a at once
constexpr int64_t kFewRows = 8;
constexpr int64_t kTriangle = 128;  // rows and columns of blocks on the diagonal
// Columns of b that a thread takes at once: as many as kernels have in registers, or twice as many, since few threads
// would else be done long before others.
template <class T>
constexpr int64_t kStrip = 256 / sizeof(T);

// A triangle on the diagonal, brought to lower form by rows: an upper one from the last row to the first.
template <class T>
class DiagonalBlock {
 public:
  [[gnu::noinline]] DiagonalBlock(int64_t n, Matrix<const T> a, TriangularForm form)
      : n_(n), form_(form), memory_(n * (n + 2)), diagonal_(memory_.get() + n * n), inverse_(diagonal_ + n) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t from = form.upper ? n - 1 - i : i;
      T* const row = memory_.get() + i * n;
      for (int64_t j = 0; j < i; ++j) row[j] = conj_if(a(from, form.upper ? n - 1 - j : j), form.conj);
      if (form.unit) continue;
      diagonal_[i] = conj_if(a(from, from), form.conj);
      inverse_[i] = reciprocal(diagonal_[i]);
      exact_ = exact_ || !std::isnormal(size_of(diagonal_[i])) || !std::isnormal(size_of(inverse_[i]));
    }
  }

  // `width` columns of x.
  [[gnu::noinline]] void solve(T* x, int64_t ldx, int64_t width) const {
    if (form_.upper) {
      x += (n_ - 1) * ldx;
      ldx = -ldx;
    }
    if (exact_) return divide(x, ldx, width);
    kernels<BlockKernels<T>>().solve_block(
        {n_, {memory_.get(), n_, 1}, form_.unit ? nullptr : inverse_, x, ldx, nullptr, x, ldx, width});
  }

 private:
  // Where reciprocals of the diagonal are not as good as divisions.
  void divide(T* x, int64_t ldx, int64_t width) const {
    for (int64_t i = 0; i < n_; ++i) {
      T* const row = x + i * ldx;
      for (int64_t p = 0; p < i; ++p)
        for (int64_t j = 0; j < width; ++j) row[j] -= memory_[i * n_ + p] * x[p * ldx + j];
      for (int64_t j = 0; j < width; ++j) row[j] /= diagonal_[i];
    }
  }

  int64_t n_;
  TriangularForm form_;
  bool exact_ = false;
  ScratchArray<T> memory_;
  T *diagonal_, *inverse_;
};

// A triangle by blocks on its diagonal, and what is solved for by one thread, some columns from the first row to the
// last: no thread waits for another one.
template <class T>
class BlockTriangle {
 public:
  static constexpr int64_t kMost = 2 * kTriangle;  // beyond, products of all columns are better

  BlockTriangle(int64_t n, Matrix<const T> a, TriangularForm form) : n_(n), a_(a), form_(form) {
    for (int64_t q = 0; q * kTriangle < n; ++q) blocks_[q].emplace(size(q), a.at(first(q), first(q)), form);
  }

  // b has dense rows, or dense columns. Rows that lie powers of two apart share lines of the cache: they are brought
  // together.
  void solve(Matrix<T> b, int64_t width) const {
    if (width == 1) b.col_stride = 1;
    const bool is_apart = n_ > 16 && b.row_stride * static_cast<int64_t>(sizeof(T)) % 1024 == 0;
    if (b.col_stride == 1 && !is_apart) return solve_rows(b, width);
    const ScratchArray<T> memory(n_ * kStrip<T>);
    const Matrix<T> rows = in_rows(memory.get(), kStrip<T>);
    copy_matrix(n_, width, b, rows);
    solve_rows(rows, width);
    copy_matrix(n_, width, rows, b);
  }

 private:
  int64_t size(int64_t block) const { return std::min(kTriangle, n_ - block * kTriangle); }
  // Row of the block that comes so late.
  int64_t first(int64_t block) const { return form_.upper ? n_ - block * kTriangle - size(block) : block * kTriangle; }
  void solve_rows(Matrix<T> x, int64_t width) const {
    for (int64_t q = 0; q * kTriangle < n_; ++q) {
      const int64_t begin = first(q), solved = form_.upper ? begin + size(q) : 0;
      subtract_product<T>(size(q), width, q * kTriangle, a_.at(begin, solved), x.at(solved, 0).reading(),
                          x.at(begin, 0), form_.conj);
      blocks_[q]->solve(&x(begin, 0), x.row_stride, width);
    }
  }

  int64_t n_;
  Matrix<const T> a_;
  TriangularForm form_;
  std::optional<DiagonalBlock<T>> blocks_[kMost / kTriangle];
};

// A small triangle on the diagonal, where it lies, and columns of x.
template <class T>
void solve_corner(int64_t n, int64_t width, Matrix<const T> a, TriangularForm form, T* x, int64_t ldx) {
  const auto row = [&](int64_t step) { return form.upper ? n - 1 - step : step; };
  T inverse[kFewRows];
  for (int64_t i = 0; i < n && !form.unit; ++i) inverse[i] = reciprocal(a(i, i));
  for (int64_t j = 0; j < width; ++j, x += ldx)
    for (int64_t s = 0; s < n; ++s) {
      const int64_t i = row(s);
      // Where reciprocals are not as good as divisions, these.
      if (!form.unit) x[i] = std::isnormal(size_of(inverse[i])) ? times(x[i], inverse[i]) : x[i] / a(i, i);
      for (int64_t t = s + 1; t < n; ++t) x[row(t)] -= times(a(row(t), i), x[i]);
    }
}

// For few columns, which are brought next to each other. a is read once, in the order in which it lies: rows minus what
// those before them give, or columns into all rows behind them.
template <class T>
[[gnu::noinline]] void solve_narrow(int64_t n, int64_t width, Matrix<const T> a, TriangularForm form, Matrix<T> b) {
  const BlockKernels<T>& kernel = kernels<BlockKernels<T>>();
  const ScratchArray<T> columns(n * width);
  const bool by_rows = a.col_stride == 1;
  T* const x = columns.get();
  for (int64_t j = 0; j < width; ++j)
    for (int64_t i = 0; i < n; ++i) x[i + j * n] = b(i, j);
  for (int64_t done = 0; done < n; done += kFewRows) {
    const int64_t size = std::min(kFewRows, n - done), rest = n - done - size, first = form.upper ? rest : done;
    const int64_t solved = form.upper ? first + size : 0, behind = form.upper ? 0 : first + size;
    if (by_rows && done)
      kernel.subtract_dots(size, width, done, &a(first, solved), a.row_stride, x + solved, n, x + first, n);
    solve_corner<T>(size, width, a.at(first, first), form, x + first, n);
    if (!by_rows && rest)
      kernel.subtract_columns(rest, width, size, &a(behind, first), a.col_stride, x + first, n, x + behind, n);
  }
  for (int64_t j = 0; j < width; ++j)
    for (int64_t i = 0; i < n; ++i) b(i, j) = x[i + j * n];
}

}  // namespace

template <class T>
[[gnu::noinline]] void solve_triangle(int64_t n, int64_t width, Matrix<const T> a, TriangularForm form, Matrix<T> b) {
  if (n == 0 || width == 0) return;
  const bool is_dense = a.col_stride == 1 || a.row_stride == 1;
  if (width <= kNarrow && n > kFewRows * width && is_dense && !form.conj) return solve_narrow(n, width, a, form, b);
  if (n <= BlockTriangle<T>::kMost) {
    const BlockTriangle<T> triangle(n, a, form);
    parallel_for(width, kStrip<T>, [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; j += kStrip<T>) triangle.solve(b.at(0, j), std::min(kStrip<T>, end - j));
    });
    return;
  }
  const int64_t top = (n / 2 + kTriangle - 1) / kTriangle * kTriangle, rest = n - top;
  if (form.upper) {
    solve_triangle(rest, width, a.at(top, top), form, b.at(top, 0));
    subtract_product<T>(top, width, rest, a.at(0, top), b.at(top, 0).reading(), b, form.conj);
    solve_triangle(top, width, a, form, b);
  } else {
    solve_triangle(top, width, a, form, b);
    subtract_product<T>(rest, width, top, a.at(top, 0), b.reading(), b.at(top, 0), form.conj);
    solve_triangle(rest, width, a.at(top, top), form, b.at(top, 0));
  }
}

// Of a small triangle, in the order in which it is used; false: reciprocals are not as good as divisions.
template <class T>
bool invert_diagonal(int64_t n, const Matrix<const T>& a, TriangularForm form, T* to) {
  constexpr Real<T> kLeast = 4 * kSafeMin<T>;
  bool is_good = true;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t from = form.upper ? n - 1 - i : i;
    const T x = conj_if(a(from, from), form.conj);
    to[i] = reciprocal(x);
    is_good &= (size_of(x) >= kLeast) & (size_of(x) <= 1 / kLeast);
  }
  return is_good;
}

template <class T>
[[gnu::noinline]] void solve_small(int64_t n, int64_t width, const Matrix<const T>& a, TriangularForm form,
                                   const Matrix<const T>& from, const int32_t* order, const Matrix<T>& x) {
  T inverse[kBlock];
  if (!form.unit && !invert_diagonal(n, a, form, inverse)) {
    for (int64_t i = 0; i < n; ++i)
      if (const T* const row = &from(order ? order[i] : i, 0); row != &x(i, 0)) std::copy_n(row, width, &x(i, 0));
    return solve_triangle(n, width, a, form, x);
  }
  BlockSystem<T> system{n,    a, form.unit ? nullptr : inverse, from.data, from.row_stride, order, x.data, x.row_stride,
                        width};
  std::optional<ScratchArray<T>> memory;
  if (kIsComplex<T> && form.conj) {
    T* const conjugates = memory.emplace(n * n).get();
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) conjugates[i * n + j] = conjugate(a(i, j));
    system.l = {conjugates, n, 1};
  }
  if (form.upper) {  // from the last row to the first
    system.l = {&system.l(n - 1, n - 1), -system.l.row_stride, -system.l.col_stride};
    system.from += (n - 1) * system.from_distance;
    system.from_distance = -system.from_distance;
    system.x += (n - 1) * system.distance;
    system.distance = -system.distance;
  }
  kernels<BlockKernels<T>>().solve_block(system);
}

template <class T>
void solve_each(const MatrixBatch& a, TriangularForm form, const MatrixBatch& b) {
  for_matrices(b.count, b.rows * b.rows * b.cols / 2, [&](int64_t i) {
    solve_triangle<T>(b.rows, b.cols, matrix_of<T>(a, i).reading(), form, matrix_of<T>(b, i));
  });
}

#define TESSERA_INSTANCES(T)                                                                                  \
  template void solve_small(int64_t, int64_t, const Matrix<const T>&, TriangularForm, const Matrix<const T>&, \
                            const int32_t*, const Matrix<T>&);                                                \
  template void solve_triangle(int64_t, int64_t, Matrix<const T>, TriangularForm, Matrix<T>);                 \
  template void solve_each<T>(const MatrixBatch&, TriangularForm, const MatrixBatch&);
TESSERA_INSTANCES(float)
TESSERA_INSTANCES(double)
TESSERA_INSTANCES(std::complex<float>)
TESSERA_INSTANCES(std::complex<double>)
#undef TESSERA_INSTANCES

}  // namespace factor

void run_triangular_solve(DType dtype, const MatrixBatch& a, TriangularForm form, const MatrixBatch& b) {
  using namespace factor;
  const int64_t n = b.rows, width = b.cols;
  if (b.count == 0 || n == 0 || width == 0) return;
  visit_number(dtype, [&]<class T>(T) {
    if (goes_by_rows<T>(b)) {
      for_rows_of<T>(b, n * n * width / 2, [&](int64_t k, const Matrix<const T>& from, const Matrix<T>& x) {
        solve_small(n, width, matrix_of<T>(a, k).reading(), form, from, nullptr, x);
      });
      return;
    }
    if (is_lockstep<T>(b.count, n, width)) {
      for_groups<T>(b.count, n, std::max(n, width), [&](int64_t first, int64_t count) {
        kernels<SmallTriangles<T>>().solve(count, n, width, source_of<T>(a, first), form, source_of<T>(b, first),
                                           group_of<T>(b, first));
      });
      return;
    }
    bring<T>(b);
    solve_each<T>(a, form, b);
  });
}

}  // namespace tessera::cpu
