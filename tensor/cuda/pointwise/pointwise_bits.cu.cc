// Bits, shifts, gcd and lcm: integers only.
#include "tensor/cuda/pointwise/pointwise.h"

namespace tessera::pw {
extern __attribute__((weak)) const PointwiseOp bitwise_and, bitwise_or, bitwise_xor, bitwise_not, bitwise_left_shift,
    bitwise_right_shift, gcd, lcm;
}

namespace tessera::cuda {
namespace {

struct And : Binary {
  template <class T>
  static __device__ T call(const KernelParam*, T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or : Binary {
  template <class T>
  static __device__ T call(const KernelParam*, T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor : Binary {
  template <class T>
  static __device__ T call(const KernelParam*, T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
struct Not : Unary {
  template <class T>
  static __device__ T call(const KernelParam*, T x) {
    return static_cast<T>(~x);
  }
};
struct NotBool : Unary {
  static __device__ uint8_t call(const KernelParam*, uint8_t x) { return x == 0; }
};

template <class T>
inline constexpr int kBits = static_cast<int>(sizeof(T) * 8);
template <class T>
__device__ bool is_shift(T count) {
  return static_cast<std::make_unsigned_t<T>>(count) < static_cast<unsigned>(kBits<T>);
}
struct LeftShift : Binary {
  template <class T>
  static __device__ T call(const KernelParam*, T a, T b) {
    return static_cast<T>(is_shift(b) ? static_cast<Wrap<T>>(a) << (b & (kBits<T> - 1)) : Wrap<T>{0});
  }
};
struct RightShift : Binary {
  template <class T>
  static __device__ T call(const KernelParam*, T a, T b) {
    if constexpr (std::is_unsigned_v<T>)
      return static_cast<T>(is_shift(b) ? a >> (b & (kBits<T> - 1)) : 0);
    else
      return static_cast<T>(a >> (is_shift(b) ? (b & (kBits<T> - 1)) : kBits<T> - 1));
  }
};

// |x|, of the smallest integer too.
template <class T>
__device__ Wrap<T> magnitude(T x) {
  return is_negative(x) ? Wrap<T>{0} - static_cast<Wrap<T>>(x) : static_cast<Wrap<T>>(x);
}
template <class U>
__device__ U greatest_divisor(U a, U b) {
  while (b != 0) {
    const U r = a % b;
    a = b;
    b = r;
  }
  return a;
}
struct Gcd : Binary {
  static constexpr bool kHeavy = true;
  template <class T>
  static __device__ T call(const KernelParam*, T a, T b) {
    return static_cast<T>(greatest_divisor(magnitude(a), magnitude(b)));
  }
};
struct Lcm : Binary {
  static constexpr bool kHeavy = true;
  template <class T>
  static __device__ T call(const KernelParam*, T a, T b) {
    const auto ua = magnitude(a), ub = magnitude(b), divisor = greatest_divisor(ua, ub);
    return divisor == 0 ? T{0} : static_cast<T>(magnitude(static_cast<T>(ua / divisor * ub)));
  }
};

constexpr PointwiseEntry kEntries[] = {
    PointwiseEntry{&pw::bitwise_and}.bits<And>(),
    PointwiseEntry{&pw::bitwise_or}.bits<Or>(),
    PointwiseEntry{&pw::bitwise_xor}.bits<Xor>(),
    PointwiseEntry{&pw::bitwise_not}.bits<Not>().kernel<NotBool, uint8_t>(DType::kBool),
    PointwiseEntry{&pw::bitwise_left_shift}.bits<LeftShift>(),
    PointwiseEntry{&pw::bitwise_right_shift}.ints<RightShift>(),
    PointwiseEntry{&pw::gcd}.ints<Gcd>(),
    PointwiseEntry{&pw::lcm}.ints<Lcm>(),
};

}  // namespace

PointwiseTable bit_kernels() { return kEntries; }

}  // namespace tessera::cuda
