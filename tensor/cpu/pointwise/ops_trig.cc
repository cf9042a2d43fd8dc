// Circular and hyperbolic functions and their inverses.
#include "tensor/cpu/pointwise/pointwise_ops.h"
#include "tensor/cpu/pointwise/pointwise_table.h"
#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/pointwise/ops_trig.cc"
#include "hwy/foreach_target.h"
#include "tensor/cpu/math/math_trig-inl.h"
#include "tensor/cpu/pointwise/pointwise-inl.h"
#include "tensor/cpu/pointwise/through_double-inl.h"

// clang-format off
#define TESSERA_OPS(X) \
  X(Sin, 1, 0) X(Cos, 1, 0) X(Tan, 1, 0) X(Asin, 1, 0) X(Acos, 1, 0) X(Atan, 1, 0) X(Sinh, 1, 0) X(Cosh, 1, 0) \
  X(Tanh, 1, 0) X(Asinh, 1, 0) X(Acosh, 1, 0) X(Atanh, 1, 0) X(Atan2, 2, 0) X(Hypot, 2, 0)
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {

#define TESSERA_FUNCTION1(Name)                              \
  struct Name {                                              \
    template <class D, class V>                              \
    static HWY_INLINE V Call(D d, const KernelParam*, V x) { \
      return math::Name(d, x);                               \
    }                                                        \
  };
// clang-format off
TESSERA_FUNCTION1(Sin)
TESSERA_FUNCTION1(Cos)
TESSERA_FUNCTION1(Tan)
TESSERA_FUNCTION1(Asin)
TESSERA_FUNCTION1(Acos)
TESSERA_FUNCTION1(Atan)
TESSERA_FUNCTION1(Sinh)
TESSERA_FUNCTION1(Cosh)
TESSERA_FUNCTION1(Tanh)
TESSERA_FUNCTION1(Asinh)
TESSERA_FUNCTION1(Acosh)
TESSERA_FUNCTION1(Atanh)
// clang-format on
#undef TESSERA_FUNCTION1
struct Atan2 {
  template <class D, class V>
  static HWY_INLINE V Call(D d, const KernelParam*, V y, V x) {
    return math::Atan2(d, y, x);
  }
};
struct Hypot {
  template <class D, class V>
  static HWY_INLINE V Call(D d, const KernelParam*, V a, V b) {
    return math::Hypot(d, a, b);
  }
};

TESSERA_OPS(TESSERA_DEFINE_LONG_KERNELS)

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace cpu {

TESSERA_OPS(TESSERA_CHOOSE)

namespace {
#define TESSERA_COMPLEX(Name, f)             \
  struct Name {                              \
    template <class T>                       \
    static T call(const KernelParam*, T x) { \
      return std::f(x);                      \
    }                                        \
  };
TESSERA_COMPLEX(SinComplex, sin)
TESSERA_COMPLEX(CosComplex, cos)
TESSERA_COMPLEX(TanComplex, tan)
TESSERA_COMPLEX(AsinComplex, asin)
TESSERA_COMPLEX(AcosComplex, acos)
TESSERA_COMPLEX(AtanComplex, atan)
TESSERA_COMPLEX(SinhComplex, sinh)
TESSERA_COMPLEX(CoshComplex, cosh)
TESSERA_COMPLEX(TanhComplex, tanh)
TESSERA_COMPLEX(AsinhComplex, asinh)
TESSERA_COMPLEX(AcoshComplex, acosh)
TESSERA_COMPLEX(AtanhComplex, atanh)
#undef TESSERA_COMPLEX
}  // namespace
}  // namespace cpu

namespace pw {
using namespace cpu;

constinit const PointwiseOp sin = OpBuilder<1>("sin_cpu").floats(SinF32, SinF64).complexes<SinComplex>().int_to_float();
constinit const PointwiseOp cos = OpBuilder<1>("cos_cpu").floats(CosF32, CosF64).complexes<CosComplex>().int_to_float();
constinit const PointwiseOp tan = OpBuilder<1>("tan_cpu").floats(TanF32, TanF64).complexes<TanComplex>().int_to_float();
constinit const PointwiseOp asin =
    OpBuilder<1>("asin_cpu").floats(AsinF32, AsinF64).complexes<AsinComplex>().int_to_float();
constinit const PointwiseOp acos =
    OpBuilder<1>("acos_cpu").floats(AcosF32, AcosF64).complexes<AcosComplex>().int_to_float();
constinit const PointwiseOp atan =
    OpBuilder<1>("atan_cpu").floats(AtanF32, AtanF64).complexes<AtanComplex>().int_to_float();
constinit const PointwiseOp sinh =
    OpBuilder<1>("sinh_cpu").floats(SinhF32, SinhF64).complexes<SinhComplex>().int_to_float();
constinit const PointwiseOp cosh =
    OpBuilder<1>("cosh_cpu").floats(CoshF32, CoshF64).complexes<CoshComplex>().int_to_float();
constinit const PointwiseOp tanh =
    OpBuilder<1>("tanh_cpu").floats(TanhF32, TanhF64).complexes<TanhComplex>().int_to_float();
constinit const PointwiseOp asinh =
    OpBuilder<1>("asinh_cpu").floats(AsinhF32, AsinhF64).complexes<AsinhComplex>().int_to_float();
constinit const PointwiseOp acosh =
    OpBuilder<1>("acosh_cpu").floats(AcoshF32, AcoshF64).complexes<AcoshComplex>().int_to_float();
constinit const PointwiseOp atanh =
    OpBuilder<1>("atanh_cpu").floats(AtanhF32, AtanhF64).complexes<AtanhComplex>().int_to_float();
constinit const PointwiseOp atan2 = OpBuilder<2>("atan2_cpu").floats(Atan2F32, Atan2F64).int_to_float();
constinit const PointwiseOp hypot = OpBuilder<2>("hypot_cpu").floats(HypotF32, HypotF64);

}  // namespace pw
}  // namespace tessera
#endif
