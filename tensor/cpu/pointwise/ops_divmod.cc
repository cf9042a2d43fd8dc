// Rounded quotients, remainders, powers and other functions of two numbers. The integer ones are guarded against what
// traps.
#include <cmath>
#include <cstring>

#include "tensor/core/error.h"
#include "tensor/core/half.h"
#include "tensor/cpu/pointwise/pointwise_ops.h"
#include "tensor/cpu/pointwise/pointwise_plan.h"
#include "tensor/cpu/pointwise/pointwise_table.h"
#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/pointwise/ops_divmod.cc"
#include "hwy/foreach_target.h"
#include "tensor/cpu/math/math-inl.h"
#include "tensor/cpu/pointwise/pointwise-inl.h"

// clang-format off
#define TESSERA_OPS(X) \
  X(DivTrunc, 2, 0) X(DivFloor, 2, 0) X(Remainder, 2, 0) X(Fmod, 2, 0) X(Pow, 2, 0) X(Heaviside, 2, 0) \
  X(Copysign, 2, 0) X(Xlogy, 2, 0) X(Xlog1py, 2, 0) X(Logaddexp, 2, 0) X(Logaddexp2, 2, 0)
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {

#define TESSERA_CALL          \
  template <class D, class V> \
  static HWY_INLINE V Call
struct DivTrunc {
  TESSERA_CALL(D, const KernelParam*, V a, V b) { return hn::Trunc(hn::Div(a, b)); }
};
struct Fmod {
  TESSERA_CALL(D d, const KernelParam*, V a, V b) { return math::Fmod(d, a, b); }
};
// Whether a floored quotient is one less than the truncated one, given the remainder `mod` of the latter.
template <class D, class V>
HWY_INLINE hn::Mask<D> FloorDiffers(D d, V mod, V b) {
  const V zero = hn::Zero(d);
  return hn::AndNot(hn::Eq(mod, zero), hn::Xor(hn::Lt(b, zero), hn::Lt(mod, zero)));
}
struct Remainder {
  TESSERA_CALL(D d, const KernelParam*, V a, V b) {
    const V mod = math::Fmod(d, a, b);
    return hn::IfThenElse(FloorDiffers(d, mod, b), hn::Add(mod, b), mod);
  }
};
struct DivFloor {  // Python's float floor division: exact where a - fmod(a, b) is, with the quotient's sign on a zero
  TESSERA_CALL(D d, const KernelParam*, V a, V b) {
    const V zero = hn::Zero(d), one = Splat(d, 1.0), mod = math::Fmod(d, a, b), quotient = hn::Div(a, b);
    V div = hn::Div(hn::Sub(a, mod), b);
    div = hn::IfThenElse(FloorDiffers(d, mod, b), hn::Sub(div, one), div);
    const V floored = hn::Floor(div);
    const V near = hn::IfThenElse(hn::Gt(hn::Sub(div, floored), Splat(d, 0.5)), hn::Add(floored, one), floored);
    const V whole = hn::IfThenElse(hn::Eq(div, zero), hn::CopySign(zero, quotient), near);
    return hn::IfThenElse(hn::Eq(b, zero), quotient, whole);
  }
};
struct Pow {
  TESSERA_CALL(D d, const KernelParam*, V a, V b) { return math::Pow(d, a, b); }
};
struct Heaviside {
  TESSERA_CALL(D d, const KernelParam*, V x, V values) {
    return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), values, hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), Splat(d, 1.0)));
  }
};
struct Copysign {
  TESSERA_CALL(D, const KernelParam*, V a, V b) { return hn::CopySign(a, b); }
};
// 0 where x is 0, unless y is nan.
template <class D, class V>
HWY_INLINE V TimesLog(D d, V x, V y, V log) {
  return hn::IfThenElse(hn::IsNaN(y), y, hn::IfThenZeroElse(hn::Eq(x, hn::Zero(d)), hn::Mul(x, log)));
}
struct Xlogy {
  TESSERA_CALL(D d, const KernelParam*, V x, V y) { return TimesLog(d, x, y, math::Log(d, y)); }
};
struct Xlog1py {
  TESSERA_CALL(D d, const KernelParam*, V x, V y) { return TimesLog(d, x, y, math::Log1p(d, y)); }
};
// max(a, b) + scale log(1 + small); equal infinities stay.
template <class D, class V>
HWY_INLINE V AddLog(D d, V a, V b, V small, V scale) {
  const V sum = hn::MulAdd(math::Log1p(d, small), scale, hn::Max(a, b));
  return hn::IfThenElse(hn::And(hn::Eq(a, b), hn::Eq(hn::Abs(a), hn::Inf(d))), a, sum);
}
struct Logaddexp {
  TESSERA_CALL(D d, const KernelParam*, V a, V b) {
    return AddLog(d, a, b, math::Exp(d, hn::Neg(hn::Abs(hn::Sub(a, b)))), Splat(d, 1.0));
  }
};
struct Logaddexp2 {
  TESSERA_CALL(D d, const KernelParam*, V a, V b) {
    return AddLog(d, a, b, math::Exp2(d, hn::Neg(hn::Abs(hn::Sub(a, b)))), Splat(d, 1.4426950408889634));
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

// Division by zero is refused before a kernel runs (check_integer_divisor); these results only keep a kernel from
// trapping.
template <class T>
bool divides_safely(T b) {
  return b != 0;
}
template <class T>
T quotient(T a, T b) {  // towards zero; b != 0. The smallest integer over -1 wraps.
  if constexpr (std::is_signed_v<T>) {
    if (b == T{-1}) return static_cast<T>(Wrap<T>{0} - static_cast<Wrap<T>>(a));
  }
  return static_cast<T>(a / b);
}
template <class T>
T rest(T a, T b) {
  if constexpr (std::is_signed_v<T>) {
    if (b == T{-1}) return 0;
  }
  return static_cast<T>(a % b);
}

struct DivTruncScalar {
  template <class T>
  static T call(const KernelParam*, T a, T b) {
    if constexpr (!std::is_integral_v<T>)
      return T(std::trunc(static_cast<float>(T(a / b))));  // the quotient rounds to the 16-bit format first
    else
      return divides_safely(b) ? quotient(a, b) : T{0};
  }
};

struct DivFloorScalar {
  template <class T>
  static T call(const KernelParam*, T a, T b) {
    if (!divides_safely(b)) return T{0};
    const T q = quotient(a, b);
    return static_cast<T>(rest(a, b) != 0 && (a < 0) != (b < 0) ? q - 1 : q);
  }
};
struct RemainderScalar {
  template <class T>
  static T call(const KernelParam*, T a, T b) {
    if (!divides_safely(b)) return T{0};
    const T r = rest(a, b);
    return static_cast<T>(r != 0 && (r < 0) != (b < 0) ? r + b : r);
  }
};
struct FmodScalar {
  template <class T>
  static T call(const KernelParam*, T a, T b) {
    return divides_safely(b) ? rest(a, b) : T{0};
  }
};

struct PowScalar {
  template <class T>
  static T call(const KernelParam*, T a, T b) {
    if constexpr (kIsComplex<T>) {
      if (b == T(0)) return T(1);
      return std::pow(a, b);
    } else {
      return integer(a, b);
    }
  }
  template <class T>
  static T integer(T base, T exponent) {
    if (exponent < 0) {
      if (base == 1) return 1;
      if (std::is_signed_v<T> && base == static_cast<T>(-1)) return exponent & 1 ? static_cast<T>(-1) : T{1};
      return 0;
    }
    Wrap<T> result = 1, power = static_cast<Wrap<T>>(base);
    for (auto e = static_cast<std::make_unsigned_t<T>>(exponent); e != 0;
         e = static_cast<decltype(e)>(e >> 1), power *= power) {
      if (e & 1) result *= power;
    }
    return static_cast<T>(result);
  }
};

struct NextafterScalar {
  template <class T>
  static T call(const KernelParam*, T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return std::nextafter(a, b);
    } else {  // a 16-bit format: the neighbour in the order of its bits
      const float fa = a, fb = b;
      if (fa != fa || fb != fb) return T(fa + fb);
      if (fa == fb) return b;
      T r = a;
      if (fa == 0)
        r.bits = static_cast<uint16_t>(fb > 0 ? 1 : 0x8001);
      else
        r.bits = static_cast<uint16_t>((fa < fb) == (fa > 0) ? a.bits + 1 : a.bits - 1);
      return r;
    }
  }
};
struct HeavisideScalar {
  template <class T>
  static T call(const KernelParam*, T x, T values) {
    return x == 0 ? values : static_cast<T>(x > 0);
  }
};
struct LogaddexpComplex {
  template <class T>
  static T call(const KernelParam*, T a, T b) {
    const bool a_larger = a.real() >= b.real();
    const T high = a_larger ? a : b, low = a_larger ? b : a;
    if (a == b && std::isinf(a.real())) return a;
    return high + std::log(T(1) + std::exp(low - high));
  }
};

bool has_zero(const char* data, int64_t n, int64_t size) {
  static constexpr char kZero[16] = {};
  for (int64_t i = 0; i < n; ++i) {
    if (std::memcmp(data + i * size, kZero, size) == 0) return true;
  }
  return false;
}

}  // namespace

