#include <cstdio>

#include "tessera/fft.h"
#include "tessera/tensor.h"

int main() { std::printf("%d\n", static_cast<int>(tessera::fft::rfft(tessera::ones({8})).numel())); }
