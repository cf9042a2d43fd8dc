#include <cstdio>

#include "tessera/tensor.h"

int main() {
  using tessera::DType;
  std::printf("%g\n", tessera::arange(4, DType::kFloat32).mul(2).sum().item<double>());
}
