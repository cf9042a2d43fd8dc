// Elementwise kernels: how a functor becomes the kernels of an op. One kernel per functor and compute type; inside,
// run-time branches for the layouts of memory.
//
// A functor:
//
//   struct Sub : Binary {
//     template <class T> static __device__ T call(const KernelParam* p, T a, T b) { return a - param<T>(p[0]) * b; }
//   };
//
// T is the compute type: float, double, Complex<float>, Complex<double>, an integer type, or Half / BFloat16 where an
// op has kernels of its own for them (most compute those in float). The result is T, bool or Real<T>. Bases: Unary,
// Binary, Ternary; kHeavy = true (struct F : Unary { static constexpr bool kHeavy = true; ... }) for functors of more
// than some 50 instructions: one copy of their code, one element at a time.
//
// A file of functors ends with its table, which is added to the list in pointwise.cu.cc:
//
//   // weak: the library pulls no CPU kernels into a program
//   namespace tessera::pw { extern __attribute__((weak)) const PointwiseOp sub, rsub; }
//   constexpr PointwiseEntry kEntries[] = {
//       PointwiseEntry{&pw::sub}.floats<Sub>().bits<Sub>().complexes<Sub>(),
//       PointwiseEntry{&pw::rsub}.floats<Sub>().bits<Sub>().complexes<Sub>().swapped(),
//   };
//   PointwiseTable arithmetic_kernels() { return kEntries; }
#pragma once

#include <span>

#include "tensor/cpu/pointwise/pointwise.h"
#include "tensor/cuda/support/convert.h"
#include "tensor/cuda/support/walk.h"

namespace tessera::cuda {

struct Unary {
  static constexpr int kInputs = 1;
  static constexpr bool kHeavy = false;
  static constexpr unsigned kBoolInputs = 0;  // bit k: input k is bool (uint8_t), whatever T
};
struct Binary : Unary {
  static constexpr int kInputs = 2;
};
struct Ternary : Unary {
  static constexpr int kInputs = 3;
};

// A param as T.
template <class T>
__device__ inline T param(const KernelParam& p) {
  if constexpr (is_complex_type<T>)
    return T(static_cast<Real<T>>(p.c[0]), static_cast<Real<T>>(p.c[1]));
  else if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(p.f);
  else
    return static_cast<T>(p.i);
}

// The type in which integers are added and multiplied without undefined behaviour.
template <class T>
using Wrap = std::conditional_t<(sizeof(T) < 4), uint32_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;

// x < 0, of types without negative numbers too.
template <class T>
__device__ inline bool is_negative(T x) {
  if constexpr (std::is_unsigned_v<T>)
    return false;
  else
    return x < 0;
}

inline constexpr int kMaxInputs = 4;

// Division by a number that is known before the kernel starts, for dividends below 2^31 (Granlund and Montgomery 1994).
struct Divider {
  uint32_t divisor = 1, magic = 1, shift = 0;
  Divider() = default;
  explicit Divider(uint32_t d) : divisor(d) {
    while ((uint64_t{1} << shift) < d) ++shift;
    magic = static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << shift) - d)) / d + 1);
  }
  __device__ uint32_t divide(uint32_t n) const { return (__umulhi(n, magic) + n) >> shift; }
};

// How an operand's elements are reached in the fast paths.
enum class Access : uint8_t {
  kDense,     // chunks of elements side by side
  kSplat,     // one element for all of a chunk
  kConstant,  // a number of the host: constants[]
};

// What a kernel needs. Operand 0 is the output, input k is operand k + 1. At most kMaxElements: larger tensors are done
// in parts, so that kernels count in 32 bits.
inline constexpr int64_t kMaxElements = int64_t{1} << 30;
struct PointwiseArguments {
  char* data[1 + kMaxInputs];
  Walk<1 + kMaxInputs> walk;
  Divider dividers[kMaxRank];     // of walk.sizes
  Bytes16 constants[kMaxInputs];  // in the compute dtype
  KernelParam params[4];
  DType dtype[1 + kMaxInputs];
  DType wanted[1 + kMaxInputs];  // the kernel's: compute dtype, result dtype, bool
  Access access[1 + kMaxInputs];
  enum Path : uint8_t { kChunks, kElements, kConverted } path;
};

// Which entries need no kernel of their own.
enum class Shortcut : uint8_t { kNone, kCopy, kConjugate, kFalse, kTrue };

