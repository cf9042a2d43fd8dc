// Which frequencies a signal is made of.
//
//   bazel run //examples/spectrum:spectrum
#include <cmath>
#include <complex>
#include <cstdio>
#include <numbers>

#include "fft/fft.h"
#include "tensor/ops/api.h"

int main() {
  constexpr int64_t kSamples = 256;
  const tessera::Tensor signal = tessera::empty({kSamples}, tessera::DType::kFloat32);
  for (int64_t i = 0; i < kSamples; ++i) {
    const double turn = 2 * std::numbers::pi * static_cast<double>(i) / kSamples;
    signal.data<float>()[i] = static_cast<float>(std::sin(5 * turn) + 0.5 * std::cos(20 * turn));
  }
  const tessera::Tensor spectrum = tessera::fft::rfft(signal);
  for (int64_t k = 0; k < spectrum.size(0); ++k) {
    const float amplitude = std::abs(spectrum.data<std::complex<float>>()[k]) * 2 / kSamples;
    if (amplitude > 0.01f) std::printf("%d cycles: %.2f\n", static_cast<int>(k), static_cast<double>(amplitude));
  }
}
