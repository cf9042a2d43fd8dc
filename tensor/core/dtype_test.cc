#include "tensor/core/dtype.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tensor/core/error.h"

namespace tessera {
namespace {

using enum DType;

std::string message_of(DType a, DType b) {
  try {
    promote_types(a, b);
  } catch (const Error& e) { return e.what(); }
  return "";
}

TEST(DType, TablesAgree) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const DType t = static_cast<DType>(i);
    EXPECT_EQ(dtype_info(t).itemsize, item_size(t));
    EXPECT_EQ(dtype_info(t).category, category_of(t));
    EXPECT_EQ(parse_dtype(dtype_info(t).name), t);
    if (dtype_info(t).alias) { EXPECT_EQ(parse_dtype(std::string("torch.") + dtype_info(t).alias), t); }
  }
  EXPECT_EQ(parse_dtype("float"), kFloat32);
  EXPECT_EQ(parse_dtype("torch.cdouble"), kComplex128);
  EXPECT_FALSE(parse_dtype("float31").has_value());
  EXPECT_STREQ(type_name_of(kUInt8), "Byte");
  EXPECT_STREQ(type_name_of(kComplex64), "ComplexFloat");
}

TEST(DType, Promotion) {
  const struct {
    DType a, b, result;
  } cases[] = {{kBool, kBool, kBool},
               {kBool, kUInt8, kUInt8},
               {kUInt8, kInt8, kInt16},
               {kUInt8, kInt16, kInt16},
               {kInt8, kInt64, kInt64},
               {kInt32, kInt16, kInt32},
               {kInt64, kFloat16, kFloat16},
               {kBool, kBFloat16, kBFloat16},
               {kFloat16, kBFloat16, kFloat32},
               {kFloat16, kFloat32, kFloat32},
               {kFloat32, kFloat64, kFloat64},
               {kInt64, kComplex64, kComplex64},
               {kComplex64, kFloat64, kComplex128},
               {kComplex32, kFloat16, kComplex32},
               {kComplex32, kBFloat16, kComplex64},
               {kComplex32, kFloat64, kComplex128},
               {kComplex64, kComplex128, kComplex128},
               {kUInt16, kUInt16, kUInt16},
               {kUInt16, kFloat16, kFloat16},
               {kUInt64, kComplex64, kComplex64},
               {kFloat8_e5m2, kFloat8_e5m2, kFloat8_e5m2}};
  for (const auto& c : cases) {
    EXPECT_EQ(promote_types(c.a, c.b), c.result) << name_of(c.a) << " " << name_of(c.b);
    EXPECT_EQ(promote_types(c.b, c.a), c.result) << name_of(c.b) << " " << name_of(c.a);
  }
}

TEST(DType, PromotionIsAJoin) {  // commutative, idempotent, and associative apart from the two half formats
  for (int i = 0; i <= static_cast<int>(kComplex128); ++i) {
    for (int j = 0; j <= static_cast<int>(kComplex128); ++j) {
      const DType a = static_cast<DType>(i), b = static_cast<DType>(j);
      if (!message_of(a, b).empty()) continue;
      const DType c = promote_types(a, b);
      EXPECT_EQ(promote_types(b, a), c);
      EXPECT_EQ(promote_types(c, a), c);
      EXPECT_TRUE(can_cast(a, c));
    }
  }
}

TEST(DType, WhatDoesNotPromote) {
  EXPECT_EQ(message_of(kUInt16, kInt32),
            "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote UInt16 and Int");
  EXPECT_NE(message_of(kUInt16, kUInt32), "");
  EXPECT_NE(message_of(kUInt16, kBool), "");
  EXPECT_EQ(message_of(kFloat8_e4m3fn, kFloat32),
            "Promotion for Float8 Types is not supported, attempted to promote Float8_e4m3fn and Float");
  EXPECT_NE(message_of(kQUInt8, kFloat32), "");
}

TEST(DType, CanCast) {
  EXPECT_TRUE(can_cast(kFloat64, kFloat16));
  EXPECT_TRUE(can_cast(kInt64, kUInt8));
  EXPECT_TRUE(can_cast(kInt64, kComplex64));
  EXPECT_TRUE(can_cast(kBool, kInt8));
  EXPECT_FALSE(can_cast(kFloat32, kInt64));
  EXPECT_FALSE(can_cast(kComplex64, kFloat64));
  EXPECT_FALSE(can_cast(kInt8, kBool));
  EXPECT_FALSE(can_cast(kFloat32, kBool));
}

TEST(DType, Counterparts) {
  EXPECT_EQ(to_complex(kFloat16), kComplex32);
  EXPECT_EQ(to_complex(kComplex64), kComplex64);
  EXPECT_THROW(to_complex(kInt32), Error);
  EXPECT_THROW(to_complex(kFloat8_e5m2), Error);
  EXPECT_EQ(to_real(kComplex128), kFloat64);
  EXPECT_EQ(to_real(kInt32), kInt32);
  EXPECT_TRUE(is_signed(kInt8));
  EXPECT_FALSE(is_signed(kBool));
  EXPECT_THROW(is_signed(kQInt8), Error);
}

TEST(DType, DefaultDtype) {
  EXPECT_EQ(default_dtype(), kFloat32);
  EXPECT_EQ(default_complex_dtype(), kComplex64);
  EXPECT_THROW(set_default_dtype(kInt64), TypeError);
  set_default_dtype(kBFloat16);
  EXPECT_THROW(default_complex_dtype(), Error);
  set_default_dtype(kFloat64);
  EXPECT_EQ(default_complex_dtype(), kComplex128);
  set_default_dtype(kFloat32);
}

}  // namespace
}  // namespace tessera