namespace internal {

template <class F, class T, int k>
using InputType = std::conditional_t<(F::kBoolInputs >> k & 1) != 0, uint8_t, T>;

template <class F, class T, int... k>
__device__ auto result_of(std::integer_sequence<int, k...>)
    -> decltype(F::call(static_cast<const KernelParam*>(nullptr), std::declval<InputType<F, T, k>>()...));
template <class F, class T>
using ResultType = decltype(result_of<F, T>(std::make_integer_sequence<int, F::kInputs>()));

// Elements of a chunk: 16 bytes of the compute type, at most 8 elements.
template <class F, class T>
inline constexpr int kChunk = F::kHeavy || sizeof(T) >= 16 ? 1
                              : sizeof(T) < 2              ? 8
                                                           : 16 / sizeof(T);

// Byte offsets of element i.
template <int kOperands>
__device__ inline void offsets_of(const PointwiseArguments& a, uint32_t i, int64_t (&out)[kOperands]) {
  for (int k = 0; k < kOperands; ++k) out[k] = 0;
  const int last = a.walk.rank - 1;
  if (last < 0) return;
#pragma unroll 1
  for (int d = 0; d < last; ++d) {
    const uint32_t q = a.dividers[d].divide(i), r = i - q * a.dividers[d].divisor;
    for (int k = 0; k < kOperands; ++k) out[k] += r * a.walk.strides[d][k];
    i = q;
  }
  for (int k = 0; k < kOperands; ++k) out[k] += i * a.walk.strides[last][k];
}

// One element of dtype t as T, whose dtype is `wanted`. The usual cases without a call.
template <class T>
__device__ inline bool is_direct(DType t, DType wanted) {
  return t == wanted || (std::is_same_v<T, float> && (t == DType::kFloat16 || t == DType::kBFloat16));
}
template <class T>
__device__ inline T load_direct(const void* p, DType t, DType wanted) {
  if constexpr (std::is_same_v<T, float>) {
    if (t != wanted)
      return t == DType::kFloat16 ? load(static_cast<const Half*>(p)) : load(static_cast<const BFloat16*>(p));
  }
  return *static_cast<const T*>(p);
}
template <class T>
__device__ inline void store_direct(void* p, DType t, DType wanted, T v) {
  if constexpr (std::is_same_v<T, float>) {
    if (t != wanted)
      return t == DType::kFloat16 ? store(static_cast<Half*>(p), v) : store(static_cast<BFloat16*>(p), v);
  }
  *static_cast<T*>(p) = v;
}

// A chunk of an input.
template <int n, class T>
__device__ inline void load_chunk(T (&v)[n], const PointwiseArguments& a, int operand, const char* p) {
  const DType t = a.dtype[operand], wanted = a.wanted[operand];
  if (a.access[operand] == Access::kDense) {
    if constexpr (std::is_same_v<T, float>) {
      if (t != wanted) {
        uint16_t bits[n];
        load_vector(bits, p);
        for (int i = 0; i < n; ++i)
          v[i] = t == DType::kFloat16 ? to_float(std::bit_cast<Half>(bits[i])) : bfloat16_bits_to_float(bits[i]);
        return;
      }
    }
    load_vector(v, p);
  } else {
    T one;
    if (a.access[operand] == Access::kSplat)
      one = load_direct<T>(p, t, wanted);
    else
      memcpy(static_cast<void*>(&one), &a.constants[operand - 1], sizeof one);
    for (int i = 0; i < n; ++i) v[i] = one;
  }
}
template <int n, class T>
__device__ inline void store_chunk(const PointwiseArguments& a, char* p, const T (&v)[n]) {
  if constexpr (std::is_same_v<T, float>) {
    if (a.dtype[0] != a.wanted[0]) {
      uint16_t bits[n];
      for (int i = 0; i < n; ++i) bits[i] = a.dtype[0] == DType::kFloat16 ? half_bits(v[i]) : bfloat16_bits(v[i]);
      return store_vector(p, bits);
    }
  }
  store_vector(p, v);
}

// An element of an input in the two paths that go one by one.
template <bool kConvert, class T>
__device__ inline T load_element(const PointwiseArguments& a, int operand, const char* p) {
  if (a.access[operand] == Access::kConstant) {
    T v;
    memcpy(static_cast<void*>(&v), &a.constants[operand - 1], sizeof v);
    return v;
  }
  if (!kConvert || is_direct<T>(a.dtype[operand], a.wanted[operand]))
    return load_direct<T>(p, a.dtype[operand], a.wanted[operand]);
  T converted;  // in local memory, which the others do without
  convert_element(&converted, a.wanted[operand], p, a.dtype[operand]);
  return converted;
}

template <class F, class T, class R, class... In>
__device__ __attribute__((noinline)) R call_apart(const KernelParam* p, In... in) {
  return F::call(p, in...);
}
template <class F, class T, class R, class... In>
__device__ inline R call_functor(const KernelParam* p, In... in) {
  if constexpr (F::kHeavy)
    return call_apart<F, T, R>(p, in...);
  else
    return F::call(p, in...);
}

// n elements of each input. (A tuple, whose parts are known to lie in registers.)
template <int k, class T, int n>
struct Slot {
  T v[n];
};
template <class F, class T, int n, class Sequence>
struct Inputs;
template <class F, class T, int n, int... k>
struct Inputs<F, T, n, std::integer_sequence<int, k...>> : Slot<k, InputType<F, T, k>, n>... {
  template <int i>
  __device__ auto& of() {
    return static_cast<Slot<i, InputType<F, T, i>, n>&>(*this).v;
  }
  __device__ void load_chunks(const PointwiseArguments& a, const int64_t* at) {
    (load_chunk(of<k>(), a, k + 1, a.data[k + 1] + at[k + 1]), ...);
  }
  template <bool kConvert>
  __device__ void load_elements(int e, const PointwiseArguments& a, const int64_t* at) {
    ((of<k>()[e] = load_element<kConvert, InputType<F, T, k>>(a, k + 1, a.data[k + 1] + at[k + 1])), ...);
  }
  __device__ ResultType<F, T> call(int e, const KernelParam* p) {
    return call_functor<F, T, ResultType<F, T>>(p, of<k>()[e]...);
  }
};
template <class F, class T, int n>
using InputsOf = Inputs<F, T, n, std::make_integer_sequence<int, F::kInputs>>;

template <class F, class T>
__device__ inline void run_chunks(const PointwiseArguments& a, uint32_t first, uint32_t step) {
  constexpr int n = kChunk<F, T>;
  const uint32_t chunks = static_cast<uint32_t>(a.walk.numel) / n;
#pragma unroll 1
  for (uint32_t c = first; c < chunks; c += step) {
    int64_t at[1 + F::kInputs];
    offsets_of(a, c * n, at);
    InputsOf<F, T, n> in;
    in.load_chunks(a, at);
    ResultType<F, T> out[n];
#pragma unroll
    for (int e = 0; e < n; ++e) out[e] = in.call(e, a.params);
    store_chunk(a, a.data[0] + at[0], out);
  }
}

template <bool kConvert, class F, class T>
__device__ inline void run_elements(const PointwiseArguments& a, uint32_t first, uint32_t step) {
  using R = ResultType<F, T>;
  constexpr int n = kConvert || kChunk<F, T> == 1 ? 1 : 2;  // loads under way at the same time
  const uint32_t numel = static_cast<uint32_t>(a.walk.numel);
#pragma unroll 1
  for (uint32_t i = first; i < numel; i += n * step) {
    int64_t at[n][1 + F::kInputs];
    InputsOf<F, T, n> in;
#pragma unroll
    for (int e = 0; e < n; ++e) {
      const uint32_t j = i + e * step;
      offsets_of(a, j < numel ? j : i, at[e]);
      in.template load_elements<kConvert>(e, a, at[e]);
    }
#pragma unroll
    for (int e = 0; e < n; ++e) {
      if (i + e * step >= numel) break;
      const R out = in.call(e, a.params);
      void* const p = a.data[0] + at[e][0];
      if (!kConvert || is_direct<R>(a.dtype[0], a.wanted[0])) {
        store_direct<R>(p, a.dtype[0], a.wanted[0], out);
      } else {
        const R unconverted = out;
        convert_element(p, a.dtype[0], &unconverted, a.wanted[0]);
      }
    }
  }
}

template <class F, class T>
__global__ void __launch_bounds__(kThreads) pointwise_kernel(const __grid_constant__ PointwiseArguments a) {
  constexpr int n = kChunk<F, T>;
  uint32_t first = blockIdx.x * blockDim.x + threadIdx.x;
  const uint32_t step = gridDim.x * blockDim.x;
  if (a.path == PointwiseArguments::kConverted) return run_elements<true, F, T>(a, first, step);
  if constexpr (n > 1) {
    if (a.path == PointwiseArguments::kChunks) {
      run_chunks<F, T>(a, first, step);
      first += static_cast<uint32_t>(a.walk.numel) / n * n;  // the elements of the chunk that is not full
    }
  }
  run_elements<false, F, T>(a, first, step);
}

template <class T>
inline constexpr DType kDTypeOf = DTypeOf<T>::value;
template <>
inline constexpr DType kDTypeOf<Complex<float>> = DType::kComplex64;
template <>
inline constexpr DType kDTypeOf<Complex<double>> = DType::kComplex128;

}  // namespace internal

