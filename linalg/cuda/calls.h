// Calls of cuSOLVER and cuBLAS that several engines make, on matrices that lie by columns.
#pragma once

#include "linalg/cuda/columns.h"
#include "linalg/cuda/solver.h"

namespace tessera::cuda {

// Up to which size the libraries work on all matrices of a batch at once; larger ones fill the device one after the
// other.
inline constexpr int64_t kSmallMatrix = 256;
// Whether cuBLAS does so where cuSOLVER could work on one after the other.
inline bool takes_at_once(int64_t count, int64_t size) {
  return count > 1 && size <= kSmallMatrix && linalg_library() == LinalgLibrary::kDefault;
}

struct TriangleCall {
  cublasSideMode_t side;
  cublasFillMode_t part;
  cublasOperation_t op;
  cublasDiagType_t diagonal;
};
// x = op(a)^-1 x, or x op(a)^-1 (side), for each matrix of x; a.stride may be 0.
void solve_triangle(const TriangleCall& call, const Columns& a, const Columns& x);

// Q R as LAPACK's geqrf; tau: min(rows, cols) numbers for each matrix, `tau_stride` apart.
void factor_qr(const Columns& a, void* tau, int64_t tau_stride);
// The first q.cols columns of the product of so many reflections, at least one, which stand in q.
void make_q(const Columns& q, const void* tau, int64_t tau_stride, int64_t reflections);
// c = Q c, or (right) c Q; adjoint: of Q's conjugate transpose. v has the reflections.
void multiply_q(const Columns& v, const void* tau, int64_t tau_stride, int64_t reflections, const Columns& c, bool left,
                bool adjoint);

}  // namespace tessera::cuda
