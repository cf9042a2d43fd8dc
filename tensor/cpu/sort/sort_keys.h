// Order-preserving maps of numbers to unsigned integers, so that one sort serves all dtypes.
#pragma once

#include <bit>
#include <cstdint>

#include "tensor/core/half.h"

namespace tessera::cpu {

// key(x) orders as the public API does: NaN above all (all NaN equal), -0 equal to 0. value(key) gives x back, but for
// NaN and zeros, whose bits the key does not hold: is_ambiguous tells.
template <class T>
struct SortKey;

template <class T, class K, K kFlip>
struct IntegerKey {
  using Key = K;
  static Key key(T x) { return static_cast<Key>(static_cast<Key>(x) ^ kFlip); }
  static T value(Key k) { return static_cast<T>(static_cast<Key>(k ^ kFlip)); }
  static bool is_ambiguous(Key) { return false; }
};
template <>
struct SortKey<uint8_t> : IntegerKey<uint8_t, uint8_t, 0> {};
template <>
struct SortKey<int8_t> : IntegerKey<int8_t, uint8_t, 0x80> {};
template <>
struct SortKey<uint16_t> : IntegerKey<uint16_t, uint16_t, 0> {};
template <>
struct SortKey<int16_t> : IntegerKey<int16_t, uint16_t, 0x8000> {};
template <>
struct SortKey<uint32_t> : IntegerKey<uint32_t, uint32_t, 0> {};
template <>
struct SortKey<int32_t> : IntegerKey<int32_t, uint32_t, 0x80000000u> {};
template <>
struct SortKey<uint64_t> : IntegerKey<uint64_t, uint64_t, 0> {};
template <>
struct SortKey<int64_t> : IntegerKey<int64_t, uint64_t, uint64_t{1} << 63> {};

// Sign-magnitude to unsigned. kInfinity: bits of +inf.
template <class T, class K, K kInfinity>
struct FloatKey {
  using Key = K;
  static constexpr Key kSign = static_cast<Key>(Key{1} << (8 * sizeof(Key) - 1));
  static Key key(T x) {
    const Key b = std::bit_cast<Key>(x), magnitude = static_cast<Key>(b & ~kSign);
    if (magnitude > kInfinity) return static_cast<Key>(~Key{0});
    if (magnitude == 0) return kSign;
    return static_cast<Key>(b & kSign ? ~b : b | kSign);
  }
  static T value(Key k) { return std::bit_cast<T>(static_cast<Key>(k & kSign ? k & ~kSign : ~k)); }
  static bool is_ambiguous(Key k) { return k == kSign || k == static_cast<Key>(~Key{0}); }
};
template <>
struct SortKey<Half> : FloatKey<Half, uint16_t, 0x7c00> {};
template <>
struct SortKey<BFloat16> : FloatKey<BFloat16, uint16_t, 0x7f80> {};
template <>
struct SortKey<float> : FloatKey<float, uint32_t, 0x7f800000u> {};
template <>
struct SortKey<double> : FloatKey<double, uint64_t, uint64_t{0x7ff0} << 48> {};

}  // namespace tessera::cpu
