// Storage types for reduced-precision numbers. Arithmetic happens in float: each type only converts.
#pragma once

#include <bit>
#include <complex>
#include <cstdint>

namespace tessera {

// IEEE 754 binary16 <-> binary32, round to nearest even. Plain integer code, so that it is constexpr and the same on
// every CPU.
constexpr float half_bits_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  uint32_t exponent = (h >> 10) & 0x1fu;
  uint32_t mantissa = h & 0x3ffu;
  if (exponent == 0) {
    if (mantissa == 0) return std::bit_cast<float>(sign);
    exponent = 113;  // subnormal: normalise
    while (!(mantissa & 0x400u)) {
      mantissa <<= 1;
      --exponent;
    }
    return std::bit_cast<float>(sign | (exponent << 23) | ((mantissa & 0x3ffu) << 13));
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}
constexpr uint16_t float_to_half_bits(float f) {
  const uint32_t x = std::bit_cast<uint32_t>(f);
  const uint16_t sign = static_cast<uint16_t>((x >> 16) & 0x8000u);
  const uint32_t a = x & 0x7fffffffu;
  if (a > 0x7f800000u) return sign | 0x7e00u;   // nan
  if (a >= 0x477ff000u) return sign | 0x7c00u;  // rounds to infinity
  if (a < 0x33000001u) return sign;             // rounds to zero
  if (a < 0x38800000u) {                        // subnormal result
    const uint32_t shift = 126 - (a >> 23);
    const uint32_t m = (a & 0x7fffffu) | 0x800000u;
    const uint32_t half = 1u << (shift - 1), rest = m & ((1u << shift) - 1);
    uint32_t r = m >> shift;
    if (rest > half || (rest == half && (r & 1))) ++r;
    return sign | static_cast<uint16_t>(r);
  }
  const uint32_t rounded = a + 0xfffu + ((a >> 13) & 1);
  return sign | static_cast<uint16_t>((rounded - 0x38000000u) >> 13);
}
constexpr float bfloat16_bits_to_float(uint16_t b) { return std::bit_cast<float>(static_cast<uint32_t>(b) << 16); }
constexpr uint16_t float_to_bfloat16_bits(float f) {
  const uint32_t x = std::bit_cast<uint32_t>(f);
  if ((x & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((x >> 16) | 0x40u);
  return static_cast<uint16_t>((x + 0x7fffu + ((x >> 16) & 1)) >> 16);
}

// The 8-bit formats of "FP8 Formats for Deep Learning" (arXiv 2209.05433) and their fnuz variants, and the scale format
// e8m0.
float float8_e4m3fn_to_float(uint8_t b);
uint8_t float_to_float8_e4m3fn(float f);
float float8_e5m2_to_float(uint8_t b);
uint8_t float_to_float8_e5m2(float f);
float float8_e4m3fnuz_to_float(uint8_t b);
uint8_t float_to_float8_e4m3fnuz(float f);
float float8_e5m2fnuz_to_float(uint8_t b);
uint8_t float_to_float8_e5m2fnuz(float f);
float float8_e8m0fnu_to_float(uint8_t b);
uint8_t float_to_float8_e8m0fnu(float f);

struct Half {
  uint16_t bits = 0;
  constexpr Half() = default;
  constexpr Half(float f) : bits(float_to_half_bits(f)) {}
  constexpr operator float() const { return half_bits_to_float(bits); }
};
struct BFloat16 {
  uint16_t bits = 0;
  constexpr BFloat16() = default;
  constexpr BFloat16(float f) : bits(float_to_bfloat16_bits(f)) {}
  constexpr operator float() const { return bfloat16_bits_to_float(bits); }
};
struct ComplexHalf {
  Half re, im;
  constexpr ComplexHalf() = default;
  constexpr ComplexHalf(std::complex<float> c) : re(c.real()), im(c.imag()) {}
  constexpr operator std::complex<float>() const { return {re, im}; }
};
#define TESSERA_FLOAT8(Name, to_bits, from_bits)       \
  struct Name {                                        \
    uint8_t bits = 0;                                  \
    Name() = default;                                  \
    Name(float f) : bits(to_bits(f)) {}                \
    operator float() const { return from_bits(bits); } \
  };
TESSERA_FLOAT8(Float8_e4m3fn, float_to_float8_e4m3fn, float8_e4m3fn_to_float)
TESSERA_FLOAT8(Float8_e5m2, float_to_float8_e5m2, float8_e5m2_to_float)
TESSERA_FLOAT8(Float8_e4m3fnuz, float_to_float8_e4m3fnuz, float8_e4m3fnuz_to_float)
TESSERA_FLOAT8(Float8_e5m2fnuz, float_to_float8_e5m2fnuz, float8_e5m2fnuz_to_float)
TESSERA_FLOAT8(Float8_e8m0fnu, float_to_float8_e8m0fnu, float8_e8m0fnu_to_float)
#undef TESSERA_FLOAT8

}  // namespace tessera
