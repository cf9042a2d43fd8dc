// A block of code for each element type: inside, scalar_t is the type.
#pragma once

#include "ATen/core/Tensor.h"

namespace at::detail {
inline ScalarType scalar_type(ScalarType t) { return t; }
inline ScalarType scalar_type(caffe2::TypeMeta t) { return t.toScalarType(); }
inline ScalarType scalar_type(const Tensor& t) { return t.scalar_type(); }
}  // namespace at::detail

#define AT_DISPATCH_CASE(type, ...)                                            \
  case type: {                                                                 \
    using scalar_t [[maybe_unused]] = ::c10::impl::ScalarTypeToCPPTypeT<type>; \
    return __VA_ARGS__();                                                      \
  }
#define AT_DISPATCH_SWITCH(TYPE, NAME, ...)                                                            \
  [&] {                                                                                                \
    const auto& the_type = TYPE;                                                                       \
    const char* at_dispatch_name = NAME;                                                               \
    const ::at::ScalarType _st = ::at::detail::scalar_type(the_type);                                  \
    switch (_st) {                                                                                     \
      __VA_ARGS__                                                                                      \
      default:                                                                                         \
        ::c10::detail::raise<::c10::NotImplementedError>(                                              \
            ::c10::str('"', at_dispatch_name, "\" not implemented for '", ::c10::toString(_st), "'")); \
    }                                                                                                  \
  }()

#define TESSERA_CASES_INTEGRAL(...)                     \
  AT_DISPATCH_CASE(::at::ScalarType::Byte, __VA_ARGS__) \
  AT_DISPATCH_CASE(::at::ScalarType::Char, __VA_ARGS__) \
  AT_DISPATCH_CASE(::at::ScalarType::Int, __VA_ARGS__)  \
  AT_DISPATCH_CASE(::at::ScalarType::Long, __VA_ARGS__) \
  AT_DISPATCH_CASE(::at::ScalarType::Short, __VA_ARGS__)
#define TESSERA_CASES_FLOATING(...)                       \
  AT_DISPATCH_CASE(::at::ScalarType::Double, __VA_ARGS__) \
  AT_DISPATCH_CASE(::at::ScalarType::Float, __VA_ARGS__)
#define TESSERA_CASES_COMPLEX(...)                               \
  AT_DISPATCH_CASE(::at::ScalarType::ComplexDouble, __VA_ARGS__) \
  AT_DISPATCH_CASE(::at::ScalarType::ComplexFloat, __VA_ARGS__)
#define TESSERA_CASES_REDUCED(...)                      \
  AT_DISPATCH_CASE(::at::ScalarType::Half, __VA_ARGS__) \
  AT_DISPATCH_CASE(::at::ScalarType::BFloat16, __VA_ARGS__)
#define TESSERA_CASES_ALL(...) TESSERA_CASES_INTEGRAL(__VA_ARGS__) TESSERA_CASES_FLOATING(__VA_ARGS__)
#define TESSERA_CASES_ALL_AND_COMPLEX(...) TESSERA_CASES_ALL(__VA_ARGS__) TESSERA_CASES_COMPLEX(__VA_ARGS__)
#define TESSERA_CASES_FLOATING_AND_COMPLEX(...) TESSERA_CASES_FLOATING(__VA_ARGS__) TESSERA_CASES_COMPLEX(__VA_ARGS__)

