#include "tensor/core/dtype.h"

#include <atomic>

#include "tensor/core/error.h"

namespace tessera {
namespace {

constexpr DTypeInfo kInfo[kNumDTypes] = {
    {"bool", nullptr, 1, Category::kBool, false},
    {"uint8", nullptr, 1, Category::kInt, false},
    {"int8", nullptr, 1, Category::kInt, true},
    {"int16", "short", 2, Category::kInt, true},
    {"int32", "int", 4, Category::kInt, true},
    {"int64", "long", 8, Category::kInt, true},
    {"uint16", nullptr, 2, Category::kInt, false},
    {"uint32", nullptr, 4, Category::kInt, false},
    {"uint64", nullptr, 8, Category::kInt, false},
    {"float16", "half", 2, Category::kFloat, true},
    {"bfloat16", nullptr, 2, Category::kFloat, true},
    {"float32", "float", 4, Category::kFloat, true},
    {"float64", "double", 8, Category::kFloat, true},
    {"complex32", "chalf", 4, Category::kComplex, true},
    {"complex64", "cfloat", 8, Category::kComplex, true},
    {"complex128", "cdouble", 16, Category::kComplex, true},
    {"float8_e4m3fn", nullptr, 1, Category::kFloat, true},
    {"float8_e5m2", nullptr, 1, Category::kFloat, true},
    {"float8_e4m3fnuz", nullptr, 1, Category::kFloat, true},
    {"float8_e5m2fnuz", nullptr, 1, Category::kFloat, true},
    {"float8_e8m0fnu", nullptr, 1, Category::kFloat, false},
    {"quint8", nullptr, 1, Category::kQuantized, false},
    {"qint8", nullptr, 1, Category::kQuantized, true},
    {"qint32", nullptr, 4, Category::kQuantized, true},
    {"quint4x2", nullptr, 1, Category::kQuantized, false},
    {"quint2x4", nullptr, 1, Category::kQuantized, false},
    {"bits1x8", nullptr, 1, Category::kQuantized, false},
    {"bits2x4", nullptr, 1, Category::kQuantized, false},
    {"bits4x2", nullptr, 1, Category::kQuantized, false},
    {"bits8", nullptr, 1, Category::kQuantized, false},
    {"bits16", nullptr, 2, Category::kQuantized, false},
    {"float4_e2m1fn_x2", nullptr, 1, Category::kFloat, true},
    {"uint1", nullptr, 1, Category::kQuantized, false},
    {"uint2", nullptr, 1, Category::kQuantized, false},
    {"uint3", nullptr, 1, Category::kQuantized, false},
    {"uint4", nullptr, 1, Category::kQuantized, false},
    {"uint5", nullptr, 1, Category::kQuantized, false},
    {"uint6", nullptr, 1, Category::kQuantized, false},
    {"uint7", nullptr, 1, Category::kQuantized, false},
    {"int1", nullptr, 1, Category::kQuantized, true},
    {"int2", nullptr, 1, Category::kQuantized, true},
    {"int3", nullptr, 1, Category::kQuantized, true},
    {"int4", nullptr, 1, Category::kQuantized, true},
    {"int5", nullptr, 1, Category::kQuantized, true},
    {"int6", nullptr, 1, Category::kQuantized, true},
    {"int7", nullptr, 1, Category::kQuantized, true},
};

constexpr const char* kTypeNames[kNumDTypes] = {"Bool",
                                                "Byte",
                                                "Char",
                                                "Short",
                                                "Int",
                                                "Long",
                                                "UInt16",
                                                "UInt32",
                                                "UInt64",
                                                "Half",
                                                "BFloat16",
                                                "Float",
                                                "Double",
                                                "ComplexHalf",
                                                "ComplexFloat",
                                                "ComplexDouble",
                                                "Float8_e4m3fn",
                                                "Float8_e5m2",
                                                "Float8_e4m3fnuz",
                                                "Float8_e5m2fnuz",
                                                "Float8_e8m0fnu",
                                                "QUInt8",
                                                "QInt8",
                                                "QInt32",
                                                "QUInt4x2",
                                                "QUInt2x4",
                                                "Bits1x8",
                                                "Bits2x4",
                                                "Bits4x2",
                                                "Bits8",
                                                "Bits16",
                                                "Float4_e2m1fn_x2",
                                                "UInt1",
                                                "UInt2",
                                                "UInt3",
                                                "UInt4",
                                                "UInt5",
                                                "UInt6",
                                                "UInt7",
                                                "Int1",
                                                "Int2",
                                                "Int3",
                                                "Int4",
                                                "Int5",
                                                "Int6",
                                                "Int7"};

constexpr bool is_wide_unsigned(DType t) { return t == DType::kUInt16 || t == DType::kUInt32 || t == DType::kUInt64; }

// Integers other than uint16..64: the signed type that holds both, uint8 having none of its own size.
DType promote_integers(DType a, DType b) {
  if (a == DType::kUInt8 || b == DType::kUInt8) {
    const DType other = a == DType::kUInt8 ? b : a;
    return other == DType::kInt8 ? DType::kInt16 : other;
  }
  return a > b ? a : b;  // int8 < int16 < int32 < int64 in declaration order
}

DType promote_floats(DType a, DType b) {
  if (is_reduced_float(a) && is_reduced_float(b))
    return DType::kFloat32;  // neither of float16 and bfloat16 holds the other
  return a > b ? a : b;
}

std::atomic<DType> g_default_dtype{DType::kFloat32};

}  // namespace

const DTypeInfo& dtype_info(DType t) { return kInfo[static_cast<int>(t)]; }

const char* type_name_of(DType t) { return kTypeNames[static_cast<int>(t)]; }

bool is_signed(DType t) {
  TESSERA_CHECK(!is_quantized(t), "isSignedType not supported for quantized types");
  return dtype_info(t).is_signed;
}

DType to_complex(DType t) {
  switch (t) {
    case DType::kFloat16:
    case DType::kComplex32:
      return DType::kComplex32;
    case DType::kFloat32:
    case DType::kComplex64:
      return DType::kComplex64;
    case DType::kFloat64:
    case DType::kComplex128:
      return DType::kComplex128;
    default:
      internal::raise<Error>("Unknown Complex ScalarType for ", type_name_of(t));
  }
}

DType to_real(DType t) {
  switch (t) {
    case DType::kComplex32:
      return DType::kFloat16;
    case DType::kComplex64:
      return DType::kFloat32;
    case DType::kComplex128:
      return DType::kFloat64;
    default:
      return t;
  }
}

DType promote_types(DType a, DType b) {
  if (a == b) return a;
  const Category ca = category_of(a), cb = category_of(b);
  TESSERA_CHECK(ca != Category::kQuantized && cb != Category::kQuantized,
                "promoteTypes with quantized numbers is not handled yet; figure out what the correct rules should be, "
                "offending types: ",
                type_name_of(a), " ", type_name_of(b));
  TESSERA_CHECK(!is_float8(a) && !is_float8(b) && !is_storage_only(a) && !is_storage_only(b),
                "Promotion for Float8 Types is not supported, attempted to promote ", type_name_of(a), " and ",
                type_name_of(b));
  if (is_wide_unsigned(a) || is_wide_unsigned(b)) {
    if (ca >= Category::kFloat) return a;
    if (cb >= Category::kFloat) return b;
    internal::raise<Error>("Promotion for uint16, uint32, uint64 types is not supported, attempted to promote ",
                           type_name_of(a), " and ", type_name_of(b));
  }
  if (ca == Category::kComplex || cb == Category::kComplex) {
    if (ca <= Category::kInt) return b;
    if (cb <= Category::kInt) return a;
    const DType ra = to_real(a), rb = to_real(b);
    return to_complex(ra == rb ? ra : promote_floats(ra, rb));
  }
  if (ca == Category::kFloat && cb == Category::kFloat) return promote_floats(a, b);
  if (ca != cb) return ca > cb ? a : b;
  return promote_integers(a, b);
}

bool can_cast(DType from, DType to) {
  const Category f = category_of(from), t = category_of(to);
  if (f == Category::kComplex && t != Category::kComplex) return false;
  if (f == Category::kFloat && t == Category::kInt) return false;
  return from == DType::kBool || to != DType::kBool;
}

std::optional<DType> parse_dtype(std::string_view name) {
  if (name.starts_with("torch.")) name.remove_prefix(6);
  for (int i = 0; i < kNumDTypes; ++i) {
    if (name == kInfo[i].name || (kInfo[i].alias && name == kInfo[i].alias)) return static_cast<DType>(i);
  }
  return std::nullopt;
}

DType default_dtype() { return g_default_dtype.load(std::memory_order_relaxed); }

void set_default_dtype(DType t) {
  TESSERA_CHECK_TYPE(t >= DType::kFloat16 && t <= DType::kFloat64,
                     "only floating-point types are supported as the default type");
  g_default_dtype.store(t, std::memory_order_relaxed);
}

DType default_complex_dtype() {
  const DType t = default_dtype();
  TESSERA_CHECK(t != DType::kBFloat16, "invalid default scalar type for complex");
  return to_complex(t);
}

}  // namespace tessera
