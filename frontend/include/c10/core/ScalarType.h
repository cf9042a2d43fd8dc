// Element types: the documented numbering of ScalarType, the C++ types behind them, and TypeMeta.
#pragma once

#include <array>
#include <complex>
#include <limits>
#include <ostream>
#include <string_view>

#include "c10/util/Exception.h"
#include "tensor/core/dtype.h"

namespace c10 {

using Half = tessera::Half;
using BFloat16 = tessera::BFloat16;
using ComplexHalf = tessera::ComplexHalf;
using Float8_e4m3fn = tessera::Float8_e4m3fn;
using Float8_e5m2 = tessera::Float8_e5m2;
using Float8_e4m3fnuz = tessera::Float8_e4m3fnuz;
using Float8_e5m2fnuz = tessera::Float8_e5m2fnuz;
using Float8_e8m0fnu = tessera::Float8_e8m0fnu;
template <class T>
using complex = std::complex<T>;
struct qint8 {
  int8_t val_;
};
struct quint8 {
  uint8_t val_;
};
struct qint32 {
  int32_t val_;
};

// Name in C++, the C++ type, name as a dtype (k...), Tessera's dtype, name of a tensor type. In the documented order.
#define TESSERA_SCALAR_TYPES(_)                                                 \
  _(Byte, uint8_t, kUInt8, "unsigned char")                                     \
  _(Char, int8_t, kInt8, "signed char")                                         \
  _(Short, int16_t, kInt16, "short int")                                        \
  _(Int, int, kInt32, "int")                                                    \
  _(Long, int64_t, kInt64, "long int")                                          \
  _(Half, ::c10::Half, kFloat16, "c10::Half")                                   \
  _(Float, float, kFloat32, "float")                                            \
  _(Double, double, kFloat64, "double")                                         \
  _(ComplexHalf, ::c10::ComplexHalf, kComplex32, "c10::complex<c10::Half>")     \
  _(ComplexFloat, ::c10::complex<float>, kComplex64, "c10::complex<float>")     \
  _(ComplexDouble, ::c10::complex<double>, kComplex128, "c10::complex<double>") \
  _(Bool, bool, kBool, "bool")                                                  \
  _(QInt8, ::c10::qint8, kQInt8, "c10::qint8")                                  \
  _(QUInt8, ::c10::quint8, kQUInt8, "c10::quint8")                              \
  _(QInt32, ::c10::qint32, kQInt32, "c10::qint32")                              \
  _(BFloat16, ::c10::BFloat16, kBFloat16, "c10::BFloat16")

enum class ScalarType : int8_t {
#define TESSERA_ENUMERATOR(Name, T, dtype, shown) Name,
  TESSERA_SCALAR_TYPES(TESSERA_ENUMERATOR)
#undef TESSERA_ENUMERATOR
      QUInt4x2,
  QUInt2x4,
  Bits1x8,
  Bits2x4,
  Bits4x2,
  Bits8,
  Bits16,
  Float8_e5m2,
  Float8_e4m3fn,
  Float8_e5m2fnuz,
  Float8_e4m3fnuz,
  UInt16,
  UInt32,
  UInt64,
  UInt1,
  UInt2,
  UInt3,
  UInt4,
  UInt5,
  UInt6,
  UInt7,
  Int1,
  Int2,
  Int3,
  Int4,
  Int5,
  Int6,
  Int7,
  Float8_e8m0fnu,
  Float4_e2m1fn_x2,
  Undefined,
  NumOptions
};
inline constexpr int NumScalarTypes = static_cast<int>(ScalarType::NumOptions);

namespace detail {
inline constexpr tessera::DType kDTypes[] = {
#define TESSERA_DTYPE(Name, T, dtype, shown) tessera::DType::dtype,
    TESSERA_SCALAR_TYPES(TESSERA_DTYPE)
#undef TESSERA_DTYPE
        tessera::DType::kQUInt4x2,
    tessera::DType::kQUInt2x4,
    tessera::DType::kBits1x8,
    tessera::DType::kBits2x4,
    tessera::DType::kBits4x2,
    tessera::DType::kBits8,
    tessera::DType::kBits16,
    tessera::DType::kFloat8_e5m2,
    tessera::DType::kFloat8_e4m3fn,
    tessera::DType::kFloat8_e5m2fnuz,
    tessera::DType::kFloat8_e4m3fnuz,
    tessera::DType::kUInt16,
    tessera::DType::kUInt32,
    tessera::DType::kUInt64,
    tessera::DType::kUInt1,
    tessera::DType::kUInt2,
    tessera::DType::kUInt3,
    tessera::DType::kUInt4,
    tessera::DType::kUInt5,
    tessera::DType::kUInt6,
    tessera::DType::kUInt7,
    tessera::DType::kInt1,
    tessera::DType::kInt2,
    tessera::DType::kInt3,
    tessera::DType::kInt4,
    tessera::DType::kInt5,
    tessera::DType::kInt6,
    tessera::DType::kInt7,
    tessera::DType::kFloat8_e8m0fnu,
    tessera::DType::kFloat4_e2m1fn_x2};
static_assert(std::size(kDTypes) == static_cast<size_t>(ScalarType::Undefined));
consteval auto scalar_types() {
  std::array<ScalarType, tessera::kNumDTypes> t{};
  for (size_t i = 0; i < std::size(kDTypes); ++i) t[static_cast<size_t>(kDTypes[i])] = static_cast<ScalarType>(i);
  return t;
}
inline constexpr auto kScalarTypes = scalar_types();
}  // namespace detail

inline tessera::DType to_dtype(ScalarType t) {
  TORCH_CHECK(t < ScalarType::Undefined, "there are no tensors of an undefined ScalarType");
  return detail::kDTypes[static_cast<int>(t)];
}
constexpr ScalarType to_scalar_type(tessera::DType t) { return detail::kScalarTypes[static_cast<size_t>(t)]; }

inline const char* toString(ScalarType t) {
  static constexpr const char* kNames[] = {
#define TESSERA_NAME(Name, T, dtype, shown) #Name,
      TESSERA_SCALAR_TYPES(TESSERA_NAME)
#undef TESSERA_NAME
          "QUInt4x2",
      "QUInt2x4",
      "Bits1x8",
      "Bits2x4",
      "Bits4x2",
      "Bits8",
      "Bits16",
      "Float8_e5m2",
      "Float8_e4m3fn",
      "Float8_e5m2fnuz",
      "Float8_e4m3fnuz",
      "UInt16",
      "UInt32",
      "UInt64",
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
      "Int7",
      "Float8_e8m0fnu",
      "Float4_e2m1fn_x2",
      "Undefined"};
  return t <= ScalarType::Undefined ? kNames[static_cast<int>(t)] : "UNKNOWN_SCALAR";
}
inline std::ostream& operator<<(std::ostream& out, ScalarType t) { return out << toString(t); }

inline size_t elementSize(ScalarType t) { return static_cast<size_t>(tessera::item_size(to_dtype(t))); }
inline bool isIntegralType(ScalarType t, bool include_bool) {
  return t < ScalarType::Undefined && tessera::is_integral(to_dtype(t), include_bool);
}
inline bool isFloatingType(ScalarType t) {
  return t < ScalarType::Undefined && tessera::is_floating_point(to_dtype(t));
}
inline bool isComplexType(ScalarType t) { return t < ScalarType::Undefined && tessera::is_complex(to_dtype(t)); }
inline bool isReducedFloatingType(ScalarType t) {
  return t == ScalarType::Half || t == ScalarType::BFloat16 ||
         (t < ScalarType::Undefined && tessera::is_float8(to_dtype(t)));
}
inline bool isQIntType(ScalarType t) { return t < ScalarType::Undefined && tessera::is_quantized(to_dtype(t)); }
inline bool isSignedType(ScalarType t) { return tessera::is_signed(to_dtype(t)); }
inline ScalarType toComplexType(ScalarType t) { return to_scalar_type(tessera::to_complex(to_dtype(t))); }
inline ScalarType toRealValueType(ScalarType t) { return to_scalar_type(tessera::to_real(to_dtype(t))); }
inline ScalarType promoteTypes(ScalarType a, ScalarType b) {
  return to_scalar_type(tessera::promote_types(to_dtype(a), to_dtype(b)));
}
inline ScalarType promote_types(ScalarType a, ScalarType b) { return promoteTypes(a, b); }
inline bool canCast(ScalarType from, ScalarType to) { return tessera::can_cast(to_dtype(from), to_dtype(to)); }

// The ScalarType of a C++ type, and the other way round.
template <class T>
struct CppTypeToScalarType {};
namespace impl {
template <ScalarType t>
struct ScalarTypeToCPPType {};
template <ScalarType t>
using ScalarTypeToCPPTypeT = typename ScalarTypeToCPPType<t>::type;
}  // namespace impl
#define TESSERA_CPP_TYPE(Name, T, dtype, shown)                                            \
  template <>                                                                              \
  struct CppTypeToScalarType<T> : std::integral_constant<ScalarType, ScalarType::Name> {}; \
  template <>                                                                              \
  struct impl::ScalarTypeToCPPType<ScalarType::Name> {                                     \
    using type = T;                                                                        \
  };
TESSERA_SCALAR_TYPES(TESSERA_CPP_TYPE)
TESSERA_CPP_TYPE(UInt16, uint16_t, , )
TESSERA_CPP_TYPE(UInt32, uint32_t, , )
TESSERA_CPP_TYPE(UInt64, uint64_t, , )
TESSERA_CPP_TYPE(Float8_e5m2, Float8_e5m2, , )
TESSERA_CPP_TYPE(Float8_e4m3fn, Float8_e4m3fn, , )
TESSERA_CPP_TYPE(Float8_e5m2fnuz, Float8_e5m2fnuz, , )
TESSERA_CPP_TYPE(Float8_e4m3fnuz, Float8_e4m3fnuz, , )
TESSERA_CPP_TYPE(Float8_e8m0fnu, Float8_e8m0fnu, , )
#undef TESSERA_CPP_TYPE
template <>  // where int64_t is long, long long is as wide
struct CppTypeToScalarType<long long> : std::integral_constant<ScalarType, ScalarType::Long> {};

#define TESSERA_CONSTANT(Name, T, dtype, shown) inline constexpr ScalarType k##Name = ScalarType::Name;
TESSERA_SCALAR_TYPES(TESSERA_CONSTANT)
#undef TESSERA_CONSTANT
inline constexpr ScalarType kUInt8 = kByte, kInt8 = kChar, kInt16 = kShort, kInt32 = kInt, kInt64 = kLong,
                            kFloat16 = kHalf, kFloat32 = kFloat, kFloat64 = kDouble, kComplex32 = kComplexHalf,
                            kComplex64 = kComplexFloat, kComplex128 = kComplexDouble;
inline constexpr ScalarType kUInt16 = ScalarType::UInt16, kUInt32 = ScalarType::UInt32, kUInt64 = ScalarType::UInt64,
                            kFloat8_e5m2 = ScalarType::Float8_e5m2, kFloat8_e4m3fn = ScalarType::Float8_e4m3fn,
                            kFloat8_e5m2fnuz = ScalarType::Float8_e5m2fnuz,
                            kFloat8_e4m3fnuz = ScalarType::Float8_e4m3fnuz,
                            kFloat8_e8m0fnu = ScalarType::Float8_e8m0fnu;

}  // namespace c10

