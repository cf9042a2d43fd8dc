// Eigenvalues of Hermitian matrices, and singular values by any of cuSOLVER's methods.
#include <algorithm>
#include <vector>

#include "linalg/cuda/calls.h"
#include "linalg/cuda/engines.h"
#include "linalg/cuda/kernels.h"

namespace tessera::cuda {
namespace {

using linalg::SvdDriver;

// What the batched methods of Jacobi take.
constexpr int64_t kJacobiSize = 32;
// Up to which size one call for all eigenvalues of a batch is worth its work space.
constexpr int64_t kBatchedSize = 512;

Buffer infos(int64_t count) { return Buffer(static_cast<size_t>(count) * sizeof(int32_t)); }
void set_success(int32_t* info, int64_t count) { fill_bytes(info, 0, static_cast<size_t>(count) * sizeof *info); }
char* numbers_at(void* values, DType real, int64_t i) { return static_cast<char*>(values) + i * item_size(real); }

// --- Hermitian matrices

struct EighCall {
  cusolverEigMode_t mode;
  cublasFillMode_t part;
};

void eigh_by_jacobi(const EighCall& call, const Columns& a, void* values, int32_t* info) {
  with_element_type(a.dtype, [&](auto t) {
    using T = typename decltype(t)::type;
    using R = typename decltype(t)::real;
    const auto& f = solver().of<T>();
    const cusolverDnHandle_t handle = solver_handle();
    const int n = small_size(a.rows), lead = small_size(a.leading), count = small_size(a.count);
    T* const data = static_cast<T*>(a.data);
    R* const w = static_cast<R*>(values);
    const ElementSpace<T> work("cusolverDn<T>syevjBatched_bufferSize", [&](int* elements) {
      return f.syevj_batched_size(handle, call.mode, call.part, n, data, lead, w, elements, syevj_settings(), count);
    });
    check_solver(f.syevj_batched(handle, call.mode, call.part, n, data, lead, w, work.get(), work.size(), info,
                                 syevj_settings(), count),
                 "cusolverDn<T>syevjBatched");
  });
}

void eigh_at_once(const EighCall& call, const Columns& a, void* values, int32_t* info) {
  const cudaDataType type = solver_type(a.dtype), real = solver_type(to_real(a.dtype));
  const cusolverDnHandle_t handle = solver_handle();
  WorkSpace work("cusolverDnXsyevBatched_bufferSize", [&](size_t* on_device, size_t* on_host) {
    return solver().syev_batched_size(handle, solver_params(), call.mode, call.part, a.rows, type, a.data, a.leading,
                                      real, values, type, on_device, on_host, a.count);
  });
  check_solver(solver().syev_batched(handle, solver_params(), call.mode, call.part, a.rows, type, a.data, a.leading,
                                     real, values, type, work.device(), work.device_bytes(), work.host(),
                                     work.host_bytes(), info, a.count),
               "cusolverDnXsyevBatched");
}

void eigh_each(const EighCall& call, const Columns& a, void* values, int32_t* info) {
  const DType real = to_real(a.dtype);
  const cudaDataType type = solver_type(a.dtype), real_type = solver_type(real);
  const cusolverDnHandle_t handle = solver_handle();
  WorkSpace work("cusolverDnXsyevd_bufferSize", [&](size_t* on_device, size_t* on_host) {
    return solver().syevd_size(handle, solver_params(), call.mode, call.part, a.rows, type, a.data, a.leading,
                               real_type, values, type, on_device, on_host);
  });
  for (int64_t b = 0; b < a.count; ++b)
    check_solver(solver().syevd(handle, solver_params(), call.mode, call.part, a.rows, type, a.at(b), a.leading,
                                real_type, numbers_at(values, real, b * a.rows), type, work.device(),
                                work.device_bytes(), work.host(), work.host_bytes(), info + b),
                 "cusolverDnXsyevd");
}

// --- Singular values

// What is wanted of A = U S Vh; the vectors may be null.
struct SvdProblem {
  DType dtype;
  MatrixBatch a;
  const MatrixBatch* u;
  void* values;
  const MatrixBatch* vh;
  int32_t* info;

