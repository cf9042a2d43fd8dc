// Error functions, gamma functions and their like.
#include "tensor/cuda/pointwise/pointwise_math.h"

namespace tessera::pw {
extern __attribute__((weak)) const PointwiseOp erf, erfc, erfinv, logit, lgamma, digamma, polygamma, sinc, entr, i0, i1,
    xlogy, xlog1py, logaddexp, logaddexp2;
}

namespace tessera::cuda {
namespace {

#define TESSERA_CALL \
  template <class T> \
  static __device__ T call

struct Erf : Unary {
  TESSERA_CALL(const KernelParam*, T x) { return std::erf(x); }
};
struct Erfc : Unary {
  TESSERA_CALL(const KernelParam*, T x) { return std::erfc(x); }
};
struct Erfinv : Unary {
  TESSERA_CALL(const KernelParam*, T x) { return math::erfinv(x); }
};
struct Logit : Unary {
  TESSERA_CALL(const KernelParam* p, T x) {
    if (!math::is_nan(p[0].f)) x = math::at_most(math::at_least(x, T(p[0].f)), T(1 - p[0].f));
    return std::log(x / (1 - x));
  }
};
struct Lgamma : Unary {
  TESSERA_CALL(const KernelParam*, T x) { return math::lgamma(x); }
};
struct Digamma : Unary {
  TESSERA_CALL(const KernelParam*, T x) { return math::digamma(x); }
};
struct Polygamma : Unary {
  TESSERA_CALL(const KernelParam* p, T x) { return static_cast<T>(math::polygamma(p[0].f, x)); }
};
struct Sinc : Unary {
  TESSERA_CALL(const KernelParam*, T x) {
    if (x == T(0)) return T(1);
    const T y = x * Real<T>(math::kPi);
    if constexpr (is_complex_type<T>)
      return math::div(math::in_double(y, [](math::Z z) { return math::sin(z); }), y);
    else
      return std::sin(y) / y;
  }
};
struct Entr : Unary {  // nan passes both comparisons
  TESSERA_CALL(const KernelParam*, T x) { return x < 0 ? -math::infinity<T>() : x == 0 ? T(0) : -(x * std::log(x)); }
};
struct I0 : Unary {
  TESSERA_CALL(const KernelParam*, T x) { return math::i0(x); }
};
struct I1 : Unary {
  TESSERA_CALL(const KernelParam*, T x) { return math::i1(x); }
};

struct Xlogy : Binary {
  TESSERA_CALL(const KernelParam*, T x, T y) { return math::is_nan(y) ? y : x == 0 ? T(0) : x * std::log(y); }
};
struct Xlog1py : Binary {
  TESSERA_CALL(const KernelParam*, T x, T y) { return math::is_nan(y) ? y : x == 0 ? T(0) : x * std::log1p(y); }
};
// The larger number + the logarithm of 1 + e^-(distance); equal infinities stay.
struct Logaddexp : Binary {
  TESSERA_CALL(const KernelParam*, T a, T b) {
    if constexpr (is_complex_type<T>) {
      const bool a_larger = a.real() >= b.real();
      const T high = a_larger ? a : b, low = a_larger ? b : a;
      if (a == b && math::is_inf(a.real())) return a;
      return high + math::in_double(low - high, [](math::Z z) { return math::log1p(math::exp(z)); });
    } else {
      if (a == b && math::is_inf(a)) return a;
      return math::at_least(a, b) + std::log1p(std::exp(-std::abs(a - b)));
    }
  }
};
struct Logaddexp2 : Binary {
  TESSERA_CALL(const KernelParam*, T a, T b) {
    if (a == b && math::is_inf(a)) return a;
    return math::at_least(a, b) + std::log1p(std::exp2(-std::abs(a - b))) * T(std::numbers::log2e);
  }
};
#undef TESSERA_CALL

constexpr PointwiseEntry kEntries[] = {
    math_entry<Erf>(&pw::erf),
    math_entry<Erfc>(&pw::erfc),
    PointwiseEntry{&pw::erfinv}.floats<Apart<Erfinv>>(),
    PointwiseEntry{&pw::lgamma}.floats<Apart<Lgamma>>(),
    PointwiseEntry{&pw::digamma}.floats<Apart<Digamma>>(),
    PointwiseEntry{&pw::polygamma}.floats<Apart<Polygamma>>(),
    PointwiseEntry{&pw::i0}.floats<Apart<I0>>(),
    PointwiseEntry{&pw::i1}.floats<Apart<I1>>(),
    math_entry<Logit>(&pw::logit),
    math_entry<Sinc>(&pw::sinc).complexes<Apart<Sinc>>(),
    math_entry<Entr>(&pw::entr),
    math_entry<Xlogy>(&pw::xlogy),
    math_entry<Xlog1py>(&pw::xlog1py),
    math_entry<Logaddexp>(&pw::logaddexp).complexes<Apart<Logaddexp>>(),
    math_entry<Logaddexp2>(&pw::logaddexp2),
};

}  // namespace

PointwiseTable special_kernels() { return kEntries; }

}  // namespace tessera::cuda
