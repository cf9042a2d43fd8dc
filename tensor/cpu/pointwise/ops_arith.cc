// Sums, products, quotients, extremes, signs.
#include "tensor/cpu/pointwise/pointwise_ops.h"
#include "tensor/cpu/pointwise/pointwise_table.h"
#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/pointwise/ops_arith.cc"
#include "hwy/foreach_target.h"
#include "tensor/cpu/pointwise/pointwise-inl.h"

// clang-format off
#define TESSERA_OPS(X) \
  X(Add, 2, 1) X(Sub, 2, 1) X(Rsub, 2, 1) X(Mul, 2, 0) X(Div, 2, 0) X(Maximum, 2, 0) X(Minimum, 2, 0) X(Fmax, 2, 0) \
  X(Fmin, 2, 0) X(Abs, 1, 0) X(Neg, 1, 0) X(Sign, 1, 0) X(Square, 1, 0) X(Reciprocal, 1, 0)
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {

#define TESSERA_CALL          \
  template <class D, class V> \
  static HWY_INLINE V Call
struct Light {
  static constexpr bool kLight = true;
};
struct Add : Light {
  TESSERA_CALL(D d, const KernelParam* p, V a, V b) { return hn::MulAdd(Splat(d, p[0]), b, a); }
};
struct Sub : Light {
  TESSERA_CALL(D d, const KernelParam* p, V a, V b) { return hn::NegMulAdd(Splat(d, p[0]), b, a); }
};
struct Rsub : Light {
  TESSERA_CALL(D d, const KernelParam* p, V a, V b) { return hn::NegMulAdd(Splat(d, p[0]), a, b); }
};
struct Mul : Light {
  TESSERA_CALL(D, const KernelParam*, V a, V b) { return hn::Mul(a, b); }
};
struct Div {
  TESSERA_CALL(D, const KernelParam*, V a, V b) { return hn::Div(a, b); }
};
// The instructions return the second operand if either is nan, and for two zeros; a sum is nan if either is.
struct Maximum : Light {
  TESSERA_CALL(D, const KernelParam*, V a, V b) { return hn::IfThenElse(hn::IsNaN(a), a, hn::Max(a, b)); }
};
struct Minimum : Light {
  TESSERA_CALL(D, const KernelParam*, V a, V b) { return hn::IfThenElse(hn::IsNaN(a), a, hn::Min(a, b)); }
};
struct Fmax : Light {
  TESSERA_CALL(D, const KernelParam*, V a, V b) { return hn::IfThenElse(hn::IsNaN(b), a, hn::Max(a, b)); }
};
struct Fmin : Light {
  TESSERA_CALL(D, const KernelParam*, V a, V b) { return hn::IfThenElse(hn::IsNaN(b), a, hn::Min(a, b)); }
};
struct Abs {
  TESSERA_CALL(D, const KernelParam*, V x) { return hn::Abs(x); }
};
struct Neg {
  TESSERA_CALL(D d, const KernelParam*, V x) { return hn::Xor(x, hn::SignBit(d)); }
};
struct Sign {
  TESSERA_CALL(D d, const KernelParam*, V x) {
    const V zero = hn::Zero(d), one = Splat(d, 1.0);
    return hn::Sub(hn::IfThenElseZero(hn::Gt(x, zero), one), hn::IfThenElseZero(hn::Lt(x, zero), one));
  }
};
struct Square {
  TESSERA_CALL(D, const KernelParam*, V x) { return hn::Mul(x, x); }
};
struct Reciprocal {
  TESSERA_CALL(D d, const KernelParam*, V x) { return hn::Div(Splat(d, 1.0), x); }
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

// Integers, bool and complex.
struct AddScalar {
  template <class T>
  static T call(const KernelParam* p, T a, T b) {
    if constexpr (std::is_same_v<T, bool>)
      return a || (p[0].i && b);
    else if constexpr (kIsComplex<T>)
      return a + mul_complex(param<T>(p[0]), b);
    else
      return static_cast<T>(static_cast<Wrap<T>>(a) + static_cast<Wrap<T>>(p[0].i) * static_cast<Wrap<T>>(b));
  }
};
struct SubScalar {
  template <class T>
  static T call(const KernelParam* p, T a, T b) {
    if constexpr (kIsComplex<T>)
      return a - mul_complex(param<T>(p[0]), b);
    else
      return static_cast<T>(static_cast<Wrap<T>>(a) - static_cast<Wrap<T>>(p[0].i) * static_cast<Wrap<T>>(b));
  }
};
struct RsubScalar {
  template <class T>
  static T call(const KernelParam* p, T a, T b) {
    return SubScalar::call(p, b, a);
  }
};
struct MulScalar {
  template <class T>
  static T call(const KernelParam*, T a, T b) {
    if constexpr (std::is_same_v<T, bool>)
      return a && b;
    else if constexpr (kIsComplex<T>)
      return mul_complex(a, b);
    else
      return static_cast<T>(static_cast<Wrap<T>>(a) * static_cast<Wrap<T>>(b));
  }
};
struct DivScalar {
  template <class T>
  static T call(const KernelParam*, T a, T b) {
    return div_complex(a, b);
  }
};
struct MaximumScalar {
  template <class T>
  static T call(const KernelParam*, T a, T b) {
    return a < b ? b : a;
  }
};
struct MinimumScalar {
  template <class T>
  static T call(const KernelParam*, T a, T b) {
    return b < a ? b : a;
  }
};
struct AbsScalar {
  template <class T>
  static T call(const KernelParam*, T x) {
    if constexpr (std::is_unsigned_v<T>)
      return x;
    else
      return static_cast<T>(x < 0 ? Wrap<T>{0} - static_cast<Wrap<T>>(x) : static_cast<Wrap<T>>(x));
  }
  template <class R>
  static R call(const KernelParam*, std::complex<R> x) {
    return std::abs(x);
  }
};
struct NegScalar {
  template <class T>
  static T call(const KernelParam*, T x) {
    if constexpr (kIsComplex<T>)
      return -x;
    else
      return static_cast<T>(Wrap<T>{0} - static_cast<Wrap<T>>(x));
  }
};
struct CopyScalar {
  template <class T>
  static T call(const KernelParam*, T x) {
    return x;
  }
};
struct SignScalar {
  template <class T>
  static T call(const KernelParam*, T x) {
    if constexpr (kIsComplex<T>) {
      const auto size = std::abs(x);
      return size == 0 ? T{} : T(x.real() / size, x.imag() / size);
    } else {
      return static_cast<T>((x > T{0}) - (x < T{0}));
    }
  }
};
struct SquareScalar {
  template <class T>
  static T call(const KernelParam*, T x) {
    return MulScalar::call(nullptr, x, x);
  }
};
struct ReciprocalScalar {
  template <class T>
  static T call(const KernelParam*, T x) {
    return div_complex(T(1), x);
  }
};

}  // namespace
}  // namespace cpu

