#include <cstdio>

#include "tessera/jit.h"
#include "tessera/tensor.h"

int main() {
  try {
    tessera::jit::load("none.pt");
  } catch (const tessera::Error&) { std::printf("no file\n"); }
}
