#include "tensor/core/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tessera {
namespace {

const float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

// Every finite value of a format survives the way to float and back, and values between two neighbours round to the
// nearer, ties to even.
template <class Decode, class Encode>
void check_format(Decode decode, Encode encode, int count, int sign_bit) {
  for (int b = 0; b < count; ++b) {
    const float f = decode(b);
    if (std::isnan(f)) {
      EXPECT_TRUE(std::isnan(decode(encode(f)))) << b;
      continue;
    }
    EXPECT_EQ(encode(f), b) << f;
    const float next = decode(b + 1);
    if ((b & sign_bit) != ((b + 1) & sign_bit) || b + 1 == count || !std::isfinite(next) || !std::isfinite(f)) continue;
    const float middle = static_cast<float>((static_cast<double>(f) + next) / 2);
    EXPECT_EQ(encode(middle), b & 1 ? b + 1 : b) << f << " " << next;
    EXPECT_EQ(encode(std::nextafter(middle, f)), b);
    EXPECT_EQ(encode(std::nextafter(middle, next)), b + 1);
  }
}

TEST(Half, RoundTrips) {
  check_format([](int b) { return half_bits_to_float(static_cast<uint16_t>(b)); }, float_to_half_bits, 1 << 16, 0x8000);
}
TEST(Half, Bfloat16RoundTrips) {
  for (int b = 0; b < (1 << 16); ++b) {
    const float f = bfloat16_bits_to_float(static_cast<uint16_t>(b));
    if (std::isnan(f)) {
      EXPECT_TRUE(std::isnan(bfloat16_bits_to_float(float_to_bfloat16_bits(f))));
      continue;
    }
    EXPECT_EQ(float_to_bfloat16_bits(f), b);
  }
  EXPECT_EQ(float_to_bfloat16_bits(std::bit_cast<float>(0x3f808000u)), 0x3f80);
  EXPECT_EQ(float_to_bfloat16_bits(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(float_to_bfloat16_bits(std::numeric_limits<float>::max()), 0x7f80);
}
TEST(Half, Float8RoundTrips) {
  check_format([](int b) { return float8_e4m3fn_to_float(static_cast<uint8_t>(b)); }, float_to_float8_e4m3fn, 256,
               0x80);
  check_format([](int b) { return float8_e5m2_to_float(static_cast<uint8_t>(b)); }, float_to_float8_e5m2, 256, 0x80);
  check_format([](int b) { return float8_e4m3fnuz_to_float(static_cast<uint8_t>(b)); }, float_to_float8_e4m3fnuz, 256,
               0x80);
  check_format([](int b) { return float8_e5m2fnuz_to_float(static_cast<uint8_t>(b)); }, float_to_float8_e5m2fnuz, 256,
               0x80);
}

TEST(Half, Limits) {
  EXPECT_EQ(float8_e4m3fn_to_float(0x7e), 448.0f);
  EXPECT_EQ(float8_e5m2_to_float(0x7b), 57344.0f);
  EXPECT_EQ(float8_e4m3fnuz_to_float(0x7f), 240.0f);
  EXPECT_EQ(float8_e5m2fnuz_to_float(0x7f), 57344.0f);
  EXPECT_EQ(float_to_float8_e4m3fn(kInf), 0x7e);  // no infinity: saturates
  EXPECT_EQ(float_to_float8_e4m3fn(-1e9f), 0xfe);
  EXPECT_EQ(float_to_float8_e5m2(1e9f), 0x7c);      // infinity
  EXPECT_EQ(float_to_float8_e4m3fnuz(1e9f), 0x80);  // the nan
  EXPECT_EQ(float_to_float8_e5m2fnuz(-0.0f), 0);    // no negative zero
  EXPECT_EQ(float_to_half_bits(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_half_bits(65519.0f), 0x7bff);
  EXPECT_TRUE(std::isnan(half_bits_to_float(float_to_half_bits(kNan))));
}

TEST(Half, Float8ScaleFormat) {
  for (int b = 1; b < 255; ++b) EXPECT_EQ(float_to_float8_e8m0fnu(float8_e8m0fnu_to_float(static_cast<uint8_t>(b))), b);
  EXPECT_EQ(float8_e8m0fnu_to_float(127), 1.0f);
  EXPECT_EQ(float_to_float8_e8m0fnu(1.5f), 128);
  EXPECT_EQ(float_to_float8_e8m0fnu(1.49f), 127);
  EXPECT_EQ(float_to_float8_e8m0fnu(kInf), 0xff);
}

}  // namespace
}  // namespace tessera
