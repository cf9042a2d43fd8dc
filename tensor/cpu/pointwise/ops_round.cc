// Rounding, clamping, interpolation.
#include <cmath>

#include "tensor/cpu/pointwise/pointwise_ops.h"
#include "tensor/cpu/pointwise/pointwise_table.h"
#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/pointwise/ops_round.cc"
#include "hwy/foreach_target.h"
#include "tensor/cpu/pointwise/pointwise-inl.h"

// clang-format off
#define TESSERA_OPS(X) \
  X(Ceil, 1, 0) X(Floor, 1, 0) X(Round, 1, 0) X(RoundDecimals, 1, 1) X(Trunc, 1, 0) X(Frac, 1, 0) X(Clamp, 1, 2) \
  X(ClampTensor, 3, 0) X(ClampMinTensor, 2, 0) X(ClampMaxTensor, 2, 0) X(Lerp, 3, 0) X(LerpScalar, 2, 1) \
  X(Addcmul, 3, 1) X(Addcdiv, 3, 1) X(NanToNum, 1, 3)
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {

#define TESSERA_CALL          \
  template <class D, class V> \
  static HWY_INLINE V Call
struct Ceil {
  TESSERA_CALL(D, const KernelParam*, V x) { return hn::Ceil(x); }
};
struct Floor {
  TESSERA_CALL(D, const KernelParam*, V x) { return hn::Floor(x); }
};
struct Round {
  TESSERA_CALL(D, const KernelParam*, V x) { return hn::Round(x); }
};
struct Trunc {
  TESSERA_CALL(D, const KernelParam*, V x) { return hn::Trunc(x); }
};
struct Frac {
  TESSERA_CALL(D, const KernelParam*, V x) { return hn::Sub(x, hn::Trunc(x)); }
};
struct RoundDecimals {
  TESSERA_CALL(D d, const KernelParam* p, V x) {
    const double decimals = p[0].f;
    const V scale = Splat(d, std::pow(10.0, decimals < 0 ? -decimals : decimals));
    return decimals < 0 ? hn::Mul(hn::Round(hn::Div(x, scale)), scale) : hn::Div(hn::Round(hn::Mul(x, scale)), scale);
  }
};
// The instructions return their second operand if either is nan or both are equal: with x second, a nan in x stays; a
// nan bound is put first by hand.
template <class V>
HWY_INLINE V AtLeast(V x, V low) {
  return hn::IfThenElse(hn::IsNaN(low), low, hn::Max(low, x));
}
template <class V>
HWY_INLINE V AtMost(V x, V high) {
  return hn::IfThenElse(hn::IsNaN(high), high, hn::Min(high, x));
}
struct Clamp {
  TESSERA_CALL(D d, const KernelParam* p, V x) { return AtMost(AtLeast(x, Splat(d, p[0])), Splat(d, p[1])); }
};
struct ClampTensor {
  TESSERA_CALL(D, const KernelParam*, V x, V low, V high) { return AtMost(AtLeast(x, low), high); }
};
struct ClampMinTensor {
  TESSERA_CALL(D, const KernelParam*, V x, V low) { return AtLeast(x, low); }
};
struct ClampMaxTensor {
  TESSERA_CALL(D, const KernelParam*, V x, V high) { return AtMost(x, high); }
};
// Two branches, so that weights 0 and 1 give the ends exactly.
struct Lerp {
  TESSERA_CALL(D d, const KernelParam*, V start, V end, V w) {
    const V change = hn::Sub(end, start);
    return hn::IfThenElse(hn::Lt(hn::Abs(w), Splat(d, 0.5)), hn::MulAdd(w, change, start),
                          hn::NegMulAdd(change, hn::Sub(Splat(d, 1.0), w), end));
  }
};
struct LerpScalar {
  TESSERA_CALL(D d, const KernelParam* p, V start, V end) { return Lerp::Call(d, p, start, end, Splat(d, p[0])); }
};
struct Addcmul {
  TESSERA_CALL(D d, const KernelParam* p, V x, V a, V b) { return hn::MulAdd(hn::Mul(Splat(d, p[0]), a), b, x); }
};
struct Addcdiv {
  TESSERA_CALL(D d, const KernelParam* p, V x, V a, V b) { return hn::Add(x, hn::Div(hn::Mul(Splat(d, p[0]), a), b)); }
};
struct NanToNum {
  TESSERA_CALL(D d, const KernelParam* p, V x) {
    const V inf = hn::Inf(d);
    const V finite =
        hn::IfThenElse(hn::Eq(x, inf), Splat(d, p[1]), hn::IfThenElse(hn::Eq(x, hn::Neg(inf)), Splat(d, p[2]), x));
    return hn::IfThenElse(hn::IsNaN(x), Splat(d, p[0]), finite);
  }
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
struct Copy {
  template <class T>
  static T call(const KernelParam*, T x) {
    return x;
  }
};
template <class T>
T clamped(T x, T low, T high) {
  const T y = x < low ? low : x;
  return y > high ? high : y;
}
struct ClampInt {  // bounds beyond the type's range are no bounds
  template <class T>
  static T call(const KernelParam* p, T x) {
    if constexpr (std::is_same_v<T, uint64_t>) {
      const uint64_t low = p[0].i < 0 ? 0 : static_cast<uint64_t>(p[0].i);
      return clamped(x, low,
                     p[1].i == INT64_MAX ? UINT64_MAX
                     : p[1].i < 0        ? uint64_t{0}
                                         : static_cast<uint64_t>(p[1].i));
    } else {
      return static_cast<T>(clamped<int64_t>(x, p[0].i, p[1].i));
    }
  }
};
struct ClampTensorInt {
  template <class T>
  static T call(const KernelParam*, T x, T low, T high) {
    return clamped(x, low, high);
  }
};
struct ClampMinInt {
  template <class T>
  static T call(const KernelParam*, T x, T low) {
    return x < low ? low : x;
  }
};
struct ClampMaxInt {
  template <class T>
  static T call(const KernelParam*, T x, T high) {
    return x > high ? high : x;
  }
};
struct LerpComplex {
  template <class T>
  static T call(const KernelParam*, T start, T end, T w) {
    const T change = end - start;
    return std::norm(w) < 0.25f ? start + mul_complex(w, change) : end - mul_complex(change, T(1) - w);
  }
};
struct LerpScalarComplex {
  template <class T>
  static T call(const KernelParam* p, T start, T end) {
    return LerpComplex::call(p, start, end, param<T>(p[0]));
  }
};
struct AddcmulScalar {
  template <class T>
  static T call(const KernelParam* p, T x, T a, T b) {
    if constexpr (kIsComplex<T>)
      return x + mul_complex(mul_complex(param<T>(p[0]), a), b);
    else
      return static_cast<T>(static_cast<Wrap<T>>(x) +
                            static_cast<Wrap<T>>(p[0].i) * static_cast<Wrap<T>>(a) * static_cast<Wrap<T>>(b));
  }
};
struct AddcdivComplex {
  template <class T>
  static T call(const KernelParam* p, T x, T a, T b) {
    return x + div_complex(mul_complex(param<T>(p[0]), a), b);
  }
};
struct NanToNumComplex {
  template <class R>
  static R part(const KernelParam* p, R x) {
    if (std::isnan(x)) return static_cast<R>(p[0].f);
    return std::isinf(x) ? static_cast<R>(x > 0 ? p[1].f : p[2].f) : x;
  }
  template <class T>
  static T call(const KernelParam* p, T x) {
    return {part(p, x.real()), part(p, x.imag())};
  }
};
}  // namespace
}  // namespace cpu

