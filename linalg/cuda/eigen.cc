// Eigenvalues of general matrices.
#include <algorithm>

#include "linalg/cuda/host.h"
#include "linalg/cuda/kernels.h"
#include "linalg/cuda/solver.h"

namespace tessera::cuda {
namespace {

HostEngines g_host_engines;

void eig_on_host(DType dtype, const MatrixBatch& a, void* w, const MatrixBatch* v, int32_t* info) {
  const DType complex = to_complex(dtype);
  HostMatrices from(dtype, a);
  HostNumbers<char> values(static_cast<char*>(w), a.count * a.rows * item_size(complex));
  HostNumbers<int32_t> infos(info, a.count);
  if (v) {
    HostMatrices vectors(complex, *v);
    const MatrixBatch to = vectors.batch();
    host_engine (&HostEngines::run_eig)(dtype, from.batch(), values.data(), &to, infos.data());
    vectors.finish();
  } else {
    host_engine (&HostEngines::run_eig)(dtype, from.batch(), values.data(), nullptr, infos.data());
  }
  values.finish();
  infos.finish();
}

// w: complex. vectors: of a's dtype, or nothing.
void eig_each(const Columns& a, void* w, const Columns* vectors, int32_t* info) {
  const DType complex = to_complex(a.dtype);
  const cudaDataType type = solver_type(a.dtype), complex_type = solver_type(complex);
  const cusolverEigMode_t mode = vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;
  constexpr cusolverEigMode_t kNone = CUSOLVER_EIG_MODE_NOVECTOR;  // left ones are not implemented there
  const int64_t n = a.rows;
  const cusolverDnHandle_t handle = solver_handle();
  const auto right = [&](int64_t b) { return vectors ? vectors->at(b) : nullptr; };
  WorkSpace work("cusolverDnXgeev_bufferSize", [&](size_t* on_device, size_t* on_host) {
    return solver().geev_size(handle, solver_params(), kNone, mode, n, type, a.data, a.leading, complex_type, w, type,
                              nullptr, n, type, right(0), n, type, on_device, on_host);
  });
  for (int64_t b = 0; b < a.count; ++b)
    check_solver(solver().geev(handle, solver_params(), kNone, mode, n, type, a.at(b), a.leading, complex_type,
                               static_cast<char*>(w) + b * n * item_size(complex), type, nullptr, n, type, right(b), n,
                               type, work.device(), work.device_bytes(), work.host(), work.host_bytes(), info + b),
                 "cusolverDnXgeev");
}

}  // namespace

void set_host_engines(const HostEngines& engines) { g_host_engines = engines; }
const HostEngines& host_engines() { return g_host_engines; }

void run_eig(DType dtype, MatrixBatch a, void* w, const MatrixBatch* v, int32_t* info) {
  const int64_t n = a.rows;
  if (a.count == 0) return;
  if (n == 0) return fill_bytes(info, 0, static_cast<size_t>(a.count) * sizeof *info);
  if (!solver().geev || !solver().geev_size) return eig_on_host(dtype, a, w, v, info);
  const Buffer bad(static_cast<size_t>(a.count) * sizeof(int32_t));
  const OwnColumns own(dtype, a), vectors(dtype, a.count, v ? n : 0, n);
  replace_not_finite(dtype, own->batch(), Part::kAll, bad.as<int32_t>());
  eig_each(*own, w, v ? &*vectors : nullptr, info);
  merge_infos(bad.as<int32_t>(), a.count, info);
  if (v && is_complex(dtype)) copy_matrices(dtype, *v, vectors->batch());
  if (v && !is_complex(dtype)) unpack_eigenvectors(dtype, *vectors, w, *v);
  spoil_failed(to_complex(dtype), info, a.count, n, w, v);
}

}  // namespace tessera::cuda
