// What samplers on devices share: the part of a generator's stream that a call takes, numbers of a few distributions
// from random words, elements of any real dtype.
#pragma once

#include <cstdint>
#include <limits>
#include <mutex>
#include <span>
#include <type_traits>

#include "tensor/core/generator/philox.h"
#include "tensor/cuda/support/types.h"
#include "tensor/cuda/support/walk.h"

namespace tessera::cuda {

// Streams of a generator, from a position on (in steps of four words).
struct Philox {
  uint64_t seed, position;
  const uint64_t* replayed =
      nullptr;  // in a graph: the seed and the position that this one adds to, given before each replay
  __device__ PhiloxWords words(uint64_t stream, uint64_t step) const {
    return replayed ? philox_at(replayed[0], stream, replayed[1] + position + step)
                    : philox_at(seed, stream, position + step);
  }
};
// Takes `steps` from each stream.
Philox reserve(const Generator& gen, uint64_t steps);

// How n elements get their words: element i belongs to stream i % lanes; a stream's step gives `per_step` elements. The
// number of lanes is that of the documented generator on a device of 132 multiprocessors, and the same on every device:
// the numbers do not depend on it.
struct Lanes {
  int64_t n, lanes, steps;
  Lanes(int64_t count, int per_step) : n(count) {
    const int64_t full = int64_t{132} * 8 * 256, padded = (n + 255) / 256 * 256;
    lanes = padded < 256 ? 256 : padded < full ? padded : full;
    steps = (n + lanes * per_step - 1) / (lanes * per_step);
  }
};

// (0, 1], with 32 random bits.
__device__ inline float unit_float(uint32_t x) { return static_cast<float>(x) * 0x1p-32f + 0x1p-33f; }
// (0, 1], with 53 random bits.
__device__ inline double unit_double(uint32_t x, uint32_t y) {
  return static_cast<double>(x ^ static_cast<uint64_t>(y) << 21) * 0x1p-53 + 0x1p-54;
}

// Two N(0, 1) of two uniform numbers in (0, 1]: G. Box and M. Muller, "A note on the generation of random normal
// deviates", Ann. Math. Statist. 29 (1958).
__device__ inline void box_muller(float u, float turn, float& a, float& b) {
  const float radius = sqrtf(-2.0f * logf(u));
  sincospif(2.0f * turn, &a, &b);
  a *= radius;
  b *= radius;
}
__device__ inline void box_muller(double u, double turn, double& a, double& b) {
  const double radius = sqrt(-2.0 * log(u));
  sincospi(2.0 * turn, &a, &b);
  a *= radius;
  b *= radius;
}

// A number in an element type: saturated to 64 bits, then wrapped into narrower integers.
template <class T, class V>
__device__ inline T to_element(V v) {
  if constexpr (std::is_same_v<T, bool>) {
    return v != V{0};
  } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    T r;
    store(&r, static_cast<float>(v));
    return r;
  } else if constexpr (std::is_integral_v<T> && std::is_floating_point_v<V>) {
    const V limit = static_cast<V>(0x1p63);
    if (!(v >= -limit)) return static_cast<T>(std::numeric_limits<int64_t>::min());
    return static_cast<T>(v >= limit ? std::numeric_limits<int64_t>::max() : static_cast<int64_t>(v));
  } else {
    return static_cast<T>(v);
  }
}

template <class V>
__device__ inline void store_as(DType t, void* p, V v) {
  switch (t) {
    case DType::kFloat32:
      *static_cast<float*>(p) = to_element<float>(v);
      break;
    case DType::kFloat16:
      *static_cast<Half*>(p) = to_element<Half>(v);
      break;
    case DType::kBFloat16:
      *static_cast<BFloat16*>(p) = to_element<BFloat16>(v);
      break;
    case DType::kFloat64:
      *static_cast<double*>(p) = to_element<double>(v);
      break;
    case DType::kBool:
      *static_cast<bool*>(p) = to_element<bool>(v);
      break;
    case DType::kInt64:
      *static_cast<int64_t*>(p) = to_element<int64_t>(v);
      break;
    case DType::kUInt64:
      *static_cast<uint64_t*>(p) = to_element<int64_t>(v);
      break;
    case DType::kInt32:
    case DType::kUInt32:
      *static_cast<uint32_t*>(p) = to_element<uint32_t>(v);
      break;
    case DType::kInt16:
    case DType::kUInt16:
      *static_cast<uint16_t*>(p) = to_element<uint16_t>(v);
      break;
    default:
      *static_cast<uint8_t*>(p) = to_element<uint8_t>(v);
      break;
  }
}

// An element of a floating dtype.
template <class V>
__device__ inline V load_as(DType t, const void* p) {
  switch (t) {
    case DType::kFloat32:
      return static_cast<V>(*static_cast<const float*>(p));
    case DType::kFloat16:
      return static_cast<V>(load(static_cast<const Half*>(p)));
    case DType::kBFloat16:
      return static_cast<V>(load(static_cast<const BFloat16*>(p)));
    default:
      return static_cast<V>(*static_cast<const double*>(p));
  }
}

// Refuses dtypes: '"name" not implemented for 'Bool''.
void check_floating(const char* name, DType t);       // all but float16, bfloat16, float32, float64
void check_wide_floating(const char* name, DType t);  // all but float32, float64
void check_ordinary(const char* name, DType t);       // uint16, uint32, uint64, complex dtypes and so on

}  // namespace tessera::cuda
