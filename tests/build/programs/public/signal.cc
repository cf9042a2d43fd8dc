#include <cstdio>

#include "tessera/signal.h"
#include "tessera/tensor.h"

int main() { std::printf("%g\n", tessera::hann_window(4).sum().item<double>()); }
