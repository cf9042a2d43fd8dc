// LU, Cholesky, inverses, triangles and symmetric indefinite matrices.
#include <algorithm>

#include "linalg/cuda/calls.h"
#include "linalg/cuda/engines.h"
#include "linalg/cuda/host.h"
#include "linalg/cuda/kernels.h"
#include "linalg/cuda/solver.h"

namespace tessera::cuda {
namespace {

cublasOperation_t operation(bool transposed, bool conj) {
  return !transposed ? CUBLAS_OP_N : conj ? CUBLAS_OP_C : CUBLAS_OP_T;
}

// LU of square matrices at once; pivots may be null.
void factor_at_once(const Columns& a, int32_t* pivots, int32_t* info) {
  const Buffer pointers = addresses(a);
  with_element_type(a.dtype, [&](auto t) {
    using T = typename decltype(t)::type;
    check_blas(matrix_blas().of<T>().getrf_batched(blas_handle(), small_size(a.rows), pointers.as<T*>(),
                                                   small_size(a.leading), pivots, info, small_size(a.count)),
               "cublas<T>getrfBatched");
  });
}
// One after the other.
void factor_each(const Columns& a, int64_t* pivots, int32_t* info) {
  const cudaDataType type = solver_type(a.dtype);
  const cusolverDnHandle_t handle = solver_handle();
  WorkSpace work("cusolverDnXgetrf_bufferSize", [&](size_t* on_device, size_t* on_host) {
    return solver().getrf_size(handle, solver_params(), a.rows, a.cols, type, a.data, a.leading, type, on_device,
                               on_host);
  });
  const int64_t size = std::min(a.rows, a.cols);
  for (int64_t b = 0; b < a.count; ++b)
    check_solver(solver().getrf(handle, solver_params(), a.rows, a.cols, type, a.at(b), a.leading,
                                pivots ? pivots + b * size : nullptr, type, work.device(), work.device_bytes(),
                                work.host(), work.host_bytes(), info + b),
                 "cusolverDnXgetrf");
}

// b = op(A)^-1 b by LU; a matrix lu.stride == 0 serves all.
void solve_at_once(const Columns& lu, const int32_t* pivots, cublasOperation_t op, const Columns& b) {
  const Buffer factors = addresses(lu.dtype, lu.data, b.count, lu.stride), right = addresses(b);
  with_element_type(b.dtype, [&](auto t) {
    using T = typename decltype(t)::type;
    int wrong = 0;
    check_blas(matrix_blas().of<T>().getrs_batched(blas_handle(), op, small_size(b.rows), small_size(b.cols),
                                                   factors.as<const T*>(), small_size(lu.leading), pivots,
                                                   right.as<T*>(), small_size(b.leading), &wrong, small_size(b.count)),
               "cublas<T>getrsBatched");
  });
}
void solve_each(const Columns& lu, const int64_t* pivots, cublasOperation_t op, const Columns& b) {
  const cudaDataType type = solver_type(b.dtype);
  const Buffer info(sizeof(int));
  for (int64_t i = 0; i < b.count; ++i)
    check_solver(solver().getrs(solver_handle(), solver_params(), op, b.rows, b.cols, type, lu.at(i), lu.leading,
                                pivots + i * b.rows, type, b.at(i), b.leading, info.as<int>()),
                 "cusolverDnXgetrs");
}

void cholesky_at_once(const Columns& a, cublasFillMode_t part, int32_t* info) {
  const Buffer pointers = addresses(a);
  with_element_type(a.dtype, [&](auto t) {
    using T = typename decltype(t)::type;
    check_solver(solver().of<T>().potrf_batched(solver_handle(), part, small_size(a.rows), pointers.as<T*>(),
                                                small_size(a.leading), info, small_size(a.count)),
                 "cusolverDn<T>potrfBatched");
  });
}
void cholesky_each(const Columns& a, cublasFillMode_t part, int32_t* info) {
  const cudaDataType type = solver_type(a.dtype);
  const cusolverDnHandle_t handle = solver_handle();
  WorkSpace work("cusolverDnXpotrf_bufferSize", [&](size_t* on_device, size_t* on_host) {
    return solver().potrf_size(handle, solver_params(), part, a.rows, type, a.data, a.leading, type, on_device,
                               on_host);
  });
  for (int64_t b = 0; b < a.count; ++b)
    check_solver(solver().potrf(handle, solver_params(), part, a.rows, type, a.at(b), a.leading, type, work.device(),
                                work.device_bytes(), work.host(), work.host_bytes(), info + b),
                 "cusolverDnXpotrf");
}

int64_t cells(const MatrixBatch& m) { return m.count * m.rows * m.cols; }

}  // namespace

void run_lu_factor(DType dtype, const MatrixBatch& a, int32_t* pivots, int32_t* info) {
  const int64_t size = std::min(a.rows, a.cols);
  if (a.count == 0) return;
  if (size == 0) return fill_bytes(info, 0, static_cast<size_t>(a.count) * sizeof *info);
  const InColumns in(dtype, a);
  if (a.rows == a.cols && takes_at_once(a.count, size)) {
    factor_at_once(*in, pivots, info);
  } else {
    const Buffer wide(pivots ? static_cast<size_t>(a.count * size) * sizeof(int64_t) : 0);
    factor_each(*in, wide.as<int64_t>(), info);
    if (pivots) narrow_pivots(wide.as<int64_t>(), a.count * size, pivots);
  }
  in.finish();
}

void run_lu_solve(DType dtype, const MatrixBatch& lu, const int32_t* pivots, cpu::SystemForm form,
                  const MatrixBatch& b) {
  if (cells(b) == 0) return;
  // conj(A) X = B where A conj(X) = conj(B).
  const InColumns factors(dtype, lu), x(dtype, b, form.conj && !form.transposed);
  const cublasOperation_t op = operation(form.transposed, form.conj && is_complex(dtype));
  if (takes_at_once(b.count, b.rows)) {
    solve_at_once(*factors, pivots, op, *x);
  } else {
    const Buffer wide(static_cast<size_t>(b.count * b.rows) * sizeof(int64_t));
    widen_pivots(pivots, b.count * b.rows, wide.as<int64_t>());
    solve_each(*factors, wide.as<int64_t>(), op, *x);
  }
  x.finish();
}

void run_solve(DType dtype, const MatrixBatch& a, int32_t* pivots, int32_t* info, const MatrixBatch& b) {
  cuda::run_lu_factor(dtype, a, pivots, info);
  cuda::run_lu_solve(dtype, a, pivots, {}, b);
}

void run_inverse(DType dtype, const MatrixBatch& a, int32_t* info) {
  const int64_t n = a.rows;
  if (a.count == 0) return;
  if (n == 0) return fill_bytes(info, 0, static_cast<size_t>(a.count) * sizeof *info);
  const OwnColumns lu(dtype, a), inverse(dtype, a.count, n, n);
  if (takes_at_once(a.count, n)) {
    const Buffer pivots(static_cast<size_t>(a.count * n) * sizeof(int32_t)),
        singular(static_cast<size_t>(a.count) * sizeof(int32_t));
    factor_at_once(*lu, pivots.as<int32_t>(), info);
    const Buffer from = addresses(*lu), to = addresses(*inverse);
    with_element_type(dtype, [&](auto t) {
      using T = typename decltype(t)::type;
      check_blas(matrix_blas().of<T>().getri_batched(blas_handle(), small_size(n), from.as<const T*>(), small_size(n),
                                                     pivots.as<int32_t>(), to.as<T*>(), small_size(n),
                                                     singular.as<int32_t>(), small_size(a.count)),
                 "cublas<T>getriBatched");
    });
  } else {
    const Buffer pivots(static_cast<size_t>(a.count * n) * sizeof(int64_t));
    factor_each(*lu, pivots.as<int64_t>(), info);
    set_identity(dtype, inverse->batch());
    solve_each(*lu, pivots.as<int64_t>(), CUBLAS_OP_N, *inverse);
  }
  copy_matrices(dtype, a, inverse->batch());
}

void run_cholesky(DType dtype, const MatrixBatch& a, bool upper, int32_t* info) {
  if (a.count == 0) return;
  if (a.rows == 0) return fill_bytes(info, 0, static_cast<size_t>(a.count) * sizeof *info);
  // A by rows is A^T by columns, whose upper factor is L^T: what stands there by rows is L.
  const bool flipped = !has_columns(a);
  const Columns in = columns_of(dtype, flipped ? transposed(a) : a);
  const cublasFillMode_t part = upper != flipped ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
  make_diagonal_real(dtype, a);
  if (a.count > 1 && a.rows <= kSmallMatrix)
    cholesky_at_once(in, part, info);
  else
    cholesky_each(in, part, info);
  keep_triangle(dtype, a, upper);
}

void run_triangular_solve(DType dtype, const MatrixBatch& a, cpu::TriangularForm form, const MatrixBatch& b) {
  if (cells(b) == 0) return;
  const bool conj = form.conj && is_complex(dtype);
  // B by rows is B^T by columns: X^T A^T = B^T. So is A, as far as it has rows.
  const bool by_rows = !has_columns(b);
  const bool flipped = !has_columns(a) && has_columns(transposed(a));
  // The library conjugates what it transposes alone.
  const bool transposes = by_rows != flipped, copies = conj && !transposes;
  const InColumns triangle(dtype, flipped ? transposed(a) : a, copies);
  const Columns x = columns_of(dtype, by_rows ? transposed(b) : b);
  TriangleCall call;
  call.side = by_rows ? CUBLAS_SIDE_RIGHT : CUBLAS_SIDE_LEFT;
  call.part = form.upper != flipped ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
  call.op = operation(transposes, conj);
  call.diagonal = form.unit ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT;
  solve_triangle(call, *triangle, x);
}

// --- Symmetric indefinite matrices

void run_ldl_factor(DType dtype, const MatrixBatch& a, bool hermitian, int32_t* pivots, int32_t* info) {
  const int64_t n = a.rows;
  if (a.count == 0) return;
  if (n == 0) return fill_bytes(info, 0, static_cast<size_t>(a.count) * sizeof *info);
  if (hermitian && is_complex(dtype)) {
    HostMatrices m(dtype, a);
    HostNumbers<int32_t> p(pivots, a.count * n), i(info, a.count);
    host_engine (&HostEngines::run_ldl_factor)(dtype, m.batch(), true, p.data(), i.data());
    m.finish();
    p.finish();
    i.finish();
    return;
  }
  const InColumns in(dtype, a);
  with_element_type(dtype, [&](auto t) {
    using T = typename decltype(t)::type;
    const auto& f = solver().of<T>();
    const cusolverDnHandle_t handle = solver_handle();
    const int size = small_size(n), leading = small_size(in->leading);
    const ElementSpace<T> work("cusolverDn<T>sytrf_bufferSize", [&](int* elements) {
      return f.sytrf_size(handle, size, static_cast<T*>(in->data), leading, elements);
    });
    for (int64_t b = 0; b < a.count; ++b)
      check_solver(f.sytrf(handle, CUBLAS_FILL_MODE_LOWER, size, static_cast<T*>(in->at(b)), leading, pivots + b * n,
                           work.get(), work.size(), info + b),
                   "cusolverDn<T>sytrf");
  });
  in.finish();
}

void run_ldl_solve(DType dtype, const MatrixBatch& ld, const int32_t* pivots, bool hermitian, const MatrixBatch& b) {
  const int64_t n = b.rows;
  if (cells(b) == 0) return;
  if (hermitian && is_complex(dtype)) {
    HostMatrices m(dtype, ld), x(dtype, b);
    HostNumbers<int32_t> p(const_cast<int32_t*>(pivots), b.count * n);
    p.read();
    host_engine (&HostEngines::run_ldl_solve)(dtype, m.batch(), p.data(), true, x.batch());
    x.finish();
    return;
  }
  const InColumns factors(dtype, ld), x(dtype, b);
  const Buffer wide(static_cast<size_t>(b.count * n) * sizeof(int64_t)), info(sizeof(int));
  widen_pivots(pivots, b.count * n, wide.as<int64_t>());
  const cudaDataType type = solver_type(dtype);
  const cusolverDnHandle_t handle = solver_handle();
  constexpr cublasFillMode_t kPart = CUBLAS_FILL_MODE_LOWER;
  WorkSpace work("cusolverDnXsytrs_bufferSize", [&](size_t* on_device, size_t* on_host) {
    return solver().sytrs_size(handle, kPart, n, b.cols, type, factors->data, factors->leading, wide.as<int64_t>(),
                               type, x->data, x->leading, on_device, on_host);
  });
  for (int64_t i = 0; i < b.count; ++i)
    check_solver(solver().sytrs(handle, kPart, n, b.cols, type, factors->at(i), factors->leading,
                                wide.as<int64_t>() + i * n, type, x->at(i), x->leading, work.device(),
                                work.device_bytes(), work.host(), work.host_bytes(), info.as<int>()),
                 "cusolverDnXsytrs");
  x.finish();
}

}  // namespace tessera::cuda
