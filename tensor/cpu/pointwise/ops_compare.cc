// Comparisons, logic and predicates: bool results.
#include "tensor/cpu/pointwise/pointwise_ops.h"
#include "tensor/cpu/pointwise/pointwise_table.h"
#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/pointwise/ops_compare.cc"
#include "hwy/foreach_target.h"
#include "tensor/cpu/pointwise/pointwise-inl.h"

// clang-format off
#define TESSERA_OPS(X) \
  X(Eq, 2, 0) X(Ne, 2, 0) X(Lt, 2, 0) X(Le, 2, 0) X(LogicalAnd, 2, 0) X(LogicalOr, 2, 0) X(LogicalXor, 2, 0) \
  X(LogicalNot, 1, 0) X(Isnan, 1, 0) X(Isinf, 1, 0) X(Isfinite, 1, 0) X(Isposinf, 1, 0) X(Isneginf, 1, 0) \
  X(Signbit, 1, 0) X(Gt, 2, 0) X(Ge, 2, 0)
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {

#define TESSERA_CALL          \
  template <class D, class V> \
  static HWY_INLINE hn::Mask<D> Call
struct Eq {
  TESSERA_CALL(D, const KernelParam*, V a, V b) { return hn::Eq(a, b); }
};
struct Ne {
  TESSERA_CALL(D, const KernelParam*, V a, V b) { return hn::Not(hn::Eq(a, b)); }
};  // hn::Ne is false for nan
struct Lt {
  TESSERA_CALL(D, const KernelParam*, V a, V b) { return hn::Lt(a, b); }
};
struct Le {
  TESSERA_CALL(D, const KernelParam*, V a, V b) { return hn::Le(a, b); }
};
struct Gt {
  TESSERA_CALL(D, const KernelParam*, V a, V b) { return hn::Lt(b, a); }
};
struct Ge {
  TESSERA_CALL(D, const KernelParam*, V a, V b) { return hn::Le(b, a); }
};
template <class D, class V>
HWY_INLINE hn::Mask<D> IsTrue(D d, V x) {
  return hn::Not(hn::Eq(x, hn::Zero(d)));
}
struct LogicalAnd {
  TESSERA_CALL(D d, const KernelParam*, V a, V b) { return hn::And(IsTrue(d, a), IsTrue(d, b)); }
};
struct LogicalOr {
  TESSERA_CALL(D d, const KernelParam*, V a, V b) { return hn::Or(IsTrue(d, a), IsTrue(d, b)); }
};
struct LogicalXor {
  TESSERA_CALL(D d, const KernelParam*, V a, V b) { return hn::Xor(IsTrue(d, a), IsTrue(d, b)); }
};
struct LogicalNot {
  TESSERA_CALL(D d, const KernelParam*, V x) { return hn::Eq(x, hn::Zero(d)); }
};
struct Isnan {
  TESSERA_CALL(D, const KernelParam*, V x) { return hn::IsNaN(x); }
};
struct Isinf {
  TESSERA_CALL(D d, const KernelParam*, V x) { return hn::Eq(hn::Abs(x), hn::Inf(d)); }
};
struct Isfinite {
  TESSERA_CALL(D d, const KernelParam*, V x) { return hn::Lt(hn::Abs(x), hn::Inf(d)); }
};
struct Isposinf {
  TESSERA_CALL(D d, const KernelParam*, V x) { return hn::Eq(x, hn::Inf(d)); }
};
struct Isneginf {
  TESSERA_CALL(D d, const KernelParam*, V x) { return hn::Eq(x, hn::Neg(hn::Inf(d))); }
};
struct Signbit {  // the sign bit onto 1.0, so that -0 and -nan count
  TESSERA_CALL(D d, const KernelParam*, V x) { return hn::Lt(hn::CopySign(Splat(d, 1.0), x), hn::Zero(d)); }
};
#undef TESSERA_CALL

TESSERA_OPS(TESSERA_DEFINE_PREDICATES)

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace cpu {

TESSERA_OPS(TESSERA_CHOOSE)

namespace {

#define TESSERA_COMPARISON(Name, op)                 \
  struct Name {                                      \
    template <class T>                               \
    static bool call(const KernelParam*, T a, T b) { \
      return a op b;                                 \
    }                                                \
  };
TESSERA_COMPARISON(EqScalar, ==)
TESSERA_COMPARISON(NeScalar, !=)
TESSERA_COMPARISON(LtScalar, <)
TESSERA_COMPARISON(LeScalar, <=)
TESSERA_COMPARISON(GtScalar, >)
TESSERA_COMPARISON(GeScalar, >=)
#undef TESSERA_COMPARISON
struct AndScalar {
  template <class T>
  static bool call(const KernelParam*, T a, T b) {
    return (a != T{}) & (b != T{});
  }
};
struct OrScalar {
  template <class T>
  static bool call(const KernelParam*, T a, T b) {
    return (a != T{}) | (b != T{});
  }
};
struct XorScalar {
  template <class T>
  static bool call(const KernelParam*, T a, T b) {
    return (a != T{}) != (b != T{});
  }
};
struct NotScalar {
  template <class T>
  static bool call(const KernelParam*, T x) {
    return x == T{};
  }
};
struct FalseScalar {
  template <class T>
  static bool call(const KernelParam*, T) {
    return false;
  }
};
struct TrueScalar {
  template <class T>
  static bool call(const KernelParam*, T) {
    return true;
  }
};
struct NegativeScalar {
  template <class T>
  static bool call(const KernelParam*, T x) {
    return x < T{0};
  }
};
struct IsnanComplex {
  template <class T>
  static bool call(const KernelParam*, T x) {
    return x.real() != x.real() || x.imag() != x.imag();
  }
};
struct IsinfComplex {
  template <class T>
  static bool call(const KernelParam*, T x) {
    return std::isinf(x.real()) || std::isinf(x.imag());
  }
};
struct IsfiniteComplex {
  template <class T>
  static bool call(const KernelParam*, T x) {
    return std::isfinite(x.real()) && std::isfinite(x.imag());
  }
};

template <int kInputs, class F>
consteval OpBuilder<kInputs, 0, ResultKind::kBool> ordered(const char* name, BlockKernel f32, BlockKernel f64) {
  return OpBuilder<kInputs, 0, ResultKind::kBool>(name).floats(f32, f64).template boolean<F>().template ints<F>();
}
}  // namespace
}  // namespace cpu

namespace pw {
using namespace cpu;

constinit const PointwiseOp eq = ordered<2, EqScalar>("eq_cpu", EqF32, EqF64).wide<EqScalar>().complexes<EqScalar>();
constinit const PointwiseOp ne = ordered<2, NeScalar>("ne_cpu", NeF32, NeF64).wide<NeScalar>().complexes<NeScalar>();
constinit const PointwiseOp lt = ordered<2, LtScalar>("lt_cpu", LtF32, LtF64);
constinit const PointwiseOp le = ordered<2, LeScalar>("le_cpu", LeF32, LeF64);
constinit const PointwiseOp gt = ordered<2, GtScalar>("gt_cpu", GtF32, GtF64);
constinit const PointwiseOp ge = ordered<2, GeScalar>("ge_cpu", GeF32, GeF64);
constinit const PointwiseOp logical_and =
    ordered<2, AndScalar>("logical_and_cpu", LogicalAndF32, LogicalAndF64).complexes<AndScalar>();
constinit const PointwiseOp logical_or =
    ordered<2, OrScalar>("logical_or_cpu", LogicalOrF32, LogicalOrF64).complexes<OrScalar>();
constinit const PointwiseOp logical_xor =
    ordered<2, XorScalar>("logical_xor_cpu", LogicalXorF32, LogicalXorF64).complexes<XorScalar>();
constinit const PointwiseOp logical_not =
    ordered<1, NotScalar>("logical_not_cpu", LogicalNotF32, LogicalNotF64).complexes<NotScalar>();
constinit const PointwiseOp isnan =
    ordered<1, FalseScalar>("isnan_cpu", IsnanF32, IsnanF64).wide<FalseScalar>().complexes<IsnanComplex>();
constinit const PointwiseOp isinf =
    ordered<1, FalseScalar>("isinf_cpu", IsinfF32, IsinfF64).wide<FalseScalar>().complexes<IsinfComplex>();
constinit const PointwiseOp isfinite =
    ordered<1, TrueScalar>("isfinite_cpu", IsfiniteF32, IsfiniteF64).wide<TrueScalar>().complexes<IsfiniteComplex>();
constinit const PointwiseOp isposinf =
    ordered<1, FalseScalar>("isposinf_cpu", IsposinfF32, IsposinfF64).wide<FalseScalar>();
constinit const PointwiseOp isneginf =
    ordered<1, FalseScalar>("isneginf_cpu", IsneginfF32, IsneginfF64).wide<FalseScalar>();
constinit const PointwiseOp signbit =
    ordered<1, NegativeScalar>("signbit_cpu", SignbitF32, SignbitF64).wide<FalseScalar>();

}  // namespace pw
}  // namespace tessera
#endif
