// Rounded quotients, remainders, powers and other functions of two numbers.
#include "tensor/cuda/support/math.h"
#include "tensor/cuda/pointwise/pointwise.h"

namespace tessera::pw {
extern __attribute__((weak)) const PointwiseOp div_trunc, div_floor, remainder, fmod, pow, nextafter, heaviside,
    copysign;
}

namespace tessera::cuda {
namespace {

struct HeavyBinary : Binary {
  static constexpr bool kHeavy = true;
};

// Division by zero has been refused (check_integer_divisor); here it gives 0. The smallest integer over -1 wraps.
template <class T>
__device__ T quotient(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == T{-1}) return static_cast<T>(Wrap<T>{0} - static_cast<Wrap<T>>(a));
  }
  return static_cast<T>(a / b);
}
template <class T>
__device__ T rest(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == T{-1}) return 0;
  }
  return static_cast<T>(a % b);
}

// Whether the floored quotient is one less than the truncated one, given the remainder `mod` of the latter.
template <class T>
__device__ bool floor_differs(T mod, T b) {
  return mod != 0 && is_negative(b) != is_negative(mod);
}

struct DivTrunc : Binary {
  template <class T>
  static __device__ T call(const KernelParam*, T a, T b) {
    return std::trunc(a / b);
  }
  // The quotient rounds to the 16-bit format first.
  static __device__ Half call(const KernelParam*, Half a, Half b) { return rounded<Half>(to_float(a) / to_float(b)); }
  static __device__ BFloat16 call(const KernelParam*, BFloat16 a, BFloat16 b) {
    return rounded<BFloat16>(to_float(a) / to_float(b));
  }
  template <class T>
  static __device__ T rounded(float q) {
    T r;
    store(&r, q);
    store(&r, std::trunc(to_float(r)));
    return r;
  }
};
struct DivTruncInt : HeavyBinary {
  template <class T>
  static __device__ T call(const KernelParam*, T a, T b) {
    return quotient(a, b);
  }
};
struct DivFloor : HeavyBinary {
  template <class T>
  static __device__ T call(const KernelParam*, T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(floor_differs(rest(a, b), b) ? quotient(a, b) - 1 : quotient(a, b));
    } else {  // Python's float floor division: exact where a - fmod(a, b) is, with the quotient's sign on a zero
      const T mod = std::fmod(a, b), exact = a / b;
      if (b == 0) return exact;
      T div = (a - mod) / b;
      if (floor_differs(mod, b)) div -= 1;
      if (div == 0) return std::copysign(T{0}, exact);
      const T floored = std::floor(div);
      return div - floored > T(0.5) ? floored + 1 : floored;
    }
  }
};
struct Remainder : HeavyBinary {
  template <class T>
  static __device__ T call(const KernelParam*, T a, T b) {
    T mod;
    if constexpr (std::is_integral_v<T>)
      mod = rest(a, b);
    else
      mod = std::fmod(a, b);
    return static_cast<T>(floor_differs(mod, b) ? mod + b : mod);
  }
};
struct Fmod : HeavyBinary {
  template <class T>
  static __device__ T call(const KernelParam*, T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return rest(a, b);
    else
      return std::fmod(a, b);
  }
};

struct Pow : HeavyBinary {
  template <class T>
  static __device__ T call(const KernelParam*, T a, T b) {
    if constexpr (is_complex_type<T>)
      return complex(a, b);
    else if constexpr (std::is_integral_v<T>)
      return integer(a, b);
    else
      return std::pow(a, b);
  }
  template <class T>
  static __device__ T complex(T a, T b) {
    if (b == T(0)) return T(1);
    if (a == T(0) && b.imag() == 0 && b.real() > 0) return T(0);
    const math::Z z = math::exp(math::mul(math::Z(b.real(), b.imag()), math::log(math::Z(a.real(), a.imag()))));
    return {static_cast<Real<T>>(z.real()), static_cast<Real<T>>(z.imag())};
  }
  // Wraps. A negative exponent gives 0 unless the base is 1 or -1.
  template <class T>
  static __device__ T integer(T base, T exponent) {
    if (is_negative(exponent)) {
      if (base == 1) return 1;
      if (std::is_signed_v<T> && base == static_cast<T>(-1)) return exponent & 1 ? static_cast<T>(-1) : T{1};
      return 0;
    }
    Wrap<T> result = 1, power = static_cast<Wrap<T>>(base);
    for (auto e = static_cast<Wrap<T>>(exponent); e != 0; e >>= 1, power *= power) {
      if (e & 1) result *= power;
    }
    return static_cast<T>(result);
  }
};

struct Nextafter : Binary {
  template <class T>
  static __device__ T call(const KernelParam*, T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return std::nextafter(a, b);
    } else {  // a 16-bit format: the neighbour in the order of its bits
      const float fa = to_float(a), fb = to_float(b);
      T r = a;
      if (fa != fa || fb != fb)
        store(&r, fa + fb);
      else if (fa == fb)
        r = b;
      else if (fa == 0)
        r.bits = static_cast<uint16_t>(fb > 0 ? 1 : 0x8001);
      else
        r.bits = static_cast<uint16_t>((fa < fb) == (fa > 0) ? a.bits + 1 : a.bits - 1);
      return r;
    }
  }
};
struct Heaviside : Binary {
  template <class T>
  static __device__ T call(const KernelParam*, T x, T values) {
    return x == 0 ? values : static_cast<T>(x > 0);
  }
};
struct Copysign : Binary {
  template <class T>
  static __device__ T call(const KernelParam*, T a, T b) {
    return std::copysign(a, b);
  }
};

constexpr PointwiseEntry kEntries[] = {
    PointwiseEntry{&pw::div_trunc}.floats<DivTrunc>().reduced<DivTrunc>().ints<DivTruncInt>(),
    PointwiseEntry{&pw::div_floor}.floats<DivFloor>().ints<DivFloor>(),
    PointwiseEntry{&pw::remainder}.floats<Remainder>().ints<Remainder>(),
    PointwiseEntry{&pw::fmod}.floats<Fmod>().ints<Fmod>(),
    PointwiseEntry{&pw::pow}.floats<Pow>().ints<Pow>().complexes<Pow>(),
    PointwiseEntry{&pw::nextafter}.floats<Nextafter>().reduced<Nextafter>(),
    PointwiseEntry{&pw::heaviside}.floats<Heaviside>().ints<Heaviside>().kernel<Heaviside, uint8_t>(DType::kBool),
    PointwiseEntry{&pw::copysign}.floats<Copysign>(),
};

}  // namespace

PointwiseTable division_kernels() { return kEntries; }

}  // namespace tessera::cuda
