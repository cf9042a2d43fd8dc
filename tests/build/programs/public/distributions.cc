#include <cstdio>

#include "tessera/distributions.h"
#include "tessera/tensor.h"

int main() {
  const tessera::distributions::Normal normal(tessera::zeros({2}), tessera::ones({2}));
  std::printf("%g\n", normal.log_prob(tessera::zeros({2})).sum().item<double>());
}
