// Choice by a mask, and the parts of complex numbers.
#include <cmath>
#include <numbers>

#include "tensor/core/half.h"
#include "tensor/cpu/pointwise/pointwise_ops.h"
#include "tensor/cpu/pointwise/pointwise_table.h"
#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/pointwise/ops_select.cc"
#include "hwy/foreach_target.h"
#include "tensor/cpu/pointwise/pointwise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

// out[i] = mask[i] ? a[i] : b[i] by the size of an element: they move bits, whatever these mean. `a` is one element for
// all where kFill says so.
template <class T, bool kFill>
HWY_INLINE void Select(int64_t n, void* out, const void* mask, const void* a, const void* b) {
  const hn::ScalableTag<T> d;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const uint8_t* const m = static_cast<const uint8_t*>(mask);
  const T* const x = static_cast<const T*>(a);
  const T* const y = static_cast<const T*>(b);
  T* const to = static_cast<T*>(out);
  const auto fill = hn::Set(d, kFill ? *x : T{0});
  const bool stream = stream_results && reinterpret_cast<uintptr_t>(out) % 64 == 0;
  const auto chosen = [&](int64_t i) HWY_ATTR {
    const auto bytes = hn::LoadU(d8, m + i);
    hn::Mask<decltype(d)> choice;
    if constexpr (sizeof(T) == 1)
      choice = hn::Ne(bytes, hn::Zero(d));
    else if constexpr (sizeof(T) == 8)
      choice = hn::Ne(hn::PromoteTo(d, hn::PromoteTo(hn::Rebind<uint32_t, decltype(d)>(), bytes)), hn::Zero(d));
    else
      choice = hn::Ne(hn::PromoteTo(d, bytes), hn::Zero(d));
    return hn::IfThenElse(choice, kFill ? fill : hn::LoadU(d, x + i), hn::LoadU(d, y + i));
  };
  int64_t i = 0;
  if (HWY_UNLIKELY(stream)) {
    for (; i + lanes <= n; i += lanes) {
      request_ahead(y + i);
      if (!kFill) request_ahead(x + i);
      hn::Stream(chosen(i), d, to + i);
    }
  }
  for (; i + lanes <= n; i += lanes) hn::StoreU(chosen(i), d, to + i);
  for (; i < n; ++i) to[i] = m[i] != 0 ? x[kFill ? 0 : i] : y[i];
}

}  // namespace

