// When Euclidean distances are computed from a matrix product.
#pragma once

#include <cstdint>
#include <optional>

namespace tessera {

inline bool by_product(int64_t rows1, int64_t rows2, double p, std::optional<int64_t> compute_mode) {
  const int64_t mode = compute_mode.value_or(0);
  return p == 2 && (mode == 1 || (mode == 0 && (rows1 > 25 || rows2 > 25)));
}

}  // namespace tessera