// A kernel, and what the host must know of it.
struct PointwiseKernelInfo {
  void (*run)(PointwiseArguments) = nullptr;
  uint8_t chunk = 1;                              // elements
  bool half_inputs = false, half_output = false;  // float16 and bfloat16 need no conversion apart

  template <class F, class T>
  static constexpr PointwiseKernelInfo of() {
    return {internal::pointwise_kernel<F, T>, internal::kChunk<F, T>, std::is_same_v<T, float>,
            std::is_same_v<internal::ResultType<F, T>, float>};
  }
};

// The kernels of one op.
struct PointwiseEntry {
  const PointwiseOp* op;
  PointwiseKernelInfo kernels[kNumComputeDTypes] = {};
  Shortcut shortcuts[kNumComputeDTypes] = {};
  bool swaps_inputs = false;                               // the kernel takes the two inputs in the other order
  void (*prepare)(KernelParam*, DType compute) = nullptr;  // changes the params for the kernel, on the host

  template <class F, class T>
  constexpr PointwiseEntry kernel(DType t = internal::kDTypeOf<T>) const {
    PointwiseEntry e = *this;
    e.kernels[static_cast<int>(t)] = PointwiseKernelInfo::of<F, T>();
    return e;
  }
  constexpr PointwiseEntry shortcut(std::initializer_list<DType> types, Shortcut s) const {
    PointwiseEntry e = *this;
    for (DType t : types) e.shortcuts[static_cast<int>(t)] = s;
    return e;
  }
  constexpr PointwiseEntry integers(Shortcut s) const {  // and bool
    return shortcut({DType::kBool, DType::kUInt8, DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64,
                     DType::kUInt16, DType::kUInt32, DType::kUInt64},
                    s);
  }
  constexpr PointwiseEntry copies() const {
    return integers(Shortcut::kCopy)
        .shortcut({DType::kFloat32, DType::kFloat64, DType::kComplex64, DType::kComplex128}, Shortcut::kCopy);
  }
  constexpr PointwiseEntry swapped() const {
    PointwiseEntry e = *this;
    e.swaps_inputs = true;
    return e;
  }
  constexpr PointwiseEntry prepared(void (*f)(KernelParam*, DType)) const {
    PointwiseEntry e = *this;
    e.prepare = f;
    return e;
  }

