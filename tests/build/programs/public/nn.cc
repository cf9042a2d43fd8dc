#include <cstdio>

#include "tessera/nn.h"
#include "tessera/tensor.h"

int main() {
  tessera::nn::Linear layer(4, 2);
  std::printf("%d\n", static_cast<int>(layer(tessera::ones({1, 4})).numel()));
}