void Where1(int64_t n, void* out, const void* mask, const void* a, const void* b) {
  Select<uint8_t, false>(n, out, mask, a, b);
}
void Where2(int64_t n, void* out, const void* mask, const void* a, const void* b) {
  Select<uint16_t, false>(n, out, mask, a, b);
}
void Where4(int64_t n, void* out, const void* mask, const void* a, const void* b) {
  Select<uint32_t, false>(n, out, mask, a, b);
}
void Where8(int64_t n, void* out, const void* mask, const void* a, const void* b) {
  Select<uint64_t, false>(n, out, mask, a, b);
}
void Fill1(int64_t n, void* out, const void* mask, const void* value, const void* x) {
  Select<uint8_t, true>(n, out, mask, value, x);
}
void Fill2(int64_t n, void* out, const void* mask, const void* value, const void* x) {
  Select<uint16_t, true>(n, out, mask, value, x);
}
void Fill4(int64_t n, void* out, const void* mask, const void* value, const void* x) {
  Select<uint32_t, true>(n, out, mask, value, x);
}
void Fill8(int64_t n, void* out, const void* mask, const void* value, const void* x) {
  Select<uint64_t, true>(n, out, mask, value, x);
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace cpu {
namespace {

TESSERA_SIMD_TABLE(Where1);
TESSERA_SIMD_TABLE(Where2);
TESSERA_SIMD_TABLE(Where4);
TESSERA_SIMD_TABLE(Where8);
TESSERA_SIMD_TABLE(Fill1);
TESSERA_SIMD_TABLE(Fill2);
TESSERA_SIMD_TABLE(Fill4);
TESSERA_SIMD_TABLE(Fill8);

template <int kSize>
void where_kernel(TESSERA_KERNEL_PARAMETERS) {
  (void)params;
  if constexpr (kSize == 1)
    return TESSERA_SIMD(Where1)(n, outs[0], ins[0], ins[1], ins[2]);
  else if constexpr (kSize == 2)
    return TESSERA_SIMD(Where2)(n, outs[0], ins[0], ins[1], ins[2]);
  else if constexpr (kSize == 4)
    return TESSERA_SIMD(Where4)(n, outs[0], ins[0], ins[1], ins[2]);
  else
    return TESSERA_SIMD(Where8)(n, outs[0], ins[0], ins[1], ins[2]);
}
void where_complex128(TESSERA_KERNEL_PARAMETERS) {
  (void)params;
  using T = std::complex<double>;
  const uint8_t* condition = static_cast<const uint8_t*>(ins[0]);
  const T *a = static_cast<const T*>(ins[1]), *b = static_cast<const T*>(ins[2]);
  T* out = static_cast<T*>(outs[0]);
  for (int64_t i = 0; i < n; ++i) out[i] = condition[i] != 0 ? a[i] : b[i];
}

template <class T>
void masked_fill_kernel(TESSERA_KERNEL_PARAMETERS) {
  T value;
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
    value = T(static_cast<float>(params[0].f));
  else if constexpr (std::is_same_v<T, ComplexHalf>)
    value = T(param<std::complex<float>>(params[0]));
  else
    value = param<T>(params[0]);
  if constexpr (sizeof(T) == 1)
    return TESSERA_SIMD(Fill1)(n, outs[0], ins[1], &value, ins[0]);
  else if constexpr (sizeof(T) == 2)
    return TESSERA_SIMD(Fill2)(n, outs[0], ins[1], &value, ins[0]);
  else if constexpr (sizeof(T) == 4)
    return TESSERA_SIMD(Fill4)(n, outs[0], ins[1], &value, ins[0]);
  else if constexpr (sizeof(T) == 8)
    return TESSERA_SIMD(Fill8)(n, outs[0], ins[1], &value, ins[0]);
  const T* x = static_cast<const T*>(ins[0]);
  const uint8_t* mask = static_cast<const uint8_t*>(ins[1]);
  T* out = static_cast<T*>(outs[0]);
  for (int64_t i = 0; i < n; ++i) out[i] = mask[i] != 0 ? value : x[i];
}

struct Conj {
  template <class T>
  static T call(const KernelParam*, T x) {
    if constexpr (kIsComplex<T>)
      return std::conj(x);
    else
      return x;
  }
};
struct Angle {
  template <class T>
  static T call(const KernelParam*, T x) {
    return std::isnan(x) ? x : x < 0 ? static_cast<T>(std::numbers::pi) : T{0};
  }
  template <class R>
  static R call(const KernelParam*, std::complex<R> x) {
    return std::atan2(x.imag(), x.real());
  }
};

consteval PointwiseOp where_op() {
  return OpBuilder<3>("where_cpu")
      .with(DType::kBool, where_kernel<1>)
      .with(DType::kUInt8, where_kernel<1>)
      .with(DType::kInt8, where_kernel<1>)
      .with(DType::kInt16, where_kernel<2>)
      .with(DType::kInt32, where_kernel<4>)
      .with(DType::kInt64, where_kernel<8>)
      .with(DType::kUInt16, where_kernel<2>)
      .with(DType::kUInt32, where_kernel<4>)
      .with(DType::kUInt64, where_kernel<8>)
      .with(DType::kFloat16, where_kernel<2>)
      .with(DType::kBFloat16, where_kernel<2>)
      .with(DType::kFloat32, where_kernel<4>)
      .with(DType::kFloat64, where_kernel<8>)
      .with(DType::kComplex32, where_kernel<4>)
      .with(DType::kComplex64, where_kernel<8>)
      .with(DType::kComplex128, where_complex128)
      .bool_inputs(1);
}

template <class... T>
consteval PointwiseOp masked_fill_op() {
  OpBuilder<2, 1> b("masked_fill");
  ((b = b.with(DTypeOf<T>::value, masked_fill_kernel<T>)), ...);
  return b.bool_inputs(2);
}

}  // namespace
}  // namespace cpu

namespace pw {
using namespace cpu;

constinit const PointwiseOp where = where_op();
constinit const PointwiseOp masked_fill =
    masked_fill_op<bool, uint8_t, int8_t, int16_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t, Half, BFloat16,
                   float, double, ComplexHalf, std::complex<float>, std::complex<double>>();
constinit const PointwiseOp conj_physical =
    OpBuilder<1>("conj_cpu").scalar_floats<Conj>().boolean<Conj>().ints<Conj>().wide<Conj>().complexes<Conj>();
constinit const PointwiseOp angle =
    OpBuilder<1, 0, ResultKind::kReal>("angle_cpu").scalar_floats<Angle>().complexes<Angle>().int_to_float();

}  // namespace pw
}  // namespace tessera
#endif
