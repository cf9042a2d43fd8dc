#include <cstdio>

#include "tessera/func.h"
#include "tessera/tensor.h"

int main() {
  using tessera::Tensor;
  const Tensor g = tessera::func::grad([](const Tensor& x) { return x.mul(x).sum(); })(tessera::ones({2}));
  std::printf("%g\n", g.sum().item<double>());
}
