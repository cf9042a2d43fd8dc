// Single draws that several samplers share. The caller holds the generator's mutex.
#pragma once

#include <cmath>
#include <cstdint>

#include "tensor/core/generator.h"
#include "tensor/cpu/random_walk.h"

namespace tessera::cpu::random_internal {

// In [0, 1), with 53 random bits.
inline double draw_double(CpuGeneratorImpl& g) { return static_cast<double>(static_cast<int64_t>(g.random64() & ((uint64_t{1} << 53) - 1))) * 0x1p-53; }

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
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t x = (static_cast<uint64_t>(words[2 * i]) << 32 | words[2 * i + 1]) & ((uint64_t{1} << 53) - 1);
    out[i] = static_cast<double>(static_cast<int64_t>(x)) * 0x1p-53;
  }
}

// n <= kChunk numbers in [0, 1) from the low `digits` bits of one 32-bit number each.
inline void draw_floats(CpuGeneratorImpl& g, int digits, float* out, int64_t n) {
  uint32_t words[kChunk];
  g.fill(words, n);
  const uint32_t mask = (1u << digits) - 1;
  const float scale = 1.0f / static_cast<float>(1u << digits);
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(static_cast<int32_t>(words[i] & mask)) * scale;
}

// x % size without a division (D. Lemire, O. Kaser, N. Kurz, "Faster remainder by direct computation", Softw. Pract. Exper. 49, 2019).
class Remainder {
 public:
  explicit Remainder(uint32_t size) : size_(size), inverse_(UINT64_MAX / size + 1) {}
  uint32_t operator()(uint32_t x) const { return static_cast<uint32_t>(static_cast<unsigned __int128>(inverse_ * x) * size_ >> 64); }

 private:
  uint32_t size_;
  uint64_t inverse_;  // 2^64 / size, rounded up
};

// Significant bits of a floating dtype.
inline int digits_of(DType t) { return t == DType::kFloat16 ? 11 : t == DType::kBFloat16 ? 8 : t == DType::kFloat32 ? 24 : 53; }

}  // namespace tessera::cpu::random_internal
