#include <cstdio>

#include "tessera/linalg.h"
#include "tessera/tensor.h"

int main() {
  using tessera::DType;
  std::printf("%g\n", tessera::linalg::det(tessera::eye(3, DType::kFloat64)).item<double>());
}