namespace pw {
using namespace cpu;

constinit const PointwiseOp ceil = OpBuilder<1>("ceil_vml_cpu").floats(CeilF32, CeilF64).ints<Copy>().wide<Copy>();
constinit const PointwiseOp floor = OpBuilder<1>("floor_vml_cpu").floats(FloorF32, FloorF64).ints<Copy>().wide<Copy>();
constinit const PointwiseOp round = OpBuilder<1>("round_vml_cpu").floats(RoundF32, RoundF64).ints<Copy>().wide<Copy>();
constinit const PointwiseOp round_decimals =
    OpBuilder<1, 1>("round_vml_cpu").floats(RoundDecimalsF32, RoundDecimalsF64);
constinit const PointwiseOp trunc = OpBuilder<1>("trunc_vml_cpu").floats(TruncF32, TruncF64).ints<Copy>().wide<Copy>();
constinit const PointwiseOp frac = OpBuilder<1>("frac_cpu").floats(FracF32, FracF64);
constinit const PointwiseOp nan_to_num = OpBuilder<1, 3>("nan_to_num")
                                             .floats(NanToNumF32, NanToNumF64)
                                             .boolean<Copy>()
                                             .ints<Copy>()
                                             .wide<Copy>()
                                             .complexes<NanToNumComplex>();
constinit const PointwiseOp clamp =
    OpBuilder<1, 2>("clamp_scalar_cpu").floats(ClampF32, ClampF64).ints<ClampInt>().wide<ClampInt>();
constinit const PointwiseOp clamp_tensor =
    OpBuilder<3>("clamp_cpu").floats(ClampTensorF32, ClampTensorF64).ints<ClampTensorInt>().wide<ClampTensorInt>();
constinit const PointwiseOp clamp_min_tensor = OpBuilder<2>("maximum_cpu")
                                                   .floats(ClampMinTensorF32, ClampMinTensorF64)
                                                   .boolean<ClampMinInt>()
                                                   .ints<ClampMinInt>()
                                                   .wide<ClampMinInt>();
constinit const PointwiseOp clamp_max_tensor = OpBuilder<2>("minimum_cpu")
                                                   .floats(ClampMaxTensorF32, ClampMaxTensorF64)
                                                   .boolean<ClampMaxInt>()
                                                   .ints<ClampMaxInt>()
                                                   .wide<ClampMaxInt>();
constinit const PointwiseOp lerp = OpBuilder<3>("lerp_kernel_tensor").floats(LerpF32, LerpF64).complexes<LerpComplex>();
constinit const PointwiseOp lerp_scalar =
    OpBuilder<2, 1>("lerp_kernel_scalar").floats(LerpScalarF32, LerpScalarF64).complexes<LerpScalarComplex>();
constinit const PointwiseOp addcmul =
    OpBuilder<3, 1>("addcmul_cpu_out").floats(AddcmulF32, AddcmulF64).ints<AddcmulScalar>().complexes<AddcmulScalar>();
constinit const PointwiseOp addcdiv =
    OpBuilder<3, 1>("addcdiv_cpu_out").floats(AddcdivF32, AddcdivF64).complexes<AddcdivComplex>();

}  // namespace pw
}  // namespace tessera
#endif
