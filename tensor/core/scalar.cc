#include "tensor/core/scalar.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "tensor/core/error.h"
#include "tensor/core/visit.h"

namespace tessera {
namespace {

// Whether s is a number of an integral type of `digits` bits without its sign.
bool fits_integers(const Scalar& s, int digits, bool is_signed) {
  const uint64_t most = ~uint64_t{0} >> (64 - digits);
  if (s.is_floating_point() || s.is_complex()) {
    const double d = s.to_double(), end = std::ldexp(1.0, digits);
    return d >= (is_signed ? -end : 0) - 0.5 && d < end;
  }
  const int64_t i = s.to_int();
  const bool negative = i < 0 && s.kind() != Scalar::Kind::kUInt;
  // A negative number wraps into an unsigned type, as far as it is not below -most.
  if (negative) return is_signed ? ~static_cast<uint64_t>(i) <= most : ~static_cast<uint64_t>(i) < most;
  return !(is_signed && s.kind() == Scalar::Kind::kUInt) && static_cast<uint64_t>(i) <= most;
}

void check_fits(const Scalar& s, DType t) {
  bool fits = true;
  if (is_integral(t, false)) {
    const bool is_signed = tessera::is_signed(t);
    fits = fits_integers(s, static_cast<int>(8 * item_size(t)) - is_signed, is_signed);
  } else if (is_floating_point(t) && !is_float8(t)) {
    const double d = s.to_double();
    const double limit = t == DType::kFloat16   ? 65504.0
                         : t == DType::kFloat64 ? std::numeric_limits<double>::max()
                                                : static_cast<double>(std::numeric_limits<float>::max());
    fits = std::isnan(d) || std::isinf(d) || std::fabs(d) <= limit;
  }
  TESSERA_CHECK(fits && (is_complex(t) || t == DType::kBool || !s.is_complex() || s.to_complex().imag() == 0),
                "value cannot be converted to type ", name_of(t), " without overflow");
}

}  // namespace

void store_scalar(const Scalar& s, DType t, void* dst, bool check_overflow) {
  if (check_overflow) check_fits(s, t);
  if (is_integral(t, false)) {  // the low bytes: conversion of integers wraps
    static_assert(std::endian::native == std::endian::little);
    const int64_t i = s.is_floating_point() || s.is_complex() ? static_cast<int64_t>(s.to_double()) : s.to_int();
    std::memcpy(dst, &i, static_cast<size_t>(item_size(t)));
    return;
  }
  visit_dtype(t, [&]<class T>(TypeTag<T>) {
    T& out = *static_cast<T*>(dst);
    if constexpr (std::is_same_v<T, ComplexHalf>)
      out = ComplexHalf(std::complex<float>(s.to_complex()));
    else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>)
      out = T(s.to_complex());
    else if constexpr (std::is_same_v<T, bool>)
      out = s.to_bool();
    else if constexpr (std::is_same_v<T, double>)
      out = s.to_double();
    else if constexpr (!std::is_integral_v<T>)
      out = T(static_cast<float>(s.to_double()));
  });
}

Scalar load_scalar(DType t, const void* src) {
  return visit_dtype(t, [&]<class T>(TypeTag<T>) -> Scalar {
    const T v = *static_cast<const T*>(src);
    if constexpr (std::is_same_v<T, ComplexHalf>)
      return Scalar(std::complex<float>(v));
    else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::complex<float>> ||
                       std::is_same_v<T, std::complex<double>>)
      return Scalar(v);
    else
      return Scalar(static_cast<float>(v));
  });
}

}  // namespace tessera