#define AT_DISPATCH_INTEGRAL_TYPES(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, TESSERA_CASES_INTEGRAL(__VA_ARGS__))
#define AT_DISPATCH_INTEGRAL_TYPES_AND(T1, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, TESSERA_CASES_INTEGRAL(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, TESSERA_CASES_FLOATING(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND(T1, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, TESSERA_CASES_FLOATING(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND2(T1, T2, TYPE, NAME, ...)                           \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                                           \
                     TESSERA_CASES_FLOATING(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__) \
                         AT_DISPATCH_CASE(T2, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND3(T1, T2, T3, TYPE, NAME, ...)                       \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                                           \
                     TESSERA_CASES_FLOATING(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__) \
                         AT_DISPATCH_CASE(T2, __VA_ARGS__) AT_DISPATCH_CASE(T3, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND4(T1, T2, T3, T4, TYPE, NAME, ...)                                     \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                                                             \
                     TESSERA_CASES_FLOATING(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__) AT_DISPATCH_CASE( \
                         T2, __VA_ARGS__) AT_DISPATCH_CASE(T3, __VA_ARGS__) AT_DISPATCH_CASE(T4, __VA_ARGS__))
#define AT_DISPATCH_COMPLEX_TYPES(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, TESSERA_CASES_COMPLEX(__VA_ARGS__))
#define AT_DISPATCH_COMPLEX_TYPES_AND(T1, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, TESSERA_CASES_COMPLEX(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, TESSERA_CASES_ALL(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND(T1, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, TESSERA_CASES_ALL(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND2(T1, T2, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(                                       \
      TYPE, NAME, TESSERA_CASES_ALL(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__) AT_DISPATCH_CASE(T2, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND3(T1, T2, T3, TYPE, NAME, ...)                       \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                                      \
                     TESSERA_CASES_ALL(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__) \
                         AT_DISPATCH_CASE(T2, __VA_ARGS__) AT_DISPATCH_CASE(T3, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND4(T1, T2, T3, T4, TYPE, NAME, ...)                                     \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                                                        \
                     TESSERA_CASES_ALL(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__) AT_DISPATCH_CASE( \
                         T2, __VA_ARGS__) AT_DISPATCH_CASE(T3, __VA_ARGS__) AT_DISPATCH_CASE(T4, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, TESSERA_CASES_ALL_AND_COMPLEX(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND(T1, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, TESSERA_CASES_ALL_AND_COMPLEX(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND2(T1, T2, TYPE, NAME, ...)                           \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                                                  \
                     TESSERA_CASES_ALL_AND_COMPLEX(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__) \
                         AT_DISPATCH_CASE(T2, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND3(T1, T2, T3, TYPE, NAME, ...)                       \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                                                  \
                     TESSERA_CASES_ALL_AND_COMPLEX(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__) \
                         AT_DISPATCH_CASE(T2, __VA_ARGS__) AT_DISPATCH_CASE(T3, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND4(T1, T2, T3, T4, TYPE, NAME, ...)                                     \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                                                                    \
                     TESSERA_CASES_ALL_AND_COMPLEX(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__) AT_DISPATCH_CASE( \
                         T2, __VA_ARGS__) AT_DISPATCH_CASE(T3, __VA_ARGS__) AT_DISPATCH_CASE(T4, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND5(T1, T2, T3, T4, T5, TYPE, NAME, ...)               \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                                                  \
                     TESSERA_CASES_ALL_AND_COMPLEX(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__) \
                         AT_DISPATCH_CASE(T2, __VA_ARGS__) AT_DISPATCH_CASE(T3, __VA_ARGS__)      \
                             AT_DISPATCH_CASE(T4, __VA_ARGS__) AT_DISPATCH_CASE(T5, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND6(T1, T2, T3, T4, T5, T6, TYPE, NAME, ...)                             \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                                                                    \
                     TESSERA_CASES_ALL_AND_COMPLEX(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__) AT_DISPATCH_CASE( \
                         T2, __VA_ARGS__) AT_DISPATCH_CASE(T3, __VA_ARGS__) AT_DISPATCH_CASE(T4, __VA_ARGS__)       \
                         AT_DISPATCH_CASE(T5, __VA_ARGS__) AT_DISPATCH_CASE(T6, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND7(T1, T2, T3, T4, T5, T6, T7, TYPE, NAME, ...)       \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                                                  \
                     TESSERA_CASES_ALL_AND_COMPLEX(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__) \
                         AT_DISPATCH_CASE(T2, __VA_ARGS__) AT_DISPATCH_CASE(T3, __VA_ARGS__)      \
                             AT_DISPATCH_CASE(T4, __VA_ARGS__) AT_DISPATCH_CASE(T5, __VA_ARGS__)  \
                                 AT_DISPATCH_CASE(T6, __VA_ARGS__) AT_DISPATCH_CASE(T7, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND8(T1, T2, T3, T4, T5, T6, T7, T8, TYPE, NAME, ...)                      \
  AT_DISPATCH_SWITCH(                                                                                                \
      TYPE, NAME,                                                                                                    \
      TESSERA_CASES_ALL_AND_COMPLEX(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__) AT_DISPATCH_CASE(T2, __VA_ARGS__) \
          AT_DISPATCH_CASE(T3, __VA_ARGS__) AT_DISPATCH_CASE(T4, __VA_ARGS__) AT_DISPATCH_CASE(T5, __VA_ARGS__)      \
              AT_DISPATCH_CASE(T6, __VA_ARGS__) AT_DISPATCH_CASE(T7, __VA_ARGS__) AT_DISPATCH_CASE(T8, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, TESSERA_CASES_FLOATING_AND_COMPLEX(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND1(T1, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, TESSERA_CASES_FLOATING_AND_COMPLEX(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND2(T1, T2, TYPE, NAME, ...)                           \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                                                       \
                     TESSERA_CASES_FLOATING_AND_COMPLEX(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__) \
                         AT_DISPATCH_CASE(T2, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND3(T1, T2, T3, TYPE, NAME, ...)                       \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                                                       \
                     TESSERA_CASES_FLOATING_AND_COMPLEX(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__) \
                         AT_DISPATCH_CASE(T2, __VA_ARGS__) AT_DISPATCH_CASE(T3, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND4(T1, T2, T3, T4, TYPE, NAME, ...)                   \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                                                       \
                     TESSERA_CASES_FLOATING_AND_COMPLEX(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__) \
                         AT_DISPATCH_CASE(T2, __VA_ARGS__) AT_DISPATCH_CASE(T3, __VA_ARGS__)           \
                             AT_DISPATCH_CASE(T4, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND5(T1, T2, T3, T4, T5, TYPE, NAME, ...)               \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                                                       \
                     TESSERA_CASES_FLOATING_AND_COMPLEX(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__) \
                         AT_DISPATCH_CASE(T2, __VA_ARGS__) AT_DISPATCH_CASE(T3, __VA_ARGS__)           \
                             AT_DISPATCH_CASE(T4, __VA_ARGS__) AT_DISPATCH_CASE(T5, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND6(T1, T2, T3, T4, T5, T6, TYPE, NAME, ...)                   \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                                                               \
                     TESSERA_CASES_FLOATING_AND_COMPLEX(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__)         \
                         AT_DISPATCH_CASE(T2, __VA_ARGS__) AT_DISPATCH_CASE(T3, __VA_ARGS__) AT_DISPATCH_CASE( \
                             T4, __VA_ARGS__) AT_DISPATCH_CASE(T5, __VA_ARGS__) AT_DISPATCH_CASE(T6, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(TYPE, NAME, ...) \
  AT_DISPATCH_FLOATING_TYPES_AND(::at::ScalarType::Half, TYPE, NAME, __VA_ARGS__)
#define AT_DISPATCH_REDUCED_FLOATING_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, TESSERA_CASES_REDUCED(__VA_ARGS__))
#define AT_DISPATCH_CASE_INTEGRAL_TYPES TESSERA_CASES_INTEGRAL
#define AT_DISPATCH_CASE_FLOATING_TYPES TESSERA_CASES_FLOATING
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND_HALF(...) \
  TESSERA_CASES_FLOATING(__VA_ARGS__) AT_DISPATCH_CASE(::at::ScalarType::Half, __VA_ARGS__)
#define AT_DISPATCH_CASE_REDUCED_FLOATING_TYPES TESSERA_CASES_REDUCED
#define AT_DISPATCH_CASE_COMPLEX_TYPES TESSERA_CASES_COMPLEX
#define AT_DISPATCH_CASE_ALL_TYPES TESSERA_CASES_ALL
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX TESSERA_CASES_ALL_AND_COMPLEX
#define AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES TESSERA_CASES_FLOATING_AND_COMPLEX

#define TESSERA_INDEX_CASE(type, ...)                                                           \
  case ::at::ScalarType::type: {                                                                \
    using index_t [[maybe_unused]] = ::c10::impl::ScalarTypeToCPPTypeT<::at::ScalarType::type>; \
    return __VA_ARGS__();                                                                       \
  }
#define AT_DISPATCH_INDEX_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, TESSERA_INDEX_CASE(Int, __VA_ARGS__) TESSERA_INDEX_CASE(Long, __VA_ARGS__))
