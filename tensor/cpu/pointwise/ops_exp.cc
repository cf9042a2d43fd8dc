// Roots, exponentials and logarithms.
#include <limits>
#include <numbers>

#include "tensor/cpu/pointwise/pointwise_ops.h"
#include "tensor/cpu/pointwise/pointwise_table.h"
#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/pointwise/ops_exp.cc"
#include "hwy/foreach_target.h"
#include "tensor/cpu/math/math-inl.h"
#include "tensor/cpu/pointwise/pointwise-inl.h"

// clang-format off
#define TESSERA_OPS(X) \
  X(Sqrt, 1, 0) X(Rsqrt, 1, 0) X(Exp, 1, 0) X(Exp2, 1, 0) X(Expm1, 1, 0) X(Log, 1, 0) X(Log1p, 1, 0) X(Log2, 1, 0) \
  X(Log10, 1, 0)
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {

#define TESSERA_CALL          \
  template <class D, class V> \
  static HWY_INLINE V Call
struct Sqrt {
  TESSERA_CALL(D, const KernelParam*, V x) { return hn::Sqrt(x); }
};
struct Rsqrt {
  TESSERA_CALL(D d, const KernelParam*, V x) { return math::Rsqrt(d, x); }
};
struct Exp {
  TESSERA_CALL(D d, const KernelParam*, V x) { return math::Exp(d, x); }
};
struct Exp2 {
  TESSERA_CALL(D d, const KernelParam*, V x) { return math::Exp2(d, x); }
};
struct Expm1 {
  TESSERA_CALL(D d, const KernelParam*, V x) { return math::Expm1(d, x); }
};
struct Log {
  TESSERA_CALL(D d, const KernelParam*, V x) { return math::Log(d, x); }
};
struct Log1p {
  TESSERA_CALL(D d, const KernelParam*, V x) { return math::Log1p(d, x); }
};
struct Log2 {
  TESSERA_CALL(D d, const KernelParam*, V x) { return math::Log2(d, x); }
};
struct Log10 {
  TESSERA_CALL(D d, const KernelParam*, V x) { return math::Log10(d, x); }
};
#undef TESSERA_CALL

TESSERA_OPS(TESSERA_DEFINE_KERNELS)

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace cpu {

TESSERA_OPS(TESSERA_CHOOSE)

namespace {
struct SqrtComplex {
  template <class T>
  static T call(const KernelParam*, T x) {
    return std::sqrt(x);
  }
};
struct RsqrtComplex {
  template <class T>
  static T call(const KernelParam*, T x) {
    return div_complex(T(1), std::sqrt(x));
  }
};
struct ExpComplex {
  template <class T>
  static T call(const KernelParam*, T x) {
    return std::exp(x);
  }
};
struct Exp2Complex {
  template <class T>
  static T call(const KernelParam*, T x) {
    return std::exp(x * static_cast<typename T::value_type>(std::numbers::ln2));
  }
};
struct Expm1Complex {  // (e^a - 1) cos b + (cos b - 1) + i e^a sin b, with cos b - 1 = -2 sin^2(b / 2)
  template <class T>
  static T call(const KernelParam*, T x) {
    using R = typename T::value_type;
    const R a = x.real(), b = x.imag();
    if (a == -std::numeric_limits<R>::infinity()) return {-1, 0};
    const R h = std::sin(b / 2);
    const R real = std::isinf(a) ? std::exp(x).real() : std::expm1(a) * std::cos(b) - 2 * h * h;
    return {real, std::exp(x).imag()};
  }
};
struct LogComplex {
  template <class T>
  static T call(const KernelParam*, T x) {
    return std::log(x);
  }
};
struct Log1pComplex {  // |1 + z| without cancellation where it is near 1
  template <class T>
  static T call(const KernelParam*, T x) {
    using R = typename T::value_type;
    const R a = x.real(), b = x.imag();
    if (!(std::abs(a) < R(0.5) && std::abs(b) < R(0.5))) return std::log(T(1 + a, b));
    return {R(0.5) * std::log1p(a * (2 + a) + b * b), std::atan2(b, 1 + a)};
  }
};
struct Log2Complex {
  template <class T>
  static T call(const KernelParam*, T x) {
    return std::log(x) * static_cast<typename T::value_type>(std::numbers::log2e);
  }
};
struct Log10Complex {
  template <class T>
  static T call(const KernelParam*, T x) {
    return std::log10(x);
  }
};
}  // namespace
}  // namespace cpu

namespace pw {
using namespace cpu;

constinit const PointwiseOp sqrt =
    OpBuilder<1>("sqrt_cpu").floats(SqrtF32, SqrtF64).complexes<SqrtComplex>().int_to_float();
constinit const PointwiseOp rsqrt =
    OpBuilder<1>("rsqrt_cpu").floats(RsqrtF32, RsqrtF64).complexes<RsqrtComplex>().int_to_float();
constinit const PointwiseOp exp = OpBuilder<1>("exp_cpu").floats(ExpF32, ExpF64).complexes<ExpComplex>().int_to_float();
constinit const PointwiseOp exp2 =
    OpBuilder<1>("exp2_cpu").floats(Exp2F32, Exp2F64).complexes<Exp2Complex>().int_to_float();
constinit const PointwiseOp expm1 =
    OpBuilder<1>("expm1_cpu").floats(Expm1F32, Expm1F64).complexes<Expm1Complex>().int_to_float();
constinit const PointwiseOp log = OpBuilder<1>("log_cpu").floats(LogF32, LogF64).complexes<LogComplex>().int_to_float();
constinit const PointwiseOp log1p =
    OpBuilder<1>("log1p_cpu").floats(Log1pF32, Log1pF64).complexes<Log1pComplex>().int_to_float();
constinit const PointwiseOp log2 =
    OpBuilder<1>("log2_cpu").floats(Log2F32, Log2F64).complexes<Log2Complex>().int_to_float();
constinit const PointwiseOp log10 =
    OpBuilder<1>("log10_cpu").floats(Log10F32, Log10F64).complexes<Log10Complex>().int_to_float();

}  // namespace pw
}  // namespace tessera
#endif
