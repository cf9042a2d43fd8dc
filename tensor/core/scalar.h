// A Python-like number argument: keeps its kind, because promotion depends on it.
#pragma once

#include <complex>
#include <cstdint>

#include "tensor/core/dtype.h"
#include "tensor/core/symint.h"

namespace tessera {

class Scalar {
 public:
  enum class Kind : uint8_t { kBool, kInt, kUInt, kDouble, kComplex };
  constexpr Scalar() : kind_(Kind::kInt), i_(0) {}
  constexpr Scalar(bool v) : kind_(Kind::kBool), i_(v) {}
  template <class T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) constexpr Scalar(T v)
      : kind_(std::is_unsigned_v<T> && sizeof(T) == 8 && v > static_cast<T>(INT64_MAX) ? Kind::kUInt : Kind::kInt),
        i_(static_cast<int64_t>(v)) {}
  constexpr Scalar(double v) : kind_(Kind::kDouble), d_(v) {}
  constexpr Scalar(float v) : Scalar(static_cast<double>(v)) {}
  Scalar(Half v) : Scalar(static_cast<double>(static_cast<float>(v))) {}
  Scalar(BFloat16 v) : Scalar(static_cast<double>(static_cast<float>(v))) {}
  constexpr Scalar(std::complex<double> v) : kind_(Kind::kComplex), d_(v.real()), imag_(v.imag()) {}
  constexpr Scalar(std::complex<float> v) : Scalar(std::complex<double>(v)) {}
  constexpr Scalar(SymInt v) : Scalar(v.guard_int()) {}

  Kind kind() const { return kind_; }
  bool is_bool() const { return kind_ == Kind::kBool; }
  bool is_integral(bool include_bool) const {
    return kind_ == Kind::kInt || kind_ == Kind::kUInt || (include_bool && is_bool());
  }
  bool is_floating_point() const { return kind_ == Kind::kDouble; }
  bool is_complex() const { return kind_ == Kind::kComplex; }
  // bool, int64, the default floating dtype or the default complex dtype is the caller's choice; this is the raw one:
  // float64, complex128.
  DType raw_dtype() const {
    switch (kind_) {
      case Kind::kBool:
        return DType::kBool;
      case Kind::kInt:
        return DType::kInt64;
      case Kind::kUInt:
        return DType::kUInt64;
      case Kind::kDouble:
        return DType::kFloat64;
      default:
        return DType::kComplex128;
    }
  }
  Category category() const { return category_of(raw_dtype()); }

  double to_double() const {
    return kind_ == Kind::kUInt     ? static_cast<double>(static_cast<uint64_t>(i_))
           : kind_ >= Kind::kDouble ? d_
                                    : static_cast<double>(i_);
  }
  int64_t to_int() const { return kind_ >= Kind::kDouble ? static_cast<int64_t>(d_) : i_; }
  bool to_bool() const { return kind_ >= Kind::kDouble ? d_ != 0 || (is_complex() && imag_ != 0) : i_ != 0; }
  std::complex<double> to_complex() const { return {to_double(), is_complex() ? imag_ : 0.0}; }
  Scalar operator-() const {
    return is_complex()          ? Scalar(-to_complex())
           : is_floating_point() ? Scalar(-d_)
                                 : Scalar(static_cast<int64_t>(-static_cast<uint64_t>(i_)));
  }
  Scalar conj() const { return is_complex() ? Scalar(std::conj(to_complex())) : *this; }
  // True if the value is exactly v.
  bool equals(double v) const { return is_complex() ? d_ == v && imag_ == 0 : to_double() == v; }

 private:
  Kind kind_;
  union {
    int64_t i_;
    double d_;
  };
  double imag_ = 0;
};

// Writes the scalar as one element of dtype t at dst (C conversions). Throws Error where it does not fit an integral
// dtype: overflow check as documented for fill and full.
void store_scalar(const Scalar& s, DType t, void* dst, bool check_overflow = false);
Scalar load_scalar(DType t, const void* src);

}  // namespace tessera
