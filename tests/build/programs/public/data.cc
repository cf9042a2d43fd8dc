#include <cstdio>

#include "tessera/data.h"
#include "tessera/tensor.h"

int main() {
  tessera::data::TensorDataset rows({tessera::ones({6, 2})});
  int n = 0;
  for (const auto& batch : tessera::data::DataLoader(rows, {.batch_size = 2})) n += static_cast<int>(batch[0].size(0));
  std::printf("%d\n", n);
}