  template <class F>
  constexpr PointwiseEntry floats() const {
    return kernel<F, float>().template kernel<F, double>();
  }
  template <class F>
  constexpr PointwiseEntry complexes() const {
    return kernel<F, Complex<float>>().template kernel<F, Complex<double>>();
  }
  template <class F>
  constexpr PointwiseEntry reduced() const {
    return kernel<F, Half>().template kernel<F, BFloat16>();
  }
  // uint8, int8 ... int64.
  template <class F>
  constexpr PointwiseEntry ints() const {
    return kernel<F, uint8_t>()
        .template kernel<F, int8_t>()
        .template kernel<F, int16_t>()
        .template kernel<F, int32_t>()
        .template kernel<F, int64_t>();
  }
  template <class F>
  constexpr PointwiseEntry wide() const {
    return kernel<F, uint16_t>().template kernel<F, uint32_t>().template kernel<F, uint64_t>();
  }
  // bool and all integers, for functors that do the same to signed and unsigned ones: one kernel per size.
  template <class F>
  constexpr PointwiseEntry bits() const {
    return kernel<F, uint8_t>(DType::kBool)
        .template kernel<F, uint8_t>()
        .template kernel<F, uint8_t>(DType::kInt8)
        .template kernel<F, uint16_t>()
        .template kernel<F, uint16_t>(DType::kInt16)
        .template kernel<F, uint32_t>()
        .template kernel<F, uint32_t>(DType::kInt32)
        .template kernel<F, uint64_t>()
        .template kernel<F, uint64_t>(DType::kInt64);
  }
};

// In a shared object of its own, the library names ops by stand-ins: own[i] stands for others[i]. Before the first call
// of an engine.
void set_pointwise_ops(std::span<const PointwiseOp* const> own, std::span<const PointwiseOp* const> others);

// out = kernel(ins...) over `shape`. wanted: the kernel's dtypes, of the output first. params: num_params of them.
void launch_pointwise(const PointwiseKernelInfo& kernel, std::span<const int64_t> shape, const Operand& out,
                      std::span<const Operand> ins, const DType* wanted, const KernelParam* params, int num_params);

// n > 0 elements side by side, of integers that are common to floats. False for other dtypes: nothing is done then.
bool convert_dense(DType to, DType from, int64_t n, void* dst, const void* src);

using PointwiseTable = std::span<const PointwiseEntry>;
// The kernels of another library's ops. Before the first call of an engine; a table is added once.
void add_pointwise_table(PointwiseTable table);

// The tables of the core: one function per file, called once.
PointwiseTable arithmetic_kernels();
PointwiseTable extreme_kernels();
PointwiseTable comparison_kernels();
PointwiseTable bit_kernels();
PointwiseTable division_kernels();
PointwiseTable rounding_kernels();
PointwiseTable selection_kernels();
PointwiseTable math_kernels();
PointwiseTable special_kernels();
PointwiseTable trigonometric_kernels();
PointwiseTable logistic_kernels();

}  // namespace tessera::cuda
