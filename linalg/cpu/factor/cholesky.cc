// Cholesky's factorization by recursion: the left half of the lower triangle, what it does to the right, the right.
#include "linalg/cpu/factor/blocks.h"

namespace tessera::cpu {
namespace factor {
namespace {

template <class T>
int64_t factor_block(int64_t n, Matrix<T> a) {
  T memory[kBlock * kBlock];
  const Matrix<T> rows = in_rows(memory, kBlock);
  copy_matrix(n, n, a.transposed(), rows);
  if constexpr (kIsComplex<T>)
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = i; j < n; ++j) rows(i, j) = std::conj(rows(i, j));
  const int64_t size = (n + 3) / 4 * 4;  // with rows and columns of the unit matrix behind it
  for (int64_t i = n; i < size; ++i) {
    for (int64_t j = 0; j < i; ++j) rows(j, i) = T{};
    rows(i, i) = T(1);
  }
  const int64_t info = kernels<CholeskyKernels<T>>().block(size, memory, kBlock);
  for (int64_t i = 0; i < n; ++i) std::fill_n(&rows(i, i + 1), n - i - 1, T{});
  copy_matrix(n, n, rows, a);
  return info;
}

int64_t half_of(int64_t n) { return (n / 2 + kBlock - 1) / kBlock * kBlock; }

// The lower triangle's. Above it are zeros, but where tiles of products reached across the diagonal, less than a block.
template <class T>
int64_t factor_lower(int64_t n, Matrix<T> a) {
  if (n <= kBlock) return factor_block(n, a);
  const int64_t top = half_of(n), rest = n - top;
  const int64_t info = factor_lower(top, a);
  if (info) return info;
  const Matrix<T> below = a.at(top, 0), last = a.at(top, top);
  // L21 L11^H = A21.
  solve_triangle<T>(top, rest, a.reading(), {false, false, true}, below.transposed());
  subtract_product<T>(rest, rest, top, below.reading(), below.transposed().reading(), last, false, true,
                      GemmPart::kLower);
  const int64_t later = factor_lower(rest, last);
  for (int64_t i = top - kBlock; i < top; ++i)
    for (int64_t j = top; j < std::min(n, top + kBlock); ++j) a(i, j) = T{};
  return later ? later + top : 0;
}

// What is left of and on the diagonal of `from`, of a's strides, zeros above it, to a, which may be `from`.
template <class T>
void take_lower(int64_t n, const T* from, Matrix<T> a) {
  const bool by_rows = a.col_stride == 1;
  const int64_t stride = by_rows ? a.row_stride : a.col_stride;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t begin = by_rows ? 0 : i, end = by_rows ? i + 1 : n;
    T* const line = a.data + i * stride;
    if (from != a.data) std::copy(from + i * stride + begin, from + i * stride + end, line + begin);
    std::fill(line, line + begin, T{});
    std::fill(line + end, line + n, T{});
  }
}

}  // namespace
}  // namespace factor

void run_cholesky(DType dtype, const MatrixBatch& a, bool upper, int32_t* info) {
  using namespace factor;
  const int64_t n = a.rows;
  std::fill(info, info + a.count, 0);
  if (n == 0) return;
  const MatrixBatch lower = upper ? transposed(a) : a;
  visit_number(dtype, [&]<class T>(T) {
    if (is_lockstep<T>(a.count, n, n)) {
      for_groups<T>(a.count, n, n, [&](int64_t first, int64_t count) {
        kernels<CholeskyKernels<T>>().small(count, n, source_of<T>(lower, first), group_of<T>(lower, first),
                                            info + first);
      });
      return;
    }
    for_matrices(a.count, n * n * n / 3, [&](int64_t b) {
      const Matrix<T> l = matrix_of<T>(lower, b);
      take_lower(n, source_of<T>(lower, b).data, l);
      info[b] = static_cast<int32_t>(factor_lower(n, l));
    });
  });
}

}  // namespace tessera::cpu
