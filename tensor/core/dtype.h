// Element types of tensors: the closed list of documented dtypes, their sizes and categories, and how two of them
// combine.
#pragma once

#include <array>
#include <complex>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tensor/core/half.h"

namespace tessera {

// The order is part of the checkpoint and schema formats: append only.
enum class DType : uint8_t {
  kBool = 0,
  kUInt8,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUInt16,
  kUInt32,
  kUInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kComplex32,
  kComplex64,
  kComplex128,
  kFloat8_e4m3fn,
  kFloat8_e5m2,
  kFloat8_e4m3fnuz,
  kFloat8_e5m2fnuz,
  kFloat8_e8m0fnu,
  kQUInt8,
  kQInt8,
  kQInt32,
  kQUInt4x2,
  // Below: storage only. Their elements are copied and seen as bytes, and computed with nowhere.
  kQUInt2x4,
  kBits1x8,
  kBits2x4,
  kBits4x2,
  kBits8,
  kBits16,
  kFloat4_e2m1fn_x2,
  kUInt1,
  kUInt2,
  kUInt3,
  kUInt4,
  kUInt5,
  kUInt6,
  kUInt7,
  kInt1,
  kInt2,
  kInt3,
  kInt4,
  kInt5,
  kInt6,
  kInt7,
};
inline constexpr int kNumDTypes = 46;
// Dtypes with an index below this one have ordinary arithmetic somewhere; kernel tables are this long.
inline constexpr int kNumComputeDTypes = 16;

// Categories in promotion order: a higher category wins. kQuantized: no arithmetic of its own.
enum class Category : uint8_t { kBool = 0, kInt = 1, kFloat = 2, kComplex = 3, kQuantized = 4 };

struct DTypeInfo {
  const char* name;   // "float32": what repr prints after "torch."
  const char* alias;  // "float", or nullptr
  uint8_t itemsize;   // bytes
  Category category;
  bool is_signed;
};

const DTypeInfo& dtype_info(DType t);
inline constexpr uint8_t kDTypeSizes[kNumDTypes] = {1, 1, 1, 2, 4, 8, 2, 4, 8, 2, 2, 4, 8, 4, 8, 16,
                                                    1, 1, 1, 1, 1, 1, 1, 4, 1, 1, 1, 1, 1, 1, 2, 1,
                                                    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
inline constexpr Category kDTypeCategories[kNumDTypes] = {
    Category::kBool,      Category::kInt,       Category::kInt,       Category::kInt,       Category::kInt,
    Category::kInt,       Category::kInt,       Category::kInt,       Category::kInt,       Category::kFloat,
    Category::kFloat,     Category::kFloat,     Category::kFloat,     Category::kComplex,   Category::kComplex,
    Category::kComplex,   Category::kFloat,     Category::kFloat,     Category::kFloat,     Category::kFloat,
    Category::kFloat,     Category::kQuantized, Category::kQuantized, Category::kQuantized, Category::kQuantized,
    Category::kQuantized, Category::kQuantized, Category::kQuantized, Category::kQuantized, Category::kQuantized,
    Category::kQuantized, Category::kFloat,     Category::kQuantized, Category::kQuantized, Category::kQuantized,
    Category::kQuantized, Category::kQuantized, Category::kQuantized, Category::kQuantized, Category::kQuantized,
    Category::kQuantized, Category::kQuantized, Category::kQuantized, Category::kQuantized, Category::kQuantized,
    Category::kQuantized};
inline constexpr int64_t item_size(DType t) { return kDTypeSizes[static_cast<int>(t)]; }
inline constexpr Category category_of(DType t) { return kDTypeCategories[static_cast<int>(t)]; }
inline constexpr bool is_floating_point(DType t) { return category_of(t) == Category::kFloat; }
inline constexpr bool is_complex(DType t) { return category_of(t) == Category::kComplex; }
inline constexpr bool is_integral(DType t, bool include_bool) {
  return category_of(t) == Category::kInt || (include_bool && t == DType::kBool);
}
inline constexpr bool is_float8(DType t) { return t >= DType::kFloat8_e4m3fn && t <= DType::kFloat8_e8m0fnu; }
inline constexpr bool is_quantized(DType t) { return t >= DType::kQUInt8 && t <= DType::kQUInt2x4; }
// Has no arithmetic and no conversions: sub-byte integers, bits, packed numbers.
inline constexpr bool is_storage_only(DType t) { return t >= DType::kQUInt4x2; }
inline constexpr bool is_reduced_float(DType t) { return t == DType::kFloat16 || t == DType::kBFloat16; }
inline const char* name_of(DType t) { return dtype_info(t).name; }
bool is_signed(DType t);
// "Float", "ComplexDouble", "Byte": how error messages name a dtype ('"lt_cpu" not implemented for 'ComplexFloat'').
const char* type_name_of(DType t);

// float32 -> complex64 and so on; throws for dtypes without a counterpart.
DType to_complex(DType t);
DType to_real(DType t);  // complex64 -> float32; real dtypes map to themselves

// The smallest dtype that both convert to, by the documented table. Throws TypeError-free Error for float8 / quantized
// / uint16..64 mixes that have no common dtype.
DType promote_types(DType a, DType b);
// False for complex -> real, float -> integer, non-bool -> bool.
bool can_cast(DType from, DType to);
// "float32" or "float" (with or without "torch.") -> dtype.
std::optional<DType> parse_dtype(std::string_view name);

// Process-wide default floating dtype (float32 at start); thread-safe to read.
DType default_dtype();
void set_default_dtype(DType t);
DType default_complex_dtype();

template <class T>
struct DTypeOf;
#define TESSERA_DTYPE_OF(T, D)               \
  template <>                                \
  struct DTypeOf<T> {                        \
    static constexpr DType value = DType::D; \
  };
// clang-format off
TESSERA_DTYPE_OF(bool, kBool)
TESSERA_DTYPE_OF(uint8_t, kUInt8)
TESSERA_DTYPE_OF(int8_t, kInt8)
TESSERA_DTYPE_OF(int16_t, kInt16)
TESSERA_DTYPE_OF(int32_t, kInt32)
TESSERA_DTYPE_OF(int64_t, kInt64)
TESSERA_DTYPE_OF(uint16_t, kUInt16)
TESSERA_DTYPE_OF(uint32_t, kUInt32)
TESSERA_DTYPE_OF(uint64_t, kUInt64)
TESSERA_DTYPE_OF(Half, kFloat16)
TESSERA_DTYPE_OF(BFloat16, kBFloat16)
TESSERA_DTYPE_OF(float, kFloat32)
TESSERA_DTYPE_OF(double, kFloat64)
TESSERA_DTYPE_OF(ComplexHalf, kComplex32)
TESSERA_DTYPE_OF(std::complex<float>, kComplex64)
TESSERA_DTYPE_OF(std::complex<double>, kComplex128)
TESSERA_DTYPE_OF(Float8_e4m3fn, kFloat8_e4m3fn)
TESSERA_DTYPE_OF(Float8_e5m2, kFloat8_e5m2)
TESSERA_DTYPE_OF(Float8_e4m3fnuz, kFloat8_e4m3fnuz)
TESSERA_DTYPE_OF(Float8_e5m2fnuz, kFloat8_e5m2fnuz)
TESSERA_DTYPE_OF(Float8_e8m0fnu, kFloat8_e8m0fnu)
// clang-format on
#undef TESSERA_DTYPE_OF

}  // namespace tessera
