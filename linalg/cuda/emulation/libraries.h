// The functions of cuSOLVER, and cuBLAS's of matrices, on the emulated device: the CPU's engines, after a check that
// the arguments are as documented (sizes, leading dimensions, arrays that lie on the device as long as they must be).
#pragma once

#include "linalg/cuda/solver.h"

namespace tessera::cuda::emulation {

Solver solver_functions();
MatrixBlas matrix_blas_functions();

// For tests: so many calls of gesvdj from now on report that they did not converge.
void fail_next_jacobi(int calls);
// How often a function of that name has been called.
int solver_calls(const char* name);

}  // namespace tessera::cuda::emulation