namespace caffe2 {

// An element type as a value of its own: what Tensor::dtype() gives.
class TypeMeta {
 public:
  TypeMeta() = default;
  TypeMeta(c10::ScalarType t) : type_(t) {}
  static TypeMeta fromScalarType(c10::ScalarType t) { return t; }
  template <class T>
  static TypeMeta Make() {
    return c10::CppTypeToScalarType<T>::value;
  }
  template <class T>
  bool Match() const {
    return type_ == c10::CppTypeToScalarType<T>::value;
  }
  c10::ScalarType toScalarType() const { return type_; }
  bool isScalarType() const { return type_ < c10::ScalarType::Undefined; }
  bool isScalarType(c10::ScalarType t) const { return type_ == t; }
  size_t itemsize() const { return isScalarType() ? c10::elementSize(type_) : 0; }
  std::string_view name() const {
    switch (type_) {
#define TESSERA_SHOWN(Name, T, dtype, shown) \
  case c10::ScalarType::Name:                \
    return shown;
      TESSERA_SCALAR_TYPES(TESSERA_SHOWN)
#undef TESSERA_SHOWN
      case c10::ScalarType::UInt16:
        return "short unsigned int";
      case c10::ScalarType::UInt32:
        return "unsigned int";
      case c10::ScalarType::UInt64:
        return "long unsigned int";
      case c10::ScalarType::Undefined:
        return "nullptr (uninitialized)";
      case c10::ScalarType::Float8_e5m2:
        return "c10::Float8_e5m2";
      case c10::ScalarType::Float8_e4m3fn:
        return "c10::Float8_e4m3fn";
      default:
        return c10::toString(type_);
    }
  }
  friend bool operator==(TypeMeta a, TypeMeta b) { return a.type_ == b.type_; }
  friend bool operator==(TypeMeta a, c10::ScalarType b) { return a.type_ == b; }
  friend std::ostream& operator<<(std::ostream& out, TypeMeta t) { return out << t.name(); }

