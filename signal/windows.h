// Window functions: each a formula of the position in a window of N points.
#pragma once

#include <optional>
#include <span>

#include "tensor/core/tensor.h"

namespace tessera::signal {

// Which window, for messages and rules: those of torch.* (every floating dtype; RuntimeError), and those of
// torch.signal.windows (float32 and float64, strided; ValueError).
struct Window {
  const char* name;
  bool strict;
};

// The first `points` points. Periodic windows are symmetric ones of one point more, without the last. One point: 1.
struct Points {
  int64_t points;
  bool periodic;
  std::optional<DType> dtype;
  std::optional<Layout> layout;
  std::optional<Device> device;
};

// Of position k of N: sum_i (-1)^i a[i] cos(2 pi i k / (N - 1)).
Tensor cosines(const Window& w, const Points& p, std::span<const double> a);
// 1 - |2 k / (N - 1) - 1|
Tensor bartlett(const Window& w, const Points& p);
// I0(beta sqrt(1 - (2 k / (N - 1) - 1)^2)) / I0(beta). ValueError: beta < 0
Tensor kaiser(const Window& w, const Points& p, double beta);
// sin(pi (k + 1 / 2) / N)
Tensor cosine(const Window& w, const Points& p);
// exp(-|k - center| / tau), center (N - 1) / 2 by default. ValueError: tau <= 0, a center of a symmetric window
Tensor exponential(const Window& w, const Points& p, std::optional<double> center, double tau);
// exp(-((k - (N - 1) / 2) / std)^2 / 2). ValueError: std <= 0
Tensor gaussian(const Window& w, const Points& p, double std);

}  // namespace tessera::signal
