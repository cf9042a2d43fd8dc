// A number of any kind.
#pragma once

#include <limits>

#include "c10/core/ScalarType.h"
#include "tensor/core/scalar.h"

namespace c10 {

namespace detail {
template <class T>
inline constexpr bool is_number = std::is_arithmetic_v<T>;
[[noreturn]] inline void overflow(ScalarType t) {
  throw std::runtime_error(str("value cannot be converted to type ", TypeMeta(t).name(), " without overflow"));
}
}  // namespace detail

class Scalar : public tessera::Scalar {
 public:
  Scalar() = default;
  Scalar(const tessera::Scalar& s) : tessera::Scalar(s) {}
  template <class T>
  requires detail::is_number<T> Scalar(T v) : tessera::Scalar(v) {}
  Scalar(Half v) : tessera::Scalar(v) {}
  Scalar(BFloat16 v) : tessera::Scalar(v) {}
  template <class T>
  Scalar(std::complex<T> v) : tessera::Scalar(std::complex<double>(v)) {}

  bool isFloatingPoint() const { return is_floating_point(); }
  bool isIntegral(bool include_bool = false) const { return is_integral(include_bool); }
  bool isComplex() const { return is_complex(); }
  bool isBoolean() const { return is_bool(); }
  bool isUnsigned() const { return kind() == Kind::kUInt; }
  bool isSymbolic() const { return false; }
  ScalarType type() const { return to_scalar_type(raw_dtype()); }
  Scalar operator-() const { return tessera::Scalar::operator-(); }
  Scalar conj() const { return tessera::Scalar::conj(); }
  Scalar log() const {
    return isComplex()       ? Scalar(std::log(to_complex()))
           : to_double() < 0 ? Scalar(std::nan(""))
                             : Scalar(std::log(to_double()));
  }

  // The value as a T; std::runtime_error where it does not fit.
  template <class T>
  T to() const {
    if constexpr (std::is_same_v<T, Scalar>) {
      return *this;
    } else if constexpr (std::is_same_v<T, bool>) {
      return to_bool();
    } else if constexpr (std::is_same_v<T, std::complex<double>>) {
      return to_complex();
    } else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, ComplexHalf>) {
      return T(std::complex<float>(to_complex()));
    } else {
      if (isComplex() && to_complex().imag() != 0) detail::overflow(CppTypeToScalarType<T>::value);
      if constexpr (std::is_integral_v<T>) {
        if (isFloatingPoint() || isComplex()) {
          const double v = to_double();
          if (!(v > static_cast<double>(std::numeric_limits<T>::lowest()) - 1 &&
                v < static_cast<double>(std::numeric_limits<T>::max()) + 1))
            detail::overflow(CppTypeToScalarType<T>::value);
          return static_cast<T>(v);
        }
        const int64_t v = to_int();
        if constexpr (sizeof(T) < 8) {
          // Negative numbers wrap into unsigned types, as far as they fit.
          const int64_t low =
              std::is_signed_v<T> ? int64_t{std::numeric_limits<T>::lowest()} : -int64_t{std::numeric_limits<T>::max()};
          if (isUnsigned() || v < low || v > int64_t{std::numeric_limits<T>::max()})
            detail::overflow(CppTypeToScalarType<T>::value);
        } else if (std::is_signed_v<T> && isUnsigned()) {
          detail::overflow(CppTypeToScalarType<T>::value);
        }
        return static_cast<T>(v);
      } else {
        const double v = to_double();
        if (std::abs(v) > static_cast<double>(std::numeric_limits<T>::max()) && !std::isinf(v))
          detail::overflow(CppTypeToScalarType<T>::value);
        return static_cast<T>(v);
      }
    }
  }
#define TESSERA_TO(Name, T, dtype, shown) \
  T to##Name() const { return to<T>(); }
  TESSERA_TO(Byte, uint8_t, , )
  TESSERA_TO(Char, int8_t, , )
  TESSERA_TO(Short, int16_t, , )
  TESSERA_TO(Int, int, , )
  TESSERA_TO(Long, int64_t, , )
  TESSERA_TO(UInt64, uint64_t, , )
  TESSERA_TO(Half, ::c10::Half, , )
  TESSERA_TO(BFloat16, ::c10::BFloat16, , )
  TESSERA_TO(Float, float, , )
  TESSERA_TO(Double, double, , )
  TESSERA_TO(Bool, bool, , )
  TESSERA_TO(ComplexFloat, std::complex<float>, , )
  TESSERA_TO(ComplexDouble, std::complex<double>, , )
#undef TESSERA_TO

  template <class T>
  requires detail::is_number<T>
  bool equal(T v) const {
    if (isComplex()) return to_complex() == std::complex<double>(static_cast<double>(v));
    if constexpr (std::is_same_v<T, bool>) return isBoolean() && to_bool() == v;
    if (isBoolean()) return false;
    if (isFloatingPoint() || std::is_floating_point_v<T>) return to_double() == static_cast<double>(v);
    return to_int() == static_cast<int64_t>(v);
  }
  template <class T>
  bool equal(std::complex<T> v) const {
    return to_complex() == std::complex<double>(v);
  }
};
static_assert(sizeof(Scalar) == sizeof(tessera::Scalar));
inline std::ostream& operator<<(std::ostream& out, const Scalar& s) {
  if (s.isComplex()) return out << s.to_complex();
  if (s.isFloatingPoint()) return out << s.to_double();
  if (s.isBoolean()) return out << (s.to_bool() ? "true" : "false");
  return s.isUnsigned() ? out << s.toUInt64() : out << s.to_int();
}

}  // namespace c10