 private:
  c10::ScalarType type_ = c10::ScalarType::Undefined;
};

}  // namespace caffe2

namespace c10 {

using caffe2::TypeMeta;
inline ScalarType typeMetaToScalarType(TypeMeta t) { return t.toScalarType(); }
inline TypeMeta scalarTypeToTypeMeta(ScalarType t) { return t; }
inline std::optional<ScalarType> optTypeMetaToScalarType(std::optional<TypeMeta> t) {
  return t ? std::optional<ScalarType>(t->toScalarType()) : std::nullopt;
}
inline TypeMeta get_default_dtype() { return to_scalar_type(tessera::default_dtype()); }
inline ScalarType get_default_dtype_as_scalartype() { return to_scalar_type(tessera::default_dtype()); }
inline TypeMeta get_default_complex_dtype() { return to_scalar_type(tessera::default_complex_dtype()); }
inline void set_default_dtype(TypeMeta t) { tessera::set_default_dtype(to_dtype(t.toScalarType())); }
template <class T>
inline bool isnan_(T v) {
  return v != v;
}

}  // namespace c10

// Arithmetic of the reduced types: computed in float, rounded to the type where both sides are of it or an integer.
namespace tessera {
#define TESSERA_REDUCED_OP(T, op)                                                           \
  inline T operator op(T a, T b) { return static_cast<float>(a) op static_cast<float>(b); } \
  template <class U>                                                                        \
  requires std::is_integral_v<U>                                                            \
  inline T operator op(T a, U b) { return a op static_cast<T>(static_cast<float>(b)); }     \
  template <class U>                                                                        \
  requires std::is_integral_v<U>                                                            \
  inline T operator op(U a, T b) { return static_cast<T>(static_cast<float>(a)) op b; }     \
  template <class U>                                                                        \
  requires std::is_floating_point_v<U>                                                      \
  inline U operator op(T a, U b) { return static_cast<float>(a) op b; }                     \
  template <class U>                                                                        \
  requires std::is_floating_point_v<U>                                                      \
  inline U operator op(U a, T b) { return a op static_cast<float>(b); }                     \
  inline T& operator op##=(T& a, T b) { return a = a op b; }
#define TESSERA_REDUCED(T)                                   \
  TESSERA_REDUCED_OP(T, +)                                   \
  TESSERA_REDUCED_OP(T, -)                                   \
  TESSERA_REDUCED_OP(T, *)                                   \
  TESSERA_REDUCED_OP(T, /)                                   \
  inline T operator-(T a) { return -static_cast<float>(a); } \
  inline std::ostream& operator<<(std::ostream& out, T a) { return out << static_cast<float>(a); }
TESSERA_REDUCED(Half)
TESSERA_REDUCED(BFloat16)
#undef TESSERA_REDUCED
#undef TESSERA_REDUCED_OP
}  // namespace tessera

