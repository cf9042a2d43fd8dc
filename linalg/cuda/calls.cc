#include "linalg/cuda/calls.h"

#include <algorithm>

#include "linalg/cuda/kernels.h"

namespace tessera::cuda {
namespace {

template <class T>
T* element(void* p, int64_t i) {
  return static_cast<T*>(p) + i;
}
template <class T>
const T* element(const void* p, int64_t i) {
  return static_cast<const T*>(p) + i;
}

}  // namespace

void solve_triangle(const TriangleCall& call, const Columns& a, const Columns& x) {
  with_element_type(x.dtype, [&](auto t) {
    using T = typename decltype(t)::type;
    const auto& f = matrix_blas().of<T>();
    const T one = decltype(t)::one();
    if (x.count > 1 && a.rows <= kSmallMatrix) {
      const Buffer triangles = addresses(a.dtype, a.data, x.count, a.stride), right = addresses(x);
      check_blas(f.trsm_batched(blas_handle(), call.side, call.part, call.op, call.diagonal, x.rows, x.cols, &one,
                                triangles.as<const T*>(), a.leading, right.as<T*>(), x.leading, x.count),
                 "cublas<T>trsmBatched");
      return;
    }
    for (int64_t b = 0; b < x.count; ++b)
      check_blas(f.trsm(blas_handle(), call.side, call.part, call.op, call.diagonal, x.rows, x.cols, &one,
                        static_cast<const T*>(a.at(b)), a.leading, static_cast<T*>(x.at(b)), x.leading),
                 "cublas<T>trsm");
  });
}

void factor_qr(const Columns& a, void* tau, int64_t tau_stride) {
  const bool at_once = takes_at_once(a.count, std::max(a.rows, a.cols));
  with_element_type(a.dtype, [&](auto t) {
    using T = typename decltype(t)::type;
    if (at_once) {
      const Buffer matrices = addresses(a), scales = addresses(a.dtype, tau, a.count, tau_stride);
      int wrong = 0;
      check_blas(
          matrix_blas().of<T>().geqrf_batched(blas_handle(), small_size(a.rows), small_size(a.cols), matrices.as<T*>(),
                                              small_size(a.leading), scales.as<T*>(), &wrong, small_size(a.count)),
          "cublas<T>geqrfBatched");
      return;
    }
    const cudaDataType type = solver_type(a.dtype);
    const cusolverDnHandle_t handle = solver_handle();
    WorkSpace work("cusolverDnXgeqrf_bufferSize", [&](size_t* on_device, size_t* on_host) {
      return solver().geqrf_size(handle, solver_params(), a.rows, a.cols, type, a.data, a.leading, type, tau, type,
                                 on_device, on_host);
    });
    const Buffer info(sizeof(int));
    for (int64_t b = 0; b < a.count; ++b)
      check_solver(solver().geqrf(handle, solver_params(), a.rows, a.cols, type, a.at(b), a.leading, type,
                                  element<T>(tau, b * tau_stride), type, work.device(), work.device_bytes(),
                                  work.host(), work.host_bytes(), info.as<int>()),
                   "cusolverDnXgeqrf");
  });
}

void make_q(const Columns& q, const void* tau, int64_t tau_stride, int64_t reflections) {
  const int m = small_size(q.rows), n = small_size(q.cols), k = small_size(reflections), lead = small_size(q.leading);
  with_element_type(q.dtype, [&](auto t) {
    using T = typename decltype(t)::type;
    const auto& f = solver().of<T>();
    const cusolverDnHandle_t handle = solver_handle();
    const ElementSpace<T> work("cusolverDn<T>orgqr_bufferSize", [&](int* elements) {
      return f.orgqr_size(handle, m, n, k, static_cast<const T*>(q.data), lead, static_cast<const T*>(tau), elements);
    });
    const Buffer info(sizeof(int));
    for (int64_t b = 0; b < q.count; ++b)
      check_solver(f.orgqr(handle, m, n, k, static_cast<T*>(q.at(b)), lead, element<T>(tau, b * tau_stride), work.get(),
                           work.size(), info.as<int>()),
                   "cusolverDn<T>orgqr");
  });
}

void multiply_q(const Columns& v, const void* tau, int64_t tau_stride, int64_t reflections, const Columns& c, bool left,
                bool adjoint) {
  const int m = small_size(c.rows), n = small_size(c.cols), k = small_size(reflections), v_lead = small_size(v.leading),
            c_lead = small_size(c.leading);
  const cublasSideMode_t side = left ? CUBLAS_SIDE_LEFT : CUBLAS_SIDE_RIGHT;
  with_element_type(c.dtype, [&](auto t) {
    using T = typename decltype(t)::type;
    const auto& f = solver().of<T>();
    const cublasOperation_t op = adjoint ? decltype(t)::adjoint : CUBLAS_OP_N;
    const cusolverDnHandle_t handle = solver_handle();
    const ElementSpace<T> work("cusolverDn<T>ormqr_bufferSize", [&](int* elements) {
      return f.ormqr_size(handle, side, op, m, n, k, static_cast<const T*>(v.data), v_lead, static_cast<const T*>(tau),
                          static_cast<const T*>(c.data), c_lead, elements);
    });
    const Buffer info(sizeof(int));
    for (int64_t b = 0; b < c.count; ++b)
      check_solver(
          f.ormqr(handle, side, op, m, n, k, static_cast<const T*>(v.at(b)), v_lead, element<T>(tau, b * tau_stride),
                  static_cast<T*>(c.at(b)), c_lead, work.get(), work.size(), info.as<int>()),
          "cusolverDn<T>ormqr");
  });
}

}  // namespace tessera::cuda
