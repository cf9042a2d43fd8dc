// Bits, shifts, gcd and lcm: integer kernels only.
#include "tensor/cpu/pointwise/pointwise_ops.h"
#include "tensor/cpu/pointwise/pointwise_table.h"

namespace tessera {
namespace cpu {
namespace {

struct And {
  template <class T>
  static T call(const KernelParam*, T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  static T call(const KernelParam*, T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  static T call(const KernelParam*, T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
struct Not {
  template <class T>
  static T call(const KernelParam*, T a) {
    if constexpr (std::is_same_v<T, bool>)
      return !a;
    else
      return static_cast<T>(~a);
  }
};
template <class T>
inline constexpr int kBits = static_cast<int>(sizeof(T) * 8);
struct LeftShift {
  template <class T>
  static T call(const KernelParam*, T a, T b) {
    const bool fits = static_cast<std::make_unsigned_t<T>>(b) < static_cast<unsigned>(kBits<T>);
    return static_cast<T>(fits ? static_cast<Wrap<T>>(a) << (b & (kBits<T> - 1)) : Wrap<T>{0});
  }
};
struct RightShift {  // of an unsigned number, shifting everything out gives 0; of a signed one, its sign
  template <class T>
  static T call(const KernelParam*, T a, T b) {
    const bool fits = static_cast<std::make_unsigned_t<T>>(b) < static_cast<unsigned>(kBits<T>);
    if constexpr (std::is_unsigned_v<T>)
      return static_cast<T>(fits ? a >> (b & (kBits<T> - 1)) : 0);
    else
      return static_cast<T>(a >> (fits ? (b & (kBits<T> - 1)) : kBits<T> - 1));
  }
};

// |x| as an unsigned number, so that the smallest integer has one.
template <class T>
std::make_unsigned_t<T> magnitude(T x) {
  using U = std::make_unsigned_t<T>;
  return x < 0 ? static_cast<U>(U{0} - static_cast<U>(x)) : static_cast<U>(x);
}
template <class U>
U greatest_divisor(U a, U b) {
  while (b != 0) {
    const U r = static_cast<U>(a % b);
    a = b;
    b = r;
  }
  return a;
}
struct Gcd {
  template <class T>
  static T call(const KernelParam*, T a, T b) {
    return static_cast<T>(greatest_divisor(magnitude(a), magnitude(b)));
  }
};
struct Lcm {
  template <class T>
  static T call(const KernelParam*, T a, T b) {
    const auto ua = magnitude(a), ub = magnitude(b);
    const auto g = greatest_divisor(ua, ub);
    if (g == 0) return 0;
    const T product = static_cast<T>(static_cast<Wrap<T>>(ua / g) * static_cast<Wrap<T>>(ub));
    return static_cast<T>(magnitude(product));
  }
};

template <class F>
consteval OpBuilder<2> bits(const char* name) {
  return OpBuilder<2>(name).boolean<F>().template ints<F>().template wide<F>();
}

}  // namespace
}  // namespace cpu

namespace pw {
using namespace cpu;

constinit const PointwiseOp bitwise_and = bits<And>("bitwise_and_cpu");
constinit const PointwiseOp bitwise_or = bits<Or>("bitwise_or_cpu");
constinit const PointwiseOp bitwise_xor = bits<Xor>("bitwise_xor_cpu");
constinit const PointwiseOp bitwise_not = OpBuilder<1>("bitwise_not_cpu").boolean<Not>().ints<Not>();
constinit const PointwiseOp bitwise_left_shift = OpBuilder<2>("lshift_cpu").ints<LeftShift>();
constinit const PointwiseOp bitwise_right_shift = OpBuilder<2>("rshift_cpu").ints<RightShift>();
constinit const PointwiseOp gcd = OpBuilder<2>("gcd_cpu").ints<Gcd>();
constinit const PointwiseOp lcm = OpBuilder<2>("lcm_cpu").ints<Lcm>();

}  // namespace pw
}  // namespace tessera