void check_integer_divisor(std::span<const int64_t> shape, const Operand& divisor) {
  if (!is_integral(divisor.dtype, true)) return;
  Plan plan;
  make_plan(plan, shape, &divisor.strides, 1);
  if (plan.numel == 0) return;
  const int64_t size = item_size(divisor.dtype);
  // A broadcast dimension repeats what has been seen.
  for (int d = 0; d < plan.ndim; ++d) {
    if (plan.strides[0][d] != 0) continue;
    plan.numel /= plan.shape[d];
    plan.shape[d] = 1;
  }
  const char* data = static_cast<const char*>(divisor.data);
  Cursor c;
  c.seek(plan, 0);
  alignas(16) char block[4096];
  const int64_t room = static_cast<int64_t>(sizeof(block)) / size;
  for (int64_t at = 0; at < plan.numel;) {
    const int64_t n = std::min(room, plan.numel - at);
    gather_block(plan, c, 0, data, n, size, block);
    TESSERA_CHECK(!has_zero(block, n, size), "ZeroDivisionError");
    at += n;
    c.advance(plan, n);
  }
}

}  // namespace cpu

namespace pw {
using namespace cpu;

constinit const PointwiseOp div_trunc = OpBuilder<2>("div_trunc_cpu")
                                            .floats(DivTruncF32, DivTruncF64)
                                            .ints<DivTruncScalar>()
                                            .scalar<Half, DivTruncScalar>()
                                            .scalar<BFloat16, DivTruncScalar>();
constinit const PointwiseOp div_floor =
    OpBuilder<2>("div_floor_cpu").floats(DivFloorF32, DivFloorF64).ints<DivFloorScalar>();
constinit const PointwiseOp remainder =
    OpBuilder<2>("remainder_cpu").floats(RemainderF32, RemainderF64).ints<RemainderScalar>();
constinit const PointwiseOp fmod = OpBuilder<2>("fmod_cpu").floats(FmodF32, FmodF64).ints<FmodScalar>();
constinit const PointwiseOp pow = OpBuilder<2>("pow").floats(PowF32, PowF64).ints<PowScalar>().complexes<PowScalar>();
constinit const PointwiseOp nextafter = OpBuilder<2>("nextafter_cpu")
                                            .scalar<float, NextafterScalar>()
                                            .scalar<double, NextafterScalar>()
                                            .scalar<BFloat16, NextafterScalar>()
                                            .scalar<Half, NextafterScalar>();
constinit const PointwiseOp heaviside =
    OpBuilder<2>("heaviside_cpu").floats(HeavisideF32, HeavisideF64).boolean<HeavisideScalar>().ints<HeavisideScalar>();
constinit const PointwiseOp copysign = OpBuilder<2>("copysign_cpu").floats(CopysignF32, CopysignF64).int_to_float();
constinit const PointwiseOp xlogy = OpBuilder<2>("xlogy_cpu").floats(XlogyF32, XlogyF64).int_to_float();
constinit const PointwiseOp xlog1py = OpBuilder<2>("xlog1py_cpu").floats(Xlog1pyF32, Xlog1pyF64).int_to_float();
constinit const PointwiseOp logaddexp =
    OpBuilder<2>("logaddexp_cpu").floats(LogaddexpF32, LogaddexpF64).complexes<LogaddexpComplex>();
constinit const PointwiseOp logaddexp2 = OpBuilder<2>("logaddexp2_cpu").floats(Logaddexp2F32, Logaddexp2F64);

}  // namespace pw
}  // namespace tessera
#endif
