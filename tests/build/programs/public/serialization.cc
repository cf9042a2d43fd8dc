#include <cstdio>

#include "tessera/serialization.h"
#include "tessera/tensor.h"

int main(int argc, char** argv) {
  if (argc < 2) return 1;
  const tessera::serialization::StateDict state{{"x", tessera::ones({2})}};
  tessera::serialization::save(state, argv[1]);
  std::printf("%d\n", static_cast<int>(tessera::serialization::load_state_dict(argv[1]).size()));
}
