// Windows that other libraries' windows are, too.
#pragma once

#include <optional>
#include <span>

#include "tensor/core/tensor.h"

namespace tessera::kernels {

// Of position i of N: sum_j (-1)^j a[j] cos(2 pi i j / (N - 1)), computed in double; the first `length` points of N,
// which is length, or length + 1 if periodic. One point: 1. Error: length < 0, a dtype that is not floating.
Tensor cosine_window(int64_t length, bool periodic, std::span<const double> a, std::optional<DType> dtype,
                     std::optional<Device> device);

}  // namespace tessera::kernels
