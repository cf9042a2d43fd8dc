// Window functions: each a formula of the position in a window of N points.
#pragma once

#include <optional>
#include <span>

#include "tensor/core/tensor.h"

namespace tessera::signal {

// The first `points` points of a window. Periodic windows are symmetric ones of one point more, without the last. One
// point: 1. ValueError: points < 0, a dtype other than float32 and float64, a layout other than strided.
struct Points {
  const char* name;  // of the function, for messages
  int64_t points;
  bool periodic;
  std::optional<DType> dtype;
  std::optional<Layout> layout;
  std::optional<Device> device;
};

// Of position k of N: sum_i (-1)^i a[i] cos(2 pi i k / (N - 1)).
Tensor cosines(const Points& p, std::span<const double> a);
// 1 - |2 k / (N - 1) - 1|
Tensor bartlett(const Points& p);
// I0(beta sqrt(1 - (2 k / (N - 1) - 1)^2)) / I0(beta). ValueError: beta < 0
Tensor kaiser(const Points& p, double beta);
// sin(pi (k + 1 / 2) / N)
Tensor cosine(const Points& p);
// exp(-|k - center| / tau), center (N - 1) / 2 by default. ValueError: tau <= 0, a center of a symmetric window
Tensor exponential(const Points& p, std::optional<double> center, double tau);
// exp(-((k - (N - 1) / 2) / std)^2 / 2). ValueError: std <= 0
Tensor gaussian(const Points& p, double std);

}  // namespace tessera::signal
