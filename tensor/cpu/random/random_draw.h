// Single draws that several samplers share. The caller holds the generator's mutex.
#pragma once

#include <cmath>
#include <cstdint>

#include "tensor/core/generator/generator.h"
#include "tensor/cpu/random/random_transform.h"
#include "tensor/cpu/random/random_walk.h"

namespace tessera::cpu::random_internal {

// In [0, 1), with 53 random bits.
inline double draw_double(CpuGeneratorImpl& g) {
  return static_cast<double>(static_cast<int64_t>(g.random64() & ((uint64_t{1} << 53) - 1))) * 0x1p-53;
}

// N(0, 1). Numbers come in pairs; the second waits in the generator.
inline double draw_normal(CpuGeneratorImpl& g) {
  if (g.next_double_normal) {
    const double r = *g.next_double_normal;
    g.next_double_normal.reset();
    return r;
  }
  const double u1 = draw_double(g);
  const double u2 = draw_double(g);
  const double radius = std::sqrt(-2 * std::log1p(-u2));
  const double theta = 2 * M_PI * u1;
  g.next_double_normal = radius * std::sin(theta);
  return radius * std::cos(theta);
}

// n <= kChunk numbers in [0, 1) with 53 random bits, two 32-bit numbers each, the high one first.
inline void draw_doubles(CpuGeneratorImpl& g, double* out, int64_t n) {
  uint32_t words[2 * kChunk];
  g.fill(words, 2 * n);
  unit_doubles(words, n, out);
}

// n <= kChunk numbers in [0, 1) from the low `digits` bits of one 32-bit number each.
inline void draw_floats(CpuGeneratorImpl& g, int digits, float* out, int64_t n) {
  uint32_t words[kChunk];
  g.fill(words, n);
  unit_floats(words, n, digits, out);
}

// Significant bits of a floating dtype.
inline int digits_of(DType t) {
  return t == DType::kFloat16 ? 11 : t == DType::kBFloat16 ? 8 : t == DType::kFloat32 ? 24 : 53;
}

}  // namespace tessera::cpu::random_internal