namespace pw {
using namespace cpu;

constinit const PointwiseOp add =
    OpBuilder<2, 1>("add_stub").floats(AddF32, AddF64).boolean<AddScalar>().ints<AddScalar>().complexes<AddScalar>();
constinit const PointwiseOp sub =
    OpBuilder<2, 1>("sub_stub").floats(SubF32, SubF64).ints<SubScalar>().complexes<SubScalar>();
constinit const PointwiseOp rsub =
    OpBuilder<2, 1>("sub_stub").floats(RsubF32, RsubF64).ints<RsubScalar>().complexes<RsubScalar>();
constinit const PointwiseOp mul = OpBuilder<2>("mul_cpu")
                                      .floats(MulF32, MulF64)
                                      .boolean<MulScalar>()
                                      .ints<MulScalar>()
                                      .wide<MulScalar>()
                                      .complexes<MulScalar>();
constinit const PointwiseOp div =
    OpBuilder<2>("div_true_cpu").floats(DivF32, DivF64).complexes<DivScalar>().int_to_float();
constinit const PointwiseOp maximum = OpBuilder<2>("maximum_cpu")
                                          .floats(MaximumF32, MaximumF64)
                                          .boolean<MaximumScalar>()
                                          .ints<MaximumScalar>()
                                          .wide<MaximumScalar>();
constinit const PointwiseOp minimum = OpBuilder<2>("minimum_cpu")
                                          .floats(MinimumF32, MinimumF64)
                                          .boolean<MinimumScalar>()
                                          .ints<MinimumScalar>()
                                          .wide<MinimumScalar>();
constinit const PointwiseOp fmax = OpBuilder<2>("maximum_cpu")
                                       .floats(FmaxF32, FmaxF64)
                                       .boolean<MaximumScalar>()
                                       .ints<MaximumScalar>()
                                       .wide<MaximumScalar>();
constinit const PointwiseOp fmin = OpBuilder<2>("minimum_cpu")
                                       .floats(FminF32, FminF64)
                                       .boolean<MinimumScalar>()
                                       .ints<MinimumScalar>()
                                       .wide<MinimumScalar>();
constinit const PointwiseOp abs =
    OpBuilder<1, 0, ResultKind::kReal>("abs_cpu").floats(AbsF32, AbsF64).ints<AbsScalar>().complexes<AbsScalar>();
constinit const PointwiseOp neg =
    OpBuilder<1>("neg_cpu").floats(NegF32, NegF64).ints<NegScalar>().complexes<NegScalar>();
constinit const PointwiseOp sign =
    OpBuilder<1>("sign_cpu").floats(SignF32, SignF64).boolean<CopyScalar>().ints<SignScalar>();
constinit const PointwiseOp sgn =
    OpBuilder<1>("sgn_cpu").floats(SignF32, SignF64).boolean<CopyScalar>().ints<SignScalar>().complexes<SignScalar>();
constinit const PointwiseOp square =
    OpBuilder<1>("square_cpu").floats(SquareF32, SquareF64).ints<SquareScalar>().complexes<SquareScalar>();
constinit const PointwiseOp reciprocal =
    OpBuilder<1>("reciprocal_cpu").floats(ReciprocalF32, ReciprocalF64).complexes<ReciprocalScalar>().int_to_float();

}  // namespace pw
}  // namespace tessera
#endif
