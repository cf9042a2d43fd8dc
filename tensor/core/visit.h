// From a dtype, or an element's size, known at run time to a C++ type: calls f(TypeTag<T>{}) with the element type.
#pragma once

#include "tensor/core/dtype.h"
#include "tensor/core/error.h"

namespace tessera {

template <class T>
struct TypeTag {
  using type = T;
};

template <class F>
decltype(auto) visit_dtype(DType t, F&& f) {
  switch (t) {
    case DType::kBool:
      return f(TypeTag<bool>{});
    case DType::kUInt8:
      return f(TypeTag<uint8_t>{});
    case DType::kInt8:
      return f(TypeTag<int8_t>{});
    case DType::kInt16:
      return f(TypeTag<int16_t>{});
    case DType::kInt32:
      return f(TypeTag<int32_t>{});
    case DType::kInt64:
      return f(TypeTag<int64_t>{});
    case DType::kUInt16:
      return f(TypeTag<uint16_t>{});
    case DType::kUInt32:
      return f(TypeTag<uint32_t>{});
    case DType::kUInt64:
      return f(TypeTag<uint64_t>{});
    case DType::kFloat16:
      return f(TypeTag<Half>{});
    case DType::kBFloat16:
      return f(TypeTag<BFloat16>{});
    case DType::kFloat32:
      return f(TypeTag<float>{});
    case DType::kFloat64:
      return f(TypeTag<double>{});
    case DType::kComplex32:
      return f(TypeTag<ComplexHalf>{});
    case DType::kComplex64:
      return f(TypeTag<std::complex<float>>{});
    case DType::kComplex128:
      return f(TypeTag<std::complex<double>>{});
    case DType::kFloat8_e4m3fn:
      return f(TypeTag<Float8_e4m3fn>{});
    case DType::kFloat8_e5m2:
      return f(TypeTag<Float8_e5m2>{});
    case DType::kFloat8_e4m3fnuz:
      return f(TypeTag<Float8_e4m3fnuz>{});
    case DType::kFloat8_e5m2fnuz:
      return f(TypeTag<Float8_e5m2fnuz>{});
    case DType::kFloat8_e8m0fnu:
      return f(TypeTag<Float8_e8m0fnu>{});
    default:
      internal::raise<NotImplementedError>("not implemented for dtype ", name_of(t));
  }
}

// Sixteen bytes that move as one element.
struct Bytes16 {
  uint64_t half[2];
};

// For elements that are moved as they are: f(TypeTag<T>{}) with an unsigned type of that many bytes (1, 2, 4 or 8), or
// Wide for 16.
template <class Wide = Bytes16, class F>
decltype(auto) visit_size(int64_t bytes, F&& f) {
  static_assert(sizeof(Wide) == 16);
  switch (bytes) {
    case 1:
      return f(TypeTag<uint8_t>{});
    case 2:
      return f(TypeTag<uint16_t>{});
    case 4:
      return f(TypeTag<uint32_t>{});
    case 8:
      return f(TypeTag<uint64_t>{});
    case 16:
      return f(TypeTag<Wide>{});
    default:
      internal::raise<Error>("no dtype has elements of ", bytes, " bytes");
  }
}

}  // namespace tessera
