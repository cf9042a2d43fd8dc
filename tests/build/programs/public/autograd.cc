#include <cstdio>

#include "tessera/autograd.h"
#include "tessera/tensor.h"

int main() {
  using tessera::Tensor;
  Tensor x = tessera::ones({3});
  x.requires_grad_();
  x.mul(x).sum().backward();
  std::printf("%g\n", x.grad().sum().item<double>());
}
