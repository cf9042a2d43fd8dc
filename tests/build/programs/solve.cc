// Solves a system of equations and prints the residual.
#include <cstdio>

#include "linalg/linalg.h"
#include "tensor/ops/api.h"

int main() {
  using tessera::Tensor;
  const Tensor A =
      tessera::add(tessera::ones({3, 3}, tessera::DType::kFloat64), tessera::eye(3, tessera::DType::kFloat64));
  const Tensor b = tessera::arange(3, tessera::DType::kFloat64);
  const Tensor x = tessera::linalg::solve(A, b);
  std::printf("%.17g\n", tessera::linalg::vector_norm(tessera::sub(tessera::matmul(A, x), b)).item<double>());
  return 0;
}
