// What stands on Cholesky's factorization: two triangles of equations, while the first solution is at hand.
#include "linalg/cpu/factor/blocks.h"
#include "linalg/cpu/factor/by_rows.h"

namespace tessera::cpu {

void run_cholesky_solve(DType dtype, const MatrixBatch& factor, bool upper, const MatrixBatch& b) {
  using namespace factor;
  const int64_t n = b.rows, width = b.cols;
  if (b.count == 0 || n == 0 || width == 0) return;
  const auto [first, second] = triangles_of(dtype, factor, upper);
  visit_number(dtype, [&]<class T>(T) {
    if constexpr (!kIsComplex<T>) {
      if (goes_by_rows<T>(b)) {
        for_rows_of<T>(b, n * n * width, [&](int64_t k, const Matrix<const T>& from, const Matrix<T>& x) {
          solve_small(n, width, matrix_of<T>(first.matrix, k).reading(), first.form, from, nullptr, x);
          solve_small(n, width, matrix_of<T>(second.matrix, k).reading(), second.form, x.reading(), nullptr, x);
        });
        return;
      }
      if (is_lockstep<T>(b.count, n, width)) {
        for_groups<T>(b.count, n, std::max(n, width), [&](int64_t begin, int64_t count) {
          const Group<T> x = group_of<T>(b, begin);
          const SmallTriangles<T>& kernel = kernels<SmallTriangles<T>>();
          kernel.solve(count, n, width, source_of<T>(first.matrix, begin), first.form, source_of<T>(b, begin), x);
          kernel.solve(count, n, width, source_of<T>(second.matrix, begin), second.form, {x.data, x.step, x.row, x.col},
                       x);
        });
        return;
      }
    }
    run_triangular_solve(dtype, first.matrix, first.form, b);
    MatrixBatch x = b;
    x.from = nullptr;
    run_triangular_solve(dtype, second.matrix, second.form, x);
  });
}

}  // namespace tessera::cpu
