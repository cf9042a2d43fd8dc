#include "tessera/export.h"

#include <cstdio>

#include "tessera/tensor.h"

int main(int argc, char** argv) {
  try {
    const tessera::exported::Program program = tessera::exported::load(argc > 1 ? argv[1] : "none.pt2");
    std::printf("%zu results\n", program.run(*program.example_inputs()).size());
  } catch (const tessera::Error&) { std::printf("no file\n"); }
}