  DType real() const { return to_real(dtype); }
  int64_t rank() const { return std::min(a.rows, a.cols); }
  cusolverEigMode_t mode() const { return u ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR; }
  bool is_full() const { return u && (u->cols > rank() || vh->rows > rank()); }
  // A copy of A (or of A^T), without numbers that are not finite, of which `bad` tells.
  OwnColumns finite_copy(bool flipped, int32_t* bad) const {
    OwnColumns copy(dtype, flipped ? transposed(a) : a);
    replace_not_finite(dtype, copy->batch(), Part::kAll, bad);
    return copy;
  }
};
// The first columns of `from`, as many as `to` has.
void copy_first_columns(DType dtype, const MatrixBatch& to, MatrixBatch from, bool conj = false) {
  from.cols = to.cols;
  copy_matrices(dtype, to, from, conj);
}

// By Q R. The library takes tall matrices: a wide one is A^T = U S Vh, so that A = Vh^T S U^T.
void svd_by_qr(const SvdProblem& p) {
  const bool flipped = p.a.rows < p.a.cols;
  const Buffer bad = infos(p.a.count);
  const OwnColumns a = p.finite_copy(flipped, bad.as<int32_t>());
  const int64_t m = a->rows, n = a->cols;
  const MatrixBatch nothing{nullptr, p.a.count, 0, 0, 1, 1, 0};
  const MatrixBatch left = !p.u      ? nothing
                           : flipped ? transposed(*p.vh)
                                     : *p.u,
                    right = !p.u      ? nothing
                            : flipped ? transposed(*p.u)
                                      : *p.vh;
  const OwnColumns u(p.dtype, p.a.count, p.u ? m : 0, left.cols), vt(p.dtype, p.a.count, p.u ? n : 0, n);
  const signed char job_u = !p.u ? 'N' : left.cols == m ? 'A' : 'S', job_vt = p.u ? 'A' : 'N';
  const cudaDataType type = solver_type(p.dtype), real = solver_type(p.real());
  const cusolverDnHandle_t handle = solver_handle();
  WorkSpace work("cusolverDnXgesvd_bufferSize", [&](size_t* on_device, size_t* on_host) {
    return solver().gesvd_size(handle, solver_params(), job_u, job_vt, m, n, type, a->data, m, real, p.values, type,
                               u->data, m, type, vt->data, n, type, on_device, on_host);
  });
  for (int64_t b = 0; b < p.a.count; ++b)
    check_solver(solver().gesvd(handle, solver_params(), job_u, job_vt, m, n, type, a->at(b), m, real,
                                numbers_at(p.values, p.real(), b * n), type, u->at(b), m, type, vt->at(b), n, type,
                                work.device(), work.device_bytes(), work.host(), work.host_bytes(), p.info + b),
                 "cusolverDnXgesvd");
  merge_infos(bad.as<int32_t>(), p.a.count, p.info);
  if (!p.u) return;
  copy_matrices(p.dtype, left, u->batch());
  copy_matrices(p.dtype, right, vt->batch());
}

// By Jacobi's rotations, which give V, not its adjoint.
void svd_by_jacobi(const SvdProblem& p) {
  const Buffer bad = infos(p.a.count);
  const OwnColumns a = p.finite_copy(false, bad.as<int32_t>());
  const bool at_once = p.a.count > 1 && std::max(a->rows, a->cols) <= kJacobiSize;
  const bool full = at_once || p.is_full();
  const int64_t m = a->rows, n = a->cols, left = full ? m : p.rank(), right = full ? n : p.rank();
  const OwnColumns u(p.dtype, p.a.count, p.u ? m : 0, left), v(p.dtype, p.a.count, p.u ? n : 0, right);
  with_element_type(p.dtype, [&](auto t) {
    using T = typename decltype(t)::type;
    using R = typename decltype(t)::real;
    const auto& f = solver().of<T>();
    const cusolverDnHandle_t handle = solver_handle();
    const int rows = small_size(m), cols = small_size(n), count = small_size(p.a.count);
    const auto data = [](const OwnColumns& c, int64_t b) { return static_cast<T*>(c->at(b)); };
    R* const s = static_cast<R*>(p.values);
    const gesvdjInfo_t settings = gesvdj_settings();
    if (at_once) {
      const ElementSpace<T> work("cusolverDn<T>gesvdjBatched_bufferSize", [&](int* elements) {
        return f.gesvdj_batched_size(handle, p.mode(), rows, cols, data(a, 0), rows, s, data(u, 0), rows, data(v, 0),
                                     cols, elements, settings, count);
      });
      check_solver(f.gesvdj_batched(handle, p.mode(), rows, cols, data(a, 0), rows, s, data(u, 0), rows, data(v, 0),
                                    cols, work.get(), work.size(), p.info, settings, count),
                   "cusolverDn<T>gesvdjBatched");
      return;
    }
    const int economical = full ? 0 : 1;
    const ElementSpace<T> work("cusolverDn<T>gesvdj_bufferSize", [&](int* elements) {
      return f.gesvdj_size(handle, p.mode(), economical, rows, cols, data(a, 0), rows, s, data(u, 0), rows, data(v, 0),
                           cols, elements, settings);
    });
    for (int64_t b = 0; b < p.a.count; ++b)
      check_solver(f.gesvdj(handle, p.mode(), economical, rows, cols, data(a, b), rows, s + b * p.rank(), data(u, b),
                            rows, data(v, b), cols, work.get(), work.size(), p.info + b, settings),
                   "cusolverDn<T>gesvdj");
  });
  merge_infos(bad.as<int32_t>(), p.a.count, p.info);
  if (!p.u) return;
  copy_first_columns(p.dtype, *p.u, u->batch());
  copy_first_columns(p.dtype, transposed(*p.vh), v->batch(), true);
}

// Orthonormal columns beside those that `to`'s first ones become.
void complete_columns(const Columns& from, const MatrixBatch& to) {
  const OwnColumns q(from.dtype, to.count, to.rows, to.cols);
  MatrixBatch first = q->batch();
  first.cols = from.cols;
  copy_matrices(from.dtype, first, from.batch());
  if (to.cols > from.cols) {
    const OwnColumns tau(from.dtype, to.count, from.cols, 1);
    Columns known = *q;
    known.cols = from.cols;
    factor_qr(known, tau->data, from.cols);
    make_q(*q, tau->data, from.cols, from.cols);
    copy_matrices(from.dtype, first, from.batch());
  }
  copy_matrices(from.dtype, to, q->batch());
}

// By the eigenvalues of A^H A, approximately, for tall matrices. A wide one: see svd_by_qr; A^T = U S V^H.
void svd_approximately(const SvdProblem& p) {
  const bool flipped = p.a.rows < p.a.cols;
  const Buffer bad = infos(p.a.count);
  const OwnColumns a = p.finite_copy(flipped, bad.as<int32_t>());
  const int64_t m = a->rows, n = a->cols;
  const OwnColumns u(p.dtype, p.a.count, m, n), v(p.dtype, p.a.count, n, n);
  std::vector<double> residuals(static_cast<size_t>(p.a.count));
  with_element_type(p.dtype, [&](auto t) {
    using T = typename decltype(t)::type;
    using R = typename decltype(t)::real;
    const auto& f = solver().of<T>();
    const cusolverDnHandle_t handle = solver_handle();
    const int rows = small_size(m), cols = small_size(n), count = small_size(p.a.count);
    T *const data = static_cast<T*>(a->data), *const left = static_cast<T*>(u->data),
             *const right = static_cast<T*>(v->data);
    R* const s = static_cast<R*>(p.values);
    const ElementSpace<T> work("cusolverDn<T>gesvdaStridedBatched_bufferSize", [&](int* elements) {
      return f.gesvda_batched_size(handle, p.mode(), cols, rows, cols, data, rows, m * n, s, n, left, rows, m * n,
                                   right, cols, n * n, elements, count);
    });
    check_solver(f.gesvda_batched(handle, p.mode(), cols, rows, cols, data, rows, m * n, s, n, left, rows, m * n, right,
                                  cols, n * n, work.get(), work.size(), p.info, residuals.data(), count),
                 "cusolverDn<T>gesvdaStridedBatched");
  });
  merge_infos(bad.as<int32_t>(), p.a.count, p.info);
  if (!p.u) return;
  if (flipped) {  // A = conj(V) S U^T
    complete_columns(*u, transposed(*p.vh));
    copy_matrices(p.dtype, *p.u, v->batch(), true);
  } else {
    complete_columns(*u, *p.u);
    copy_matrices(p.dtype, transposed(*p.vh), v->batch(), true);
  }
}

// Matrix b of a problem.
SvdProblem only(const SvdProblem& p, int64_t b, MatrixBatch* u, MatrixBatch* vh) {
  const auto one = [&](MatrixBatch m) {
    m.data = static_cast<char*>(m.data) + b * m.batch_stride * item_size(p.dtype);
    m.count = 1;
    return m;
  };
  if (p.u) {
    *u = one(*p.u);
    *vh = one(*p.vh);
  }
  return {p.dtype,   one(p.a), p.u ? u : nullptr, numbers_at(p.values, p.real(), b * p.rank()), p.u ? vh : nullptr,
          p.info + b};
}

// What Jacobi's method has not brought to an end is done once more by Q R.
void svd_by_any(const SvdProblem& p) {
  svd_by_jacobi(p);
  std::vector<int32_t> info(static_cast<size_t>(p.a.count));
  copy_to_host(info.data(), p.info, info.size() * sizeof(int32_t));
  for (int64_t b = 0; b < p.a.count; ++b) {
    if (info[static_cast<size_t>(b)] <= 0) continue;
    MatrixBatch u, vh;
    svd_by_qr(only(p, b, &u, &vh));
  }
}

}  // namespace

void run_eigh(DType dtype, const MatrixBatch& a, bool lower, void* values, const MatrixBatch* vectors, int32_t* info) {
  if (a.count == 0) return;
  if (a.rows == 0) return set_success(info, a.count);
  const Buffer bad = infos(a.count);
  const OwnColumns own(dtype, a);
  replace_not_finite(dtype, own->batch(), lower ? Part::kLower : Part::kUpper, bad.as<int32_t>());
  const EighCall call{vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR,
                      lower ? CUBLAS_FILL_MODE_LOWER : CUBLAS_FILL_MODE_UPPER};
  if (a.count > 1 && a.rows <= kJacobiSize)
    eigh_by_jacobi(call, *own, values, info);
  else if (a.count > 1 && a.rows <= kBatchedSize && solver().syev_batched_size && solver().syev_batched)
    eigh_at_once(call, *own, values, info);
  else
    eigh_each(call, *own, values, info);
  merge_infos(bad.as<int32_t>(), a.count, info);
  if (vectors) copy_matrices(dtype, *vectors, own->batch());
}

void run_svd_by(SvdDriver driver, DType dtype, const MatrixBatch& a, const MatrixBatch* u, void* values,
                const MatrixBatch* vh, int32_t* info) {
  if (a.count == 0) return;
  const SvdProblem p{dtype, a, u, values, vh, info};
  if (p.rank() == 0) {
    set_success(info, a.count);
    if (u) set_identity(dtype, *u);
    if (vh) set_identity(dtype, *vh);
    return;
  }
  switch (driver) {
    case SvdDriver::kGesvd:
      return svd_by_qr(p);
    case SvdDriver::kGesvdj:
      return svd_by_jacobi(p);
    case SvdDriver::kGesvda:
      return svd_approximately(p);
    case SvdDriver::kAny:
      return svd_by_any(p);
  }
}

void run_svd(DType dtype, const MatrixBatch& a, const MatrixBatch* u, void* values, const MatrixBatch* vh,
             int32_t* info) {
  run_svd_by(SvdDriver::kAny, dtype, a, u, values, vh, info);
}

}  // namespace tessera::cuda
