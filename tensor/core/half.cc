#include "tensor/core/half.h"

namespace tessera {
namespace {

// An 8-bit float with a sign bit. `fnuz` formats have no infinity and no negative zero, and 0x80 is their only nan.
struct Format {
  int mantissa_bits;
  int bias;
  bool fnuz;
  uint8_t max_finite;  // magnitude bits
  uint8_t overflow;    // magnitude bits of what is beyond: inf, or the largest number; fnuz formats give their nan
  uint8_t nan;         // what a nan becomes (magnitude bits; the whole byte for fnuz)
};
constexpr Format kE4m3fn{3, 7, false, 0x7e, 0x7e, 0x7f};  // saturates, infinities too
constexpr Format kE5m2{2, 15, false, 0x7b, 0x7c, 0x7f};
constexpr Format kE4m3fnuz{3, 8, true, 0x7f, 0x80, 0x80};
constexpr Format kE5m2fnuz{2, 16, true, 0x7f, 0x80, 0x80};

template <Format F>
float decode(uint8_t b) {
  const uint32_t sign = static_cast<uint32_t>(b & 0x80u) << 24;
  if (F.fnuz && b == 0x80) return std::bit_cast<float>(0x7fc00000u | sign);
  const uint32_t magnitude = b & 0x7fu;
  if (!F.fnuz && magnitude > F.max_finite) {
    const bool infinite = magnitude == F.overflow;
    return std::bit_cast<float>(sign | (infinite ? 0x7f800000u : 0x7fc00000u));
  }
  const uint32_t exponent = magnitude >> F.mantissa_bits, mantissa = magnitude & ((1u << F.mantissa_bits) - 1);
  // Both cases are exact: a subnormal of the format is a small integer times a power of two.
  const uint32_t scale_exponent = 127 + (exponent == 0 ? 1 : exponent) - F.bias - F.mantissa_bits;
  const float scale = std::bit_cast<float>(scale_exponent << 23);
  const float value = static_cast<float>(exponent == 0 ? mantissa : mantissa | (1u << F.mantissa_bits)) * scale;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}

// Round to nearest, ties to even.
template <Format F>
uint8_t encode(float f) {
  const uint32_t x = std::bit_cast<uint32_t>(f);
  const uint8_t sign = static_cast<uint8_t>((x >> 24) & 0x80u);
  const uint32_t a = x & 0x7fffffffu;
  if (a > 0x7f800000u) return F.fnuz ? F.nan : static_cast<uint8_t>(sign | F.nan);
  const int shift = 23 - F.mantissa_bits;
  const int exponent = static_cast<int>(a >> 23) - 127 + F.bias;  // of the format
  uint32_t r;
  if (exponent >= 1) {
    const uint32_t rounded = a + ((1u << (shift - 1)) - 1) + ((a >> shift) & 1);
    r = (rounded >> shift) - (static_cast<uint32_t>(127 - F.bias) << F.mantissa_bits);
  } else if (const int s = shift + 1 - exponent; s < 26) {  // subnormal result
    const uint32_t m = (a & 0x7fffffu) | (a >> 23 ? 0x800000u : 0u);
    r = (m + ((1u << (s - 1)) - 1) + ((m >> s) & 1)) >> s;
  } else {
    r = 0;
  }
  if (r > F.max_finite) return F.fnuz ? F.nan : static_cast<uint8_t>(sign | F.overflow);
  if (F.fnuz && r == 0) return 0;
  return static_cast<uint8_t>(sign | r);
}

}  // namespace

float float8_e4m3fn_to_float(uint8_t b) { return decode<kE4m3fn>(b); }
uint8_t float_to_float8_e4m3fn(float f) { return encode<kE4m3fn>(f); }
float float8_e5m2_to_float(uint8_t b) { return decode<kE5m2>(b); }
uint8_t float_to_float8_e5m2(float f) { return encode<kE5m2>(f); }
float float8_e4m3fnuz_to_float(uint8_t b) { return decode<kE4m3fnuz>(b); }
uint8_t float_to_float8_e4m3fnuz(float f) { return encode<kE4m3fnuz>(f); }
float float8_e5m2fnuz_to_float(uint8_t b) { return decode<kE5m2fnuz>(b); }
uint8_t float_to_float8_e5m2fnuz(float f) { return encode<kE5m2fnuz>(f); }

// A bare exponent: 2^(b - 127), 0xff is nan. The sign is dropped.
float float8_e8m0fnu_to_float(uint8_t b) {
  if (b == 0) return std::bit_cast<float>(0x00400000u);
  if (b == 0xff) return std::bit_cast<float>(0x7f800001u);
  return std::bit_cast<float>(static_cast<uint32_t>(b) << 23);
}
uint8_t float_to_float8_e8m0fnu(float f) {
  const uint32_t a = std::bit_cast<uint32_t>(f) & 0x7fffffffu;
  const uint32_t exponent = a >> 23, mantissa = a & 0x7fffffu;
  if (exponent == 0xff) return 0xff;
  // Nearest in the linear sense; a tie (1.5) goes up except from the subnormals.
  const bool up = mantissa > 0x400000u || (mantissa == 0x400000u && exponent > 0);
  return static_cast<uint8_t>(exponent + up);
}

}  // namespace tessera
