// Larger and smaller ones: max, min, clamp.
#include "tensor/cuda/pointwise/pointwise.h"

namespace tessera::pw {
extern __attribute__((weak)) const PointwiseOp maximum, minimum, fmax, fmin, clamp, clamp_tensor, clamp_min_tensor,
    clamp_max_tensor;
}

namespace tessera::cuda {
namespace {

// Of two equal numbers (zeros), the second one.
template <class T>
__device__ T larger(T a, T b) {
  return a > b ? a : b;
}
template <class T>
__device__ T smaller(T a, T b) {
  return a < b ? a : b;
}

struct Maximum : Binary {
  template <class T>
  static __device__ T call(const KernelParam*, T a, T b) {
    return a != a ? a : larger(a, b);
  }
};
struct Minimum : Binary {
  template <class T>
  static __device__ T call(const KernelParam*, T a, T b) {
    return a != a ? a : smaller(a, b);
  }
};
struct Fmax : Binary {
  template <class T>
  static __device__ T call(const KernelParam*, T a, T b) {
    return b != b ? a : larger(a, b);
  }
};
struct Fmin : Binary {
  template <class T>
  static __device__ T call(const KernelParam*, T a, T b) {
    return b != b ? a : smaller(a, b);
  }
};

// A nan stays, in x or in the bound.
template <class T>
__device__ T at_least(T x, T low) {
  return low != low ? low : larger(low, x);
}
template <class T>
__device__ T at_most(T x, T high) {
  return high != high ? high : smaller(high, x);
}
struct Clamp : Unary {
  template <class T>
  static __device__ T call(const KernelParam* p, T x) {
    if constexpr (std::is_floating_point_v<T>) {
      return at_most(at_least(x, param<T>(p[0])), param<T>(p[1]));
    } else if constexpr (std::is_same_v<T, uint64_t>) {  // bounds beyond the type's range are no bounds
      const uint64_t low = p[0].i < 0 ? 0 : static_cast<uint64_t>(p[0].i);
      return at_most(at_least(x, low), p[1].i == INT64_MAX ? UINT64_MAX
                                       : p[1].i < 0        ? uint64_t{0}
                                                           : static_cast<uint64_t>(p[1].i));
    } else {
      return static_cast<T>(at_most(at_least(static_cast<int64_t>(x), p[0].i), p[1].i));
    }
  }
};
struct ClampTensor : Ternary {
  template <class T>
  static __device__ T call(const KernelParam*, T x, T low, T high) {
    return at_most(at_least(x, low), high);
  }
};
struct ClampMin : Binary {
  template <class T>
  static __device__ T call(const KernelParam*, T x, T low) {
    return at_least(x, low);
  }
};
struct ClampMax : Binary {
  template <class T>
  static __device__ T call(const KernelParam*, T x, T high) {
    return at_most(x, high);
  }
};

// All integers; bool by the kernel of uint8.
template <class F>
constexpr PointwiseEntry integers(PointwiseEntry e) {
  return e.kernel<F, uint8_t>(DType::kBool).template ints<F>().template wide<F>();
}

constexpr PointwiseEntry kEntries[] = {
    integers<Maximum>({&pw::maximum}).floats<Maximum>(),
    integers<Minimum>({&pw::minimum}).floats<Minimum>(),
    integers<Maximum>({&pw::fmax}).floats<Fmax>(),
    integers<Minimum>({&pw::fmin}).floats<Fmin>(),
    PointwiseEntry{&pw::clamp}.floats<Clamp>().ints<Clamp>().wide<Clamp>(),
    PointwiseEntry{&pw::clamp_tensor}.floats<ClampTensor>().ints<ClampTensor>().wide<ClampTensor>(),
    integers<Maximum>({&pw::clamp_min_tensor}).floats<ClampMin>(),
    integers<Minimum>({&pw::clamp_max_tensor}).floats<ClampMax>(),
};

}  // namespace

PointwiseTable extreme_kernels() { return kEntries; }

}  // namespace tessera::cuda
