// Solves a system of equations and prints the largest residual.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "linalg/linalg.h"
#include "tensor/ops/api.h"

int main() {
  using tessera::DType;
  using tessera::Tensor;
  constexpr int64_t kRows = 3;
  const Tensor A = tessera::empty({kRows, kRows}, DType::kFloat64), b = tessera::empty({kRows}, DType::kFloat64);
  for (int64_t i = 0; i < kRows; ++i) {
    b.data<double>()[i] = static_cast<double>(i);
    for (int64_t j = 0; j < kRows; ++j) A.data<double>()[i * kRows + j] = i == j ? 2 : 1;
  }
  const Tensor x = tessera::linalg::solve(A, b);
  double worst = 0;
  for (int64_t i = 0; i < kRows; ++i) {
    double residual = b.data<double>()[i];
    for (int64_t j = 0; j < kRows; ++j) residual -= A.data<double>()[i * kRows + j] * x.data<double>()[j];
    worst = std::max(worst, std::abs(residual));
  }
  std::printf("%.17g\n", worst);
  return 0;
}
