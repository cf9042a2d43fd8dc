// Q R, products of reflections, least squares.
#include <algorithm>

#include "linalg/cuda/calls.h"
#include "linalg/cuda/engines.h"
#include "linalg/cuda/kernels.h"

namespace tessera::cuda {
namespace {

Columns first_rows(Columns c, int64_t rows) {
  c.rows = rows;
  return c;
}
// Rows `from` on.
MatrixBatch last_rows(const Columns& c, int64_t from) {
  MatrixBatch m = c.batch();
  m.data = static_cast<char*>(m.data) + from * item_size(c.dtype);
  m.rows -= from;
  return m;
}

// c = Q c or c Q.
void apply_q(DType dtype, const MatrixBatch& v, const void* tau, int64_t tau_stride, int64_t reflections,
             const MatrixBatch& c, bool left, bool adjoint) {
  if (takes_at_once(c.count, std::max(c.rows, c.cols)))
    return multiply_small_q(dtype, v, tau, tau_stride, reflections, c, left, adjoint);
  const InColumns vectors(dtype, v), product(dtype, c);
  multiply_q(*vectors, tau, tau_stride, reflections, *product, left, adjoint);
  product.finish();
}

}  // namespace

void run_geqrf(DType dtype, MatrixBatch a, void* tau) {
  const int64_t k = std::min(a.rows, a.cols);
  if (a.count == 0 || k == 0) return;
  const InColumns in(dtype, a);
  factor_qr(*in, tau, k);
  in.finish();
}

void run_qr(DType dtype, MatrixBatch q, MatrixBatch r) {
  if (q.count == 0 || q.cols == 0) return;
  const OwnColumns tau(dtype, q.count, q.cols, 1);
  cuda::run_geqrf(dtype, q, tau->data);
  cuda::run_upper_triangle(dtype, q, r);
  cuda::run_householder_product(dtype, q, tau->data, q.cols, q.cols);
}

void run_householder_product(DType dtype, MatrixBatch q, const void* tau, int64_t reflections, int64_t tau_stride) {
  if (q.count == 0 || q.cols == 0) return;
  if (reflections == 0) return set_identity(dtype, q);
  if (takes_at_once(q.count, q.rows)) {
    MatrixBatch first = q;
    first.cols = reflections;
    const OwnColumns v(dtype, first);
    set_identity(dtype, q);
    return multiply_small_q(dtype, v->batch(), tau, tau_stride, reflections, q, true, false);
  }
  const InColumns in(dtype, q);
  make_q(*in, tau, tau_stride, reflections);
  in.finish();
}

void run_apply_reflections(DType dtype, MatrixBatch v, const void* tau, int64_t reflections, int64_t tau_stride,
                           MatrixBatch c, bool left, bool adjoint) {
  if (c.count == 0 || c.rows == 0 || c.cols == 0 || reflections == 0) return;
  apply_q(dtype, v, tau, tau_stride, reflections, c, left, adjoint);
}

void run_least_squares(DType dtype, cpu::LeastSquares method, double, MatrixBatch a, MatrixBatch b, int64_t*,
                       int32_t* failed) {
  TESSERA_CHECK_NOT_IMPLEMENTED(
      method == cpu::LeastSquares::kFullRank,
      "least squares by pivoted Q R are not implemented on CUDA devices; use the driver gels");
  const int64_t m = a.rows, n = a.cols, k = std::min(m, n);
  if (a.count == 0) return;
  fill_bytes(failed, 0, static_cast<size_t>(a.count) * sizeof *failed);
  if (k == 0) {
    if (b.rows > 0 && b.cols > 0 && m == 0) set_zero(dtype, b);
    return;
  }
  const bool tall = m >= n;
  // Of A, or of A^H = Q R: then A = R^H Q^H.
  const OwnColumns qr(dtype, tall ? a : transposed(a), !tall);
  const OwnColumns tau(dtype, a.count, k, 1);
  factor_qr(*qr, tau->data, k);
  find_zero_on_diagonal(dtype, qr->batch(), failed);
  if (b.cols == 0) return;
  const InColumns x(dtype, b);
  Columns r = first_rows(*qr, k);
  r.cols = k;
  const TriangleCall call{CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_UPPER,
                          tall                ? CUBLAS_OP_N
                          : is_complex(dtype) ? CUBLAS_OP_C
                                              : CUBLAS_OP_T,
                          CUBLAS_DIAG_NON_UNIT};
  if (tall) apply_q(dtype, qr->batch(), tau->data, k, k, x->batch(), true, true);
  solve_triangle(call, r, first_rows(*x, k));
  if (!tall) {
    set_zero(dtype, last_rows(*x, k));
    apply_q(dtype, qr->batch(), tau->data, k, k, x->batch(), true, false);
  }
  x.finish();
}

}  // namespace tessera::cuda
