// Squares, roots, exponentials and logarithms.
#include "tensor/cuda/pointwise/pointwise_math.h"

namespace tessera::pw {
extern __attribute__((weak)) const PointwiseOp square, reciprocal, sqrt, rsqrt, exp, exp2, expm1, log, log1p, log2,
    log10;
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
TESSERA_FUNCTION(Sqrt, sqrt)
TESSERA_FUNCTION(Exp, exp)
TESSERA_FUNCTION(Exp2, exp2)
TESSERA_FUNCTION(Expm1, expm1)
TESSERA_FUNCTION(Log, log)
TESSERA_FUNCTION(Log1p, log1p)
TESSERA_FUNCTION(Log2, log2)
TESSERA_FUNCTION(Log10, log10)
#undef TESSERA_FUNCTION

struct Square : Unary {
  template <class T>
  static __device__ T call(const KernelParam*, T x) {
    if constexpr (is_complex_type<T>)
      return math::mul(x, x);
    else if constexpr (std::is_floating_point_v<T>)
      return x * x;
    else
      return static_cast<T>(static_cast<Wrap<T>>(x) * static_cast<Wrap<T>>(x));
  }
};
struct Reciprocal : Unary {
  template <class T>
  static __device__ T call(const KernelParam*, T x) {
    if constexpr (is_complex_type<T>)
      return math::div(T(1), x);
    else
      return 1 / x;
  }
};
struct Rsqrt : Unary {
  template <class T>
  static __device__ T call(const KernelParam* p, T x) {
    if constexpr (is_complex_type<T>)
      return math::div(T(1), Sqrt::call(p, x));
    else
      return 1 / std::sqrt(x);
  }
};

constexpr PointwiseEntry kEntries[] = {
    PointwiseEntry{&pw::square}.floats<Square>().bits<Square>().complexes<Square>(),
    PointwiseEntry{&pw::reciprocal}.floats<Reciprocal>().complexes<Reciprocal>(),
    PointwiseEntry{&pw::sqrt}.floats<Sqrt>().complexes<Apart<Sqrt>>(),
    PointwiseEntry{&pw::rsqrt}.floats<Rsqrt>().complexes<Apart<Rsqrt>>(),
    math_entry<Exp>(&pw::exp).complexes<Apart<Exp>>(),
    math_entry<Exp2>(&pw::exp2).complexes<Apart<Exp2>>(),
    math_entry<Expm1>(&pw::expm1).complexes<Apart<Expm1>>(),
    math_entry<Log>(&pw::log).complexes<Apart<Log>>(),
    math_entry<Log1p>(&pw::log1p).complexes<Apart<Log1p>>(),
    math_entry<Log2>(&pw::log2).complexes<Apart<Log2>>(),
    math_entry<Log10>(&pw::log10).complexes<Apart<Log10>>(),
};

}  // namespace

PointwiseTable math_kernels() { return kEntries; }

}  // namespace tessera::cuda
