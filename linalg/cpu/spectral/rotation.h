// Plane rotations, one by one in double precision, and sequences of them on rows.
#pragma once

#include <cmath>
#include <type_traits>

#include "linalg/cpu/spectral/rows.h"
#include "tensor/cpu/support/scratch.h"

namespace tessera::cpu::internal {

// c x + s z = r, c z - s x = 0.
struct Rotation {
  double c, s, r;
};

// For numbers near 1 or smaller: where squares vanish there is nothing to rotate.
inline Rotation rotation(double x, double z) {
  const double square = x * x + z * z;
  if (square < 1e-280) {
    if (z == 0) return {1, 0, x};
    const double r = std::hypot(x, z);
    return {x / r, z / r, r};
  }
  const double r = std::sqrt(square), inverse = 1 / r;
  return {x * inverse, z * inverse, r};
}

// The rotations of one sweep.
class Rotations {
 public:
  explicit Rotations(int64_t capacity) : capacity_(capacity), memory_(4 * capacity) {}
  void set(int64_t k, const Rotation& g) {
    memory_[k] = g.c;
    memory_[capacity_ + k] = g.s;
  }
  // See rotate_rows.
  void apply(double* first, int64_t stride, int64_t width, int64_t count) const {
    rotate_rows(first, stride, width, count, memory_.get(), memory_.get() + capacity_);
  }
  void apply(float* first, int64_t stride, int64_t width, int64_t count) const {
    float* const narrow = reinterpret_cast<float*>(memory_.get() + 2 * capacity_);
    for (int64_t k = 0; k < count; ++k) {
      narrow[k] = static_cast<float>(memory_[k]);
      narrow[capacity_ + k] = static_cast<float>(memory_[capacity_ + k]);
    }
    rotate_rows(first, stride, width, count, narrow, narrow + capacity_);
  }

 private:
  int64_t capacity_;
  ScratchArray<double> memory_;
};

}  // namespace tessera::cpu::internal
