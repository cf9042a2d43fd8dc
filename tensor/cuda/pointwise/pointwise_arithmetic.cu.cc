// Sums, products, quotients, signs.
#include "tensor/cuda/support/math.h"
#include "tensor/cuda/pointwise/pointwise.h"

namespace tessera::pw {
extern __attribute__((weak)) const PointwiseOp add, sub, rsub, mul, div, abs, neg, sign, sgn;
}

namespace tessera::cuda {
namespace {

struct Add : Binary {
  template <class T>
  static __device__ T call(const KernelParam* p, T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return std::fma(param<T>(p[0]), b, a);
    else if constexpr (is_complex_type<T>)
      return a + math::mul(param<T>(p[0]), b);
    else
      return static_cast<T>(static_cast<Wrap<T>>(a) + static_cast<Wrap<T>>(p[0].i) * static_cast<Wrap<T>>(b));
  }
};
struct AddBool : Binary {
  static __device__ uint8_t call(const KernelParam* p, uint8_t a, uint8_t b) {
    return a != 0 || (p[0].i != 0 && b != 0);
  }
};
struct Sub : Binary {
  template <class T>
  static __device__ T call(const KernelParam* p, T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return std::fma(-param<T>(p[0]), b, a);
    else if constexpr (is_complex_type<T>)
      return a - math::mul(param<T>(p[0]), b);
    else
      return static_cast<T>(static_cast<Wrap<T>>(a) - static_cast<Wrap<T>>(p[0].i) * static_cast<Wrap<T>>(b));
  }
};
struct Mul : Binary {
  template <class T>
  static __device__ T call(const KernelParam*, T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return a * b;
    else if constexpr (is_complex_type<T>)
      return math::mul(a, b);
    else
      return static_cast<T>(static_cast<Wrap<T>>(a) * static_cast<Wrap<T>>(b));
  }
};
struct Div : Binary {
  template <class T>
  static __device__ T call(const KernelParam*, T a, T b) {
    if constexpr (is_complex_type<T>)
      return math::div(a, b);
    else
      return a / b;
  }
};

struct Abs : Unary {
  template <class T>
  static __device__ Real<T> call(const KernelParam*, T x) {
    if constexpr (is_complex_type<T>)
      return std::hypot(x.real(), x.imag());
    else if constexpr (std::is_floating_point_v<T>)
      return std::fabs(x);
    else
      return static_cast<T>(is_negative(x) ? Wrap<T>{0} - static_cast<Wrap<T>>(x) : static_cast<Wrap<T>>(x));
  }
};
struct Neg : Unary {
  template <class T>
  static __device__ T call(const KernelParam*, T x) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(Wrap<T>{0} - static_cast<Wrap<T>>(x));
    else
      return -x;
  }
};
struct Sign : Unary {
  template <class T>
  static __device__ T call(const KernelParam*, T x) {
    if constexpr (is_complex_type<T>) {
      const auto size = std::hypot(x.real(), x.imag());
      return size == 0 ? T(0) : T(x.real() / size, x.imag() / size);
    } else {
      return static_cast<T>((x > T{0}) - is_negative(x));
    }
  }
};

constexpr PointwiseEntry signed_ints(PointwiseEntry e) {
  return e.kernel<Abs, int8_t>().kernel<Abs, int16_t>().kernel<Abs, int32_t>().kernel<Abs, int64_t>();
}

constexpr PointwiseEntry kEntries[] = {
    PointwiseEntry{&pw::add}.floats<Add>().bits<Add>().kernel<AddBool, uint8_t>(DType::kBool).complexes<Add>(),
    PointwiseEntry{&pw::sub}.floats<Sub>().bits<Sub>().complexes<Sub>(),
    PointwiseEntry{&pw::rsub}.floats<Sub>().bits<Sub>().complexes<Sub>().swapped(),
    PointwiseEntry{&pw::mul}.floats<Mul>().bits<Mul>().complexes<Mul>(),
    PointwiseEntry{&pw::div}.floats<Div>().complexes<Div>(),
    signed_ints(PointwiseEntry{&pw::abs}).floats<Abs>().complexes<Abs>().shortcut({DType::kUInt8}, Shortcut::kCopy),
    PointwiseEntry{&pw::neg}.floats<Neg>().bits<Neg>().complexes<Neg>(),
    PointwiseEntry{&pw::sign}.floats<Sign>().ints<Sign>().shortcut({DType::kBool}, Shortcut::kCopy),
    PointwiseEntry{&pw::sgn}.floats<Sign>().ints<Sign>().complexes<Sign>().shortcut({DType::kBool}, Shortcut::kCopy),
};

}  // namespace

PointwiseTable arithmetic_kernels() { return kEntries; }

}  // namespace tessera::cuda
