// Comparisons, logic and predicates: bool results.
#include "tensor/cuda/pointwise/pointwise.h"

namespace tessera::pw {
extern __attribute__((weak)) const PointwiseOp eq, ne, lt, le, gt, ge, logical_and, logical_or, logical_xor,
    logical_not, isnan, isinf, isfinite, isposinf, isneginf, signbit;
}

namespace tessera::cuda {
namespace {

struct Eq : Binary {
  template <class T>
  static __device__ bool call(const KernelParam*, T a, T b) {
    return a == b;
  }
};
struct Ne : Binary {
  template <class T>
  static __device__ bool call(const KernelParam*, T a, T b) {
    return !(a == b);
  }
};
struct Lt : Binary {
  template <class T>
  static __device__ bool call(const KernelParam*, T a, T b) {
    return a < b;
  }
};
struct Le : Binary {
  template <class T>
  static __device__ bool call(const KernelParam*, T a, T b) {
    return a <= b;
  }
};

template <class T>
__device__ bool is_true(T x) {
  return !(x == T(0));
}
struct LogicalAnd : Binary {
  template <class T>
  static __device__ bool call(const KernelParam*, T a, T b) {
    return is_true(a) && is_true(b);
  }
};
struct LogicalOr : Binary {
  template <class T>
  static __device__ bool call(const KernelParam*, T a, T b) {
    return is_true(a) || is_true(b);
  }
};
struct LogicalXor : Binary {
  template <class T>
  static __device__ bool call(const KernelParam*, T a, T b) {
    return is_true(a) != is_true(b);
  }
};
struct LogicalNot : Unary {
  template <class T>
  static __device__ bool call(const KernelParam*, T x) {
    return !is_true(x);
  }
};

template <class R>
__device__ R infinity() {
  return std::numeric_limits<R>::infinity();
}
struct Isnan : Unary {
  template <class T>
  static __device__ bool call(const KernelParam*, T x) {
    if constexpr (is_complex_type<T>)
      return x.real() != x.real() || x.imag() != x.imag();
    else
      return x != x;
  }
};
struct Isinf : Unary {
  template <class R>
  static __device__ bool part(R x) {
    return std::fabs(x) == infinity<R>();
  }
  template <class T>
  static __device__ bool call(const KernelParam*, T x) {
    if constexpr (is_complex_type<T>)
      return part(x.real()) || part(x.imag());
    else
      return part(x);
  }
};
struct Isfinite : Unary {
  template <class R>
  static __device__ bool part(R x) {
    return std::fabs(x) < infinity<R>();
  }
  template <class T>
  static __device__ bool call(const KernelParam*, T x) {
    if constexpr (is_complex_type<T>)
      return part(x.real()) && part(x.imag());
    else
      return part(x);
  }
};
struct Isposinf : Unary {
  template <class T>
  static __device__ bool call(const KernelParam*, T x) {
    return x == infinity<T>();
  }
};
struct Isneginf : Unary {
  template <class T>
  static __device__ bool call(const KernelParam*, T x) {
    return x == -infinity<T>();
  }
};
struct Signbit : Unary {
  static __device__ bool call(const KernelParam*, float x) { return __float_as_int(x) < 0; }
  static __device__ bool call(const KernelParam*, double x) { return __double_as_longlong(x) < 0; }
  template <class T>
  static __device__ bool call(const KernelParam*, T x) {
    return x < 0;
  }
};

template <class F>
constexpr PointwiseEntry equality(PointwiseEntry e) {
  return e.bits<F>().template floats<F>().template complexes<F>();
}
template <class F>
constexpr PointwiseEntry order(PointwiseEntry e) {
  return e.kernel<F, uint8_t>(DType::kBool).template ints<F>().template floats<F>();
}

constexpr PointwiseEntry kEntries[] = {
    equality<Eq>({&pw::eq}),
    equality<Ne>({&pw::ne}),
    order<Lt>({&pw::lt}),
    order<Le>({&pw::le}),
    order<Lt>({&pw::gt}).swapped(),
    order<Le>({&pw::ge}).swapped(),
    equality<LogicalAnd>({&pw::logical_and}),
    equality<LogicalOr>({&pw::logical_or}),
    equality<LogicalXor>({&pw::logical_xor}),
    equality<LogicalNot>({&pw::logical_not}),
    PointwiseEntry{&pw::isnan}.integers(Shortcut::kFalse).floats<Isnan>().complexes<Isnan>(),
    PointwiseEntry{&pw::isinf}.integers(Shortcut::kFalse).floats<Isinf>().complexes<Isinf>(),
    PointwiseEntry{&pw::isfinite}.integers(Shortcut::kTrue).floats<Isfinite>().complexes<Isfinite>(),
    PointwiseEntry{&pw::isposinf}.integers(Shortcut::kFalse).floats<Isposinf>(),
    PointwiseEntry{&pw::isneginf}.integers(Shortcut::kFalse).floats<Isneginf>(),
    PointwiseEntry{&pw::signbit}
        .integers(Shortcut::kFalse)
        .floats<Signbit>()
        .kernel<Signbit, int8_t>()
        .kernel<Signbit, int16_t>()
        .kernel<Signbit, int32_t>()
        .kernel<Signbit, int64_t>(),
};

}  // namespace

PointwiseTable comparison_kernels() { return kEntries; }

}  // namespace tessera::cuda
