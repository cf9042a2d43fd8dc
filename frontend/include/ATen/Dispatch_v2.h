// AT_DISPATCH_V2(TYPE, NAME, AT_WRAP([&] { ... }), AT_EXPAND(AT_FLOATING_TYPES), kHalf): any set of types.
#pragma once

#include "ATen/Dispatch.h"

#define AT_WRAP(...) __VA_ARGS__
#define AT_EXPAND(types) types
#define AT_FLOATING_TYPES ::at::ScalarType::Double, ::at::ScalarType::Float
#define AT_REDUCED_FLOATING_TYPES ::at::ScalarType::Half, ::at::ScalarType::BFloat16
#define AT_INTEGRAL_TYPES \
  ::at::ScalarType::Byte, ::at::ScalarType::Char, ::at::ScalarType::Int, ::at::ScalarType::Long, ::at::ScalarType::Short
#define AT_BAREBONES_UNSIGNED_TYPES ::at::ScalarType::UInt16, ::at::ScalarType::UInt32, ::at::ScalarType::UInt64
#define AT_INTEGRAL_TYPES_V2 AT_INTEGRAL_TYPES, AT_BAREBONES_UNSIGNED_TYPES
#define AT_COMPLEX_TYPES ::at::ScalarType::ComplexDouble, ::at::ScalarType::ComplexFloat
#define AT_ALL_TYPES AT_INTEGRAL_TYPES, AT_FLOATING_TYPES
#define AT_ALL_TYPES_AND_COMPLEX AT_ALL_TYPES, AT_COMPLEX_TYPES
#define AT_FLOAT8_TYPES                                                                              \
  ::at::ScalarType::Float8_e5m2, ::at::ScalarType::Float8_e5m2fnuz, ::at::ScalarType::Float8_e4m3fn, \
      ::at::ScalarType::Float8_e4m3fnuz

// One case after the other: each expansion of NEXT leaves the next one to be expanded.
#define TESSERA_V2_AGAIN() TESSERA_V2_NEXT
#define TESSERA_V2_BARE(...) __VA_ARGS__
#define TESSERA_V2_PARENTHESES ()
#define TESSERA_V2_NEXT(BODY, type, ...)       \
  AT_DISPATCH_CASE(type, TESSERA_V2_BARE BODY) \
  __VA_OPT__(TESSERA_V2_AGAIN TESSERA_V2_PARENTHESES(BODY, __VA_ARGS__))
#define TESSERA_V2_EXPAND(...) TESSERA_V2_EXPAND3(TESSERA_V2_EXPAND3(TESSERA_V2_EXPAND3(__VA_ARGS__)))
#define TESSERA_V2_EXPAND3(...) TESSERA_V2_EXPAND2(TESSERA_V2_EXPAND2(TESSERA_V2_EXPAND2(__VA_ARGS__)))
#define TESSERA_V2_EXPAND2(...) TESSERA_V2_EXPAND1(TESSERA_V2_EXPAND1(TESSERA_V2_EXPAND1(__VA_ARGS__)))
#define TESSERA_V2_EXPAND1(...) __VA_ARGS__
#define AT_DISPATCH_V2(TYPE, NAME, BODY, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, TESSERA_V2_EXPAND(TESSERA_V2_NEXT((BODY), __VA_ARGS__)))
