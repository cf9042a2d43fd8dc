// How ops_*.cc build their constants: scalar loops for the types that need no explicit SIMD, and a builder for the
// kernel table.
#pragma once

#include <complex>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "tensor/cpu/pointwise/pointwise.h"

// The arguments of a BlockKernel, to declare and to pass on.
#define TESSERA_KERNEL_PARAMETERS int64_t n, void *const *outs, const void *const *ins, const KernelParam *params
#define TESSERA_KERNEL_ARGUMENTS n, outs, ins, params

namespace tessera::cpu {

inline constexpr int kMaxKernelParams = 4;

// -O2 of GCC 12 leaves these loops scalar.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("O3")
#endif
// F::call(params, x...) -> Out for every element. Compiled once, for the baseline target. Params are copied so that the
// compiler knows that stores do not change them; an input equal to the output is no loop-carried dependence (ivdep).
template <class T, class Out, class F, int kParams, size_t... I>
inline void scalar_loop(TESSERA_KERNEL_PARAMETERS, std::index_sequence<I...>) {
  KernelParam p[kMaxKernelParams];
  for (int i = 0; i < kParams; ++i) p[i] = params[i];
  const T* const in[] = {static_cast<const T*>(ins[I])...};
  Out* const out = static_cast<Out*>(outs[0]);
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC ivdep
#endif
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<Out>(F::call(p, in[I][i]...));
}

template <class T, class Out, class F, int kInputs, int kParams>
void scalar_kernel(TESSERA_KERNEL_PARAMETERS) {
  scalar_loop<T, Out, F, kParams>(TESSERA_KERNEL_ARGUMENTS, std::make_index_sequence<kInputs>());
}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

// The result type of a kernel of compute type T.
template <class T, ResultKind kResult>
struct KernelResult {
  using type = T;
};
template <class T>
struct KernelResult<T, ResultKind::kBool> {
  using type = bool;
};
template <class R>
struct KernelResult<std::complex<R>, ResultKind::kReal> {
  using type = R;
};

// constinit const PointwiseOp x = OpBuilder<2>("x").floats(XF32, XF64).ints<XInt>();
template <int kInputs, int kParams = 0, ResultKind kResult = ResultKind::kSame>
struct OpBuilder {
  PointwiseOp op{};

  consteval explicit OpBuilder(const char* name) {
    op.name = name;
    op.num_inputs = kInputs;
    op.num_outputs = 1;
    op.num_params = kParams;
    op.promote = PromoteKind::kDefault;
    op.result = kResult;
  }
  consteval operator PointwiseOp() const { return op; }

  consteval OpBuilder with(DType t, BlockKernel k) const {
    OpBuilder b = *this;
    b.op.kernels[static_cast<int>(t)] = k;
    return b;
  }
  template <class T, class F>
  consteval OpBuilder scalar() const {
    return with(DTypeOf<T>::value, scalar_kernel<T, typename KernelResult<T, kResult>::type, F, kInputs, kParams>);
  }
  // float16 and bfloat16 through float32, complex32 through complex64.
  consteval OpBuilder half() const {
    OpBuilder b = *this;
    b.op.half_via_float = true;
    return b;
  }
  consteval OpBuilder int_to_float() const {
    OpBuilder b = *this;
    b.op.promote = PromoteKind::kIntToFloat;
    return b;
  }
  consteval OpBuilder bool_inputs(uint8_t mask) const {
    OpBuilder b = *this;
    b.op.bool_inputs = mask;
    return b;
  }
  consteval OpBuilder floats(BlockKernel f32, BlockKernel f64) const {
    return with(DType::kFloat32, f32).with(DType::kFloat64, f64).half();
  }
  template <class F>
  consteval OpBuilder scalar_floats() const {
    return scalar<float, F>().template scalar<double, F>().half();
  }
  template <class F>
  consteval OpBuilder boolean() const {
    return scalar<bool, F>();
  }
  template <class F>
  consteval OpBuilder ints() const {
    return scalar<uint8_t, F>()
        .template scalar<int8_t, F>()
        .template scalar<int16_t, F>()
        .template scalar<int32_t, F>()
        .template scalar<int64_t, F>();
  }
  template <class F>
  consteval OpBuilder wide() const {
    return scalar<uint16_t, F>().template scalar<uint32_t, F>().template scalar<uint64_t, F>();
  }
  template <class F>
  consteval OpBuilder complexes() const {
    return scalar<std::complex<float>, F>().template scalar<std::complex<double>, F>().half();
  }
};

// Arithmetic on integers wraps; the type in which it is done without undefined behaviour.
template <class T>
using Wrap = std::conditional_t<(sizeof(T) < 4), uint32_t,
                                std::make_unsigned_t<std::conditional_t<std::is_same_v<T, bool>, int, T>>>;

template <class T>
struct IsComplexType : std::false_type {};
template <class T>
struct IsComplexType<std::complex<T>> : std::true_type {};
template <class T>
inline constexpr bool kIsComplex = IsComplexType<T>::value;

// A param as the compute type of the kernel.
template <class T>
inline T param(const KernelParam& p) {
  if constexpr (kIsComplex<T>)
    return T(static_cast<typename T::value_type>(p.c[0]), static_cast<typename T::value_type>(p.c[1]));
  else if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(p.f);
  else
    return static_cast<T>(p.i);
}

// Complex products and quotients by the plain formulas (no recovery of infinities as in C99's Annex G), quotients
// scaled as by Smith (1962).
template <class R>
inline std::complex<R> mul_complex(std::complex<R> a, std::complex<R> b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}
template <class R>
inline std::complex<R> div_complex(std::complex<R> x, std::complex<R> y) {
  const R a = x.real(), b = x.imag(), c = y.real(), d = y.imag();
  const R abs_c = c < 0 ? -c : c, abs_d = d < 0 ? -d : d;
  if (abs_c >= abs_d) {
    if (abs_c == 0 && abs_d == 0) return {a / abs_c, b / abs_d};
    const R ratio = d / c, scale = R(1) / (c + d * ratio);
    return {(a + b * ratio) * scale, (b - a * ratio) * scale};
  }
  const R ratio = c / d, scale = R(1) / (d + c * ratio);
  return {(a * ratio + b) * scale, (b * ratio - a) * scale};
}

}  // namespace tessera::cpu
