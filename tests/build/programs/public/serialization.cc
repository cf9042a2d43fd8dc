#include <cstdio>

#include "tessera/serialization.h"
#include "tessera/tensor.h"

int main() {
  using tessera::DType;
  const auto bytes = tessera::serialization::save(tessera::serialization::StateDict{{"x", tessera::empty_kernel({}, DType::kFloat32)}});
  std::printf("%d\n", static_cast<int>(bytes.size() > 100));
}
