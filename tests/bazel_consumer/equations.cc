// Solves a system of equations and prints the largest error.
#include <cstdio>

#include "tessera/linalg.h"
#include "tessera/tensor.h"

int main() {
  using tessera::DType, tessera::Tensor;
  const Tensor a = tessera::ones({4, 4}, DType::kFloat64).add(tessera::eye(4, DType::kFloat64));
  const Tensor x = tessera::arange(4, DType::kFloat64);
  const Tensor found = tessera::linalg::solve(a, a.matmul(x));
  std::printf("%s\n", found.sub(x).abs().max().item<double>() < 1e-12 ? "solved" : "wrong");
}
