#pragma once

#include <limits>

#include "masked/all_ops.h"

namespace tessera {

// What an element that does not count is worth in a norm of this order.
inline double masked_norm_fill(double order) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return order == -kInfinity ? kInfinity : 0;
}

}  // namespace tessera
