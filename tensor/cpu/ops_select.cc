// Choice by a mask, and the parts of complex numbers.
#include <cmath>
#include <numbers>

#include "tensor/core/half.h"
#include "tensor/cpu/pointwise_ops.h"
#include "tensor/cpu/pointwise_table.h"

namespace tessera {
namespace cpu {
namespace {

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("O3")
#endif
// Moves bits, whatever they mean: one kernel per size. Both values are read whatever the condition, so that the loop has no branch.
template <class T>
void where_kernel(TESSERA_KERNEL_PARAMETERS) {
  (void)params;
  const uint8_t* condition = static_cast<const uint8_t*>(ins[0]);
  const T* a = static_cast<const T*>(ins[1]);
  const T* b = static_cast<const T*>(ins[2]);
  T* out = static_cast<T*>(outs[0]);
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC ivdep
#endif
  for (int64_t i = 0; i < n; ++i) {
    const T x = a[i], y = b[i];
    out[i] = condition[i] != 0 ? x : y;
  }
}

template <class T>
void masked_fill_kernel(TESSERA_KERNEL_PARAMETERS) {
  T value;
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) value = T(static_cast<float>(params[0].f));
  else if constexpr (std::is_same_v<T, ComplexHalf>) value = T(param<std::complex<float>>(params[0]));
  else value = param<T>(params[0]);
  const T* x = static_cast<const T*>(ins[0]);
  const uint8_t* mask = static_cast<const uint8_t*>(ins[1]);
  T* out = static_cast<T*>(outs[0]);
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC ivdep
#endif
  for (int64_t i = 0; i < n; ++i) {
    const T y = x[i];
    out[i] = mask[i] != 0 ? value : y;
  }
}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

struct Conj {
  template <class T> static T call(const KernelParam*, T x) {
    if constexpr (kIsComplex<T>) return std::conj(x);
    else return x;
  }
};
struct Real {
  template <class R> static R call(const KernelParam*, std::complex<R> x) { return x.real(); }
};
struct Imag {
  template <class R> static R call(const KernelParam*, std::complex<R> x) { return x.imag(); }
};
struct Angle {
  template <class T> static T call(const KernelParam*, T x) { return std::isnan(x) ? x : x < 0 ? static_cast<T>(std::numbers::pi) : T{0}; }
  template <class R> static R call(const KernelParam*, std::complex<R> x) { return std::atan2(x.imag(), x.real()); }
};

consteval PointwiseOp where_op() {
  return OpBuilder<3>("where_cpu").with(DType::kBool, where_kernel<uint8_t>).with(DType::kUInt8, where_kernel<uint8_t>).with(DType::kInt8, where_kernel<uint8_t>)
      .with(DType::kInt16, where_kernel<uint16_t>).with(DType::kInt32, where_kernel<uint32_t>).with(DType::kInt64, where_kernel<uint64_t>)
      .with(DType::kUInt16, where_kernel<uint16_t>).with(DType::kUInt32, where_kernel<uint32_t>).with(DType::kUInt64, where_kernel<uint64_t>)
      .with(DType::kFloat16, where_kernel<uint16_t>).with(DType::kBFloat16, where_kernel<uint16_t>).with(DType::kFloat32, where_kernel<uint32_t>)
      .with(DType::kFloat64, where_kernel<uint64_t>).with(DType::kComplex32, where_kernel<uint32_t>).with(DType::kComplex64, where_kernel<uint64_t>)
      .with(DType::kComplex128, where_kernel<std::complex<double>>).bool_inputs(1);
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
    masked_fill_op<bool, uint8_t, int8_t, int16_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t, Half, BFloat16, float, double, ComplexHalf,
                   std::complex<float>, std::complex<double>>();
constinit const PointwiseOp conj_physical = OpBuilder<1>("conj_cpu").scalar_floats<Conj>().boolean<Conj>().ints<Conj>().wide<Conj>().complexes<Conj>();
constinit const PointwiseOp real = OpBuilder<1, 0, ResultKind::kReal>("real_cpu").complexes<Real>();
constinit const PointwiseOp imag = OpBuilder<1, 0, ResultKind::kReal>("imag_cpu").complexes<Imag>();
constinit const PointwiseOp angle = OpBuilder<1, 0, ResultKind::kReal>("angle_cpu").scalar_floats<Angle>().complexes<Angle>().int_to_float();

}  // namespace pw
}  // namespace tessera