namespace std {
#define TESSERA_LIMITS(T, lowest_bits, min_bits, max_bits, eps_bits, inf_bits, nan_bits, sub_bits, mantissa,     \
                       digits_10, max_10)                                                                        \
  template <>                                                                                                    \
  class numeric_limits<tessera::T> {                                                                             \
    static constexpr tessera::T of(uint16_t bits) {                                                              \
      tessera::T t;                                                                                              \
      t.bits = bits;                                                                                             \
      return t;                                                                                                  \
    }                                                                                                            \
                                                                                                                 \
   public:                                                                                                       \
    static constexpr bool is_specialized = true, is_signed = true, is_integer = false, is_exact = false,         \
                          has_infinity = true, has_quiet_NaN = true, has_signaling_NaN = true, is_iec559 = true, \
                          is_bounded = true, is_modulo = false, traps = false;                                   \
    static constexpr float_round_style round_style = round_to_nearest;                                           \
    static constexpr int digits = mantissa, digits10 = digits_10, max_digits10 = max_10, radix = 2;              \
    static constexpr int max_exponent = 1 << (15 - mantissa), min_exponent = 3 - max_exponent;                   \
    static constexpr int max_exponent10 = max_exponent * 30103 / 100000;                                         \
    static constexpr int min_exponent10 = (min_exponent - 1) * 30103 / 100000;                                   \
    static constexpr tessera::T min() { return of(min_bits); }                                                   \
    static constexpr tessera::T lowest() { return of(lowest_bits); }                                             \
    static constexpr tessera::T max() { return of(max_bits); }                                                   \
    static constexpr tessera::T epsilon() { return of(eps_bits); }                                               \
    static constexpr tessera::T infinity() { return of(inf_bits); }                                              \
    static constexpr tessera::T quiet_NaN() { return of(nan_bits); }                                             \
    static constexpr tessera::T signaling_NaN() { return of(inf_bits + 1); }                                     \
    static constexpr tessera::T denorm_min() { return of(sub_bits); }                                            \
    static constexpr tessera::T round_error() { return tessera::T(0.5f); }                                       \
  };
TESSERA_LIMITS(Half, 0xFBFF, 0x0400, 0x7BFF, 0x1400, 0x7C00, 0x7E00, 0x0001, 11, 3, 5)
TESSERA_LIMITS(BFloat16, 0xFF7F, 0x0080, 0x7F7F, 0x3C00, 0x7F80, 0x7FC0, 0x0001, 8, 2, 4)
#undef TESSERA_LIMITS
}  // namespace std
