// Rounding, interpolation, sums of products.
#include "tensor/cuda/support/math.h"
#include "tensor/cuda/pointwise/pointwise.h"

namespace tessera::pw {
extern __attribute__((weak)) const PointwiseOp ceil, floor, round, round_decimals, trunc, frac, nan_to_num, lerp,
    lerp_scalar, addcmul, addcdiv;
}

namespace tessera::cuda {
namespace {

struct Ceil : Unary {
  template <class T>
  static __device__ T call(const KernelParam*, T x) {
    return std::ceil(x);
  }
};
struct Floor : Unary {
  template <class T>
  static __device__ T call(const KernelParam*, T x) {
    return std::floor(x);
  }
};
struct Round : Unary {
  template <class T>
  static __device__ T call(const KernelParam*, T x) {
    return std::rint(x);
  }
};
struct Trunc : Unary {
  template <class T>
  static __device__ T call(const KernelParam*, T x) {
    return std::trunc(x);
  }
};
struct Frac : Unary {
  template <class T>
  static __device__ T call(const KernelParam*, T x) {
    return x - std::trunc(x);
  }
};
// params: decimals, 10^|decimals|
struct RoundDecimals : Unary {
  template <class T>
  static __device__ T call(const KernelParam* p, T x) {
    const T scale = param<T>(p[1]);
    return p[0].f < 0 ? std::rint(x / scale) * scale : std::rint(x * scale) / scale;
  }
};
void add_scale(KernelParam* p, DType) { p[1].f = std::pow(10.0, std::abs(p[0].f)); }

struct NanToNum : Unary {
  template <class R>
  static __device__ R part(const KernelParam* p, R x) {
    if (x != x) return static_cast<R>(p[0].f);
    return std::fabs(x) == std::numeric_limits<R>::infinity() ? static_cast<R>(x > 0 ? p[1].f : p[2].f) : x;
  }
  template <class T>
  static __device__ T call(const KernelParam* p, T x) {
    if constexpr (is_complex_type<T>)
      return T(part(p, x.real()), part(p, x.imag()));
    else
      return part(p, x);
  }
};

// Two branches, so that weights 0 and 1 give the ends exactly.
template <class T>
__device__ T interpolate(T start, T end, T w) {
  const T change = end - start;
  if constexpr (is_complex_type<T>)
    return w.real() * w.real() + w.imag() * w.imag() < Real<T>(0.25) ? start + math::mul(w, change)
                                                                     : end - math::mul(change, T(1) - w);
  else
    return std::fabs(w) < T(0.5) ? std::fma(w, change, start) : std::fma(-change, 1 - w, end);
}
struct Lerp : Ternary {
  template <class T>
  static __device__ T call(const KernelParam*, T start, T end, T w) {
    return interpolate(start, end, w);
  }
};
struct LerpScalar : Binary {
  template <class T>
  static __device__ T call(const KernelParam* p, T start, T end) {
    return interpolate(start, end, param<T>(p[0]));
  }
};

struct Addcmul : Ternary {
  template <class T>
  static __device__ T call(const KernelParam* p, T x, T a, T b) {
    if constexpr (is_complex_type<T>)
      return x + math::mul(math::mul(param<T>(p[0]), a), b);
    else if constexpr (std::is_floating_point_v<T>)
      return std::fma(param<T>(p[0]) * a, b, x);
    else
      return static_cast<T>(static_cast<Wrap<T>>(x) +
                            static_cast<Wrap<T>>(p[0].i) * static_cast<Wrap<T>>(a) * static_cast<Wrap<T>>(b));
  }
};
struct Addcdiv : Ternary {
  template <class T>
  static __device__ T call(const KernelParam* p, T x, T a, T b) {
    if constexpr (is_complex_type<T>)
      return x + math::div(math::mul(param<T>(p[0]), a), b);
    else
      return x + param<T>(p[0]) * a / b;
  }
};

constexpr PointwiseEntry kEntries[] = {
    PointwiseEntry{&pw::ceil}.floats<Ceil>().integers(Shortcut::kCopy),
    PointwiseEntry{&pw::floor}.floats<Floor>().integers(Shortcut::kCopy),
    PointwiseEntry{&pw::round}.floats<Round>().integers(Shortcut::kCopy),
    PointwiseEntry{&pw::trunc}.floats<Trunc>().integers(Shortcut::kCopy),
    PointwiseEntry{&pw::round_decimals}.floats<RoundDecimals>().prepared(add_scale),
    PointwiseEntry{&pw::frac}.floats<Frac>(),
    PointwiseEntry{&pw::nan_to_num}.floats<NanToNum>().complexes<NanToNum>().integers(Shortcut::kCopy),
    PointwiseEntry{&pw::lerp}.floats<Lerp>().complexes<Lerp>(),
    PointwiseEntry{&pw::lerp_scalar}.floats<LerpScalar>().complexes<LerpScalar>(),
    PointwiseEntry{&pw::addcmul}.floats<Addcmul>().bits<Addcmul>().complexes<Addcmul>(),
    PointwiseEntry{&pw::addcdiv}.floats<Addcdiv>().complexes<Addcdiv>(),
};

}  // namespace

PointwiseTable rounding_kernels() { return kEntries; }

}  // namespace tessera::cuda
