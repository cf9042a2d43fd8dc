#include "tensor/core/scalar.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include "tensor/core/error.h"
#include "tensor/core/visit.h"

namespace tessera {
namespace {

template <class T>
void check_fits(const Scalar& s, DType t) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    const double d = s.to_double();
    const bool fits =
        s.is_floating_point() || s.is_complex() ? d >= static_cast<double>(std::numeric_limits<T>::lowest()) - 0.5 &&
                                                      d < std::ldexp(1.0, std::numeric_limits<T>::digits)
        : std::is_unsigned_v<T>
            ? (s.kind() == Scalar::Kind::kUInt ? static_cast<uint64_t>(s.to_int()) <= std::numeric_limits<T>::max()
               // a negative number wraps into an unsigned dtype, as far as it is not below -max
               : s.to_int() < 0 ? -static_cast<double>(s.to_int()) <= static_cast<double>(std::numeric_limits<T>::max())
                                : static_cast<uint64_t>(s.to_int()) <= std::numeric_limits<T>::max())
            : s.kind() != Scalar::Kind::kUInt && s.to_int() >= static_cast<int64_t>(std::numeric_limits<T>::min()) &&
                  s.to_int() <= static_cast<int64_t>(std::numeric_limits<T>::max());
    TESSERA_CHECK(fits, "value cannot be converted to type ", name_of(t), " without overflow");
  } else if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    const double d = s.to_double();
    const double limit = std::is_same_v<T, Half>     ? 65504.0
                         : std::is_same_v<T, double> ? std::numeric_limits<double>::max()
                                                     : static_cast<double>(std::numeric_limits<float>::max());
    TESSERA_CHECK(std::isnan(d) || std::isinf(d) || std::fabs(d) <= limit, "value cannot be converted to type ",
                  name_of(t), " without overflow");
  }
}

}  // namespace

void store_scalar(const Scalar& s, DType t, void* dst, bool check_overflow) {
  visit_dtype(t, [&]<class T>(TypeTag<T>) {
    TESSERA_CHECK(
        !check_overflow || is_complex(t) || t == DType::kBool || !s.is_complex() || s.to_complex().imag() == 0,
        "value cannot be converted to type ", name_of(t), " without overflow");
    if (check_overflow) check_fits<T>(s, t);
    T& out = *static_cast<T*>(dst);
    if constexpr (std::is_same_v<T, ComplexHalf>)
      out = ComplexHalf(std::complex<float>(s.to_complex()));
    else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>)
      out = T(s.to_complex());
    else if constexpr (std::is_same_v<T, bool>)
      out = s.to_bool();
    else if constexpr (std::is_integral_v<T>)
      out = s.is_floating_point() || s.is_complex() ? static_cast<T>(static_cast<int64_t>(s.to_double()))
                                                    : static_cast<T>(s.to_int());
    else if constexpr (std::is_same_v<T, double>)
      out = s.to_double();
    else
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
