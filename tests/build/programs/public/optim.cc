#include <cstdio>

#include "tessera/optim.h"
#include "tessera/tensor.h"

int main() {
  using tessera::Tensor;
  Tensor x = tessera::ones({3});
  x.requires_grad_();
  tessera::optim::SGD sgd({x}, {.lr = 0.5});
  x.set_grad(tessera::ones({3}));
  sgd.step();
  std::printf("%g\n", x.sum().item<double>());
}
