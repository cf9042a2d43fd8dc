// Circular and hyperbolic functions and their inverses.
#include "tensor/cuda/pointwise/pointwise_math.h"

namespace tessera::pw {
extern __attribute__((weak)) const PointwiseOp sin, cos, tan, asin, acos, atan, sinh, cosh, tanh, asinh, acosh, atanh,
    atan2, hypot;
}

namespace tessera::cuda {
namespace {

// A functor Name: std::f of real numbers, math::f of complex ones.
#define TESSERA_FUNCTION(Name, f)                                        \
  struct Name : Unary {                                                  \
    template <class T>                                                   \
    static __device__ T call(const KernelParam*, T x) {                  \
      if constexpr (is_complex_type<T>)                                  \
        return math::in_double(x, [](math::Z z) { return math::f(z); }); \
      else                                                               \
        return std::f(x);                                                \
    }                                                                    \
  };
TESSERA_FUNCTION(Sin, sin)
TESSERA_FUNCTION(Cos, cos)
TESSERA_FUNCTION(Tan, tan)
TESSERA_FUNCTION(Asin, asin)
TESSERA_FUNCTION(Acos, acos)
TESSERA_FUNCTION(Atan, atan)
TESSERA_FUNCTION(Sinh, sinh)
TESSERA_FUNCTION(Cosh, cosh)
TESSERA_FUNCTION(Tanh, tanh)
TESSERA_FUNCTION(Asinh, asinh)
TESSERA_FUNCTION(Acosh, acosh)
TESSERA_FUNCTION(Atanh, atanh)
#undef TESSERA_FUNCTION

struct Atan2 : Binary {
  template <class T>
  static __device__ T call(const KernelParam*, T y, T x) {
    return std::atan2(y, x);
  }
};
struct Hypot : Binary {
  template <class T>
  static __device__ T call(const KernelParam*, T a, T b) {
    return std::hypot(a, b);
  }
};

constexpr PointwiseEntry kEntries[] = {
    math_entry<Sin>(&pw::sin).complexes<Apart<Sin>>(),
    math_entry<Cos>(&pw::cos).complexes<Apart<Cos>>(),
    math_entry<Tan>(&pw::tan).complexes<Apart<Tan>>(),
    math_entry<Asin>(&pw::asin).complexes<Apart<Asin>>(),
    math_entry<Acos>(&pw::acos).complexes<Apart<Acos>>(),
    math_entry<Atan>(&pw::atan).complexes<Apart<Atan>>(),
    math_entry<Sinh>(&pw::sinh).complexes<Apart<Sinh>>(),
    math_entry<Cosh>(&pw::cosh).complexes<Apart<Cosh>>(),
    math_entry<Tanh>(&pw::tanh).complexes<Apart<Tanh>>(),
    math_entry<Asinh>(&pw::asinh).complexes<Apart<Asinh>>(),
    math_entry<Acosh>(&pw::acosh).complexes<Apart<Acosh>>(),
    math_entry<Atanh>(&pw::atanh).complexes<Apart<Atanh>>(),
    math_entry<Atan2>(&pw::atan2),
    math_entry<Hypot>(&pw::hypot),
};

}  // namespace

PointwiseTable trigonometric_kernels() { return kEntries; }

}  // namespace tessera::cuda
