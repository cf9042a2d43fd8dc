// Transforms a line and prints its mean.
#include <cstdio>

#include "fft/fft.h"
#include "tensor/ops/api.h"

int main() {
  const tessera::Tensor spectrum = tessera::fft::rfft(tessera::arange(12, tessera::DType::kFloat64));
  std::printf("%.17g\n", tessera::real(spectrum.select(0, 0)).item<double>() / 12);
  return 0;
}
