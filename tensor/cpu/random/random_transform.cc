#include "tensor/cpu/random/random_transform.h"

#include <cmath>
#include <cstring>

#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/random/random_transform.cc"
#include "hwy/foreach_target.h"
#include "tensor/cpu/math/math_trig-inl.h"
#include "tensor/cpu/pointwise/pointwise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::random_internal {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace math = ::tessera::cpu::HWY_NAMESPACE::math;

using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;
using Bits = hn::RebindToSigned<D>;

// Lanes that are left over are computed as scalars, in the same operations.
void UnitFloats(const uint32_t* words, int64_t n, int digits, float* v) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  constexpr int64_t kLanes = HWY_LANES(float);
  const int32_t mask = (1 << digits) - 1;
  const float scale = 1.0f / static_cast<float>(1 << digits);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const auto bits = hn::And(hn::LoadU(di, reinterpret_cast<const int32_t*>(words) + i), hn::Set(di, mask));
    hn::StoreU(hn::Mul(hn::ConvertTo(d, bits), hn::Set(d, scale)), d, v + i);
  }
  for (; i < n; ++i) v[i] = static_cast<float>(static_cast<int32_t>(words[i]) & mask) * scale;
}

// The low 53 bits of a pair of words, the high one first.
HWY_INLINE hn::Vec<Bits> LowBits(const uint32_t* words) {
  const hn::RebindToUnsigned<Bits> du;
  const auto pair = hn::LoadU(du, reinterpret_cast<const uint64_t*>(words));
  return hn::And(hn::BitCast(Bits(), hn::Or(hn::ShiftLeft<32>(pair), hn::ShiftRight<32>(pair))),
                 hn::Set(Bits(), (int64_t{1} << 53) - 1));
}
HWY_INLINE void StoreNumbers(V x, double* to) { hn::StoreU(x, D(), to); }
HWY_INLINE void StoreNumbers(V x, float* to) {
  const hn::Rebind<float, D> df;
  hn::StoreU(hn::DemoteTo(df, x), df, to);
}
// v[i] = f(of the bits of words 2 i and 2 i + 1).
template <class T, class F>
HWY_INLINE void ForPairs(const uint32_t* words, int64_t n, T* v, F f) {
  constexpr int64_t kLanes = HWY_LANES(double);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) StoreNumbers(f(LowBits(words + 2 * i)), v + i);
  if (i == n) return;
  uint32_t last[2 * kLanes] = {};
  T rest[kLanes];
  std::memcpy(last, words + 2 * i, static_cast<size_t>(n - i) * 8);
  StoreNumbers(f(LowBits(last)), rest);
  std::memcpy(v + i, rest, static_cast<size_t>(n - i) * sizeof(T));
}
template <class T, class F>
HWY_INLINE void ForUnits(const uint32_t* words, int64_t n, T* v, F f) {
  ForPairs(words, n, v,
           [&](auto bits) HWY_ATTR { return f(hn::Mul(hn::ConvertTo(D(), bits), hn::Set(D(), 0x1p-53))); });
}
void UnitDoubles(const uint32_t* words, int64_t n, double* v) {
  ForUnits(words, n, v, [](V u) HWY_ATTR { return u; });
}

// The high half of x times about 2^32 / size is x / size rounded down or one less.
void Remainders(const uint32_t* words, int64_t n, uint32_t size, int64_t base, int64_t* v) {
  const hn::ScalableTag<uint64_t> d;
  const hn::Repartition<uint32_t, decltype(d)> d32;
  const hn::Rebind<uint32_t, decltype(d)> half;
  constexpr int64_t kLanes = HWY_LANES(uint64_t);
  // Products of the low halves of 64-bit lanes.
  const auto times = [&](auto a, auto b) HWY_ATTR { return hn::MulEven(hn::BitCast(d32, a), hn::BitCast(d32, b)); };
  const auto inverse = hn::Set(d, uint64_t{UINT32_MAX / size}), sizes = hn::Set(d, uint64_t{size}),
             bases = hn::Set(d, static_cast<uint64_t>(base));
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const auto x = hn::PromoteTo(d, hn::LoadU(half, words + i));
    const auto rest = hn::Sub(x, times(hn::ShiftRight<32>(times(x, inverse)), sizes));
    const auto remainder = hn::Min(hn::BitCast(d32, rest), hn::BitCast(d32, hn::Sub(rest, sizes)));
    hn::StoreU(hn::Add(hn::BitCast(d, remainder), bases), d, reinterpret_cast<uint64_t*>(v) + i);
  }
  for (; i < n; ++i) v[i] = static_cast<int64_t>(static_cast<uint64_t>(words[i] % size) + static_cast<uint64_t>(base));
}

// The quotient by an inverse that is 2^-39 to 2^-41 too small is the right one rounded down or one less.
void FallingRemainders(uint32_t* words, int64_t n, int32_t count) {
  const D d;
  const hn::Rebind<int32_t, D> di;
  constexpr int64_t kLanes = HWY_LANES(double);
  V size = hn::Sub(hn::Set(d, static_cast<double>(count)), hn::Iota(d, 0.0));
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes, size = hn::Sub(size, hn::Set(d, static_cast<double>(kLanes)))) {
    int32_t* const at = reinterpret_cast<int32_t*>(words + i);
    const V x = hn::Add(hn::PromoteTo(d, hn::Xor(hn::LoadU(di, at), hn::Set(di, INT32_MIN))), hn::Set(d, 2147483648.0));
    const V inverse = hn::Mul(math::Inverse(d, size), hn::Set(d, 1 - 0x1p-40));
    const V q = hn::Trunc(hn::Mul(x, inverse)), rest = hn::NegMulAdd(q, size, x);
    hn::StoreU(hn::DemoteTo(di, hn::IfThenElse(hn::Lt(rest, size), rest, hn::Sub(rest, size))), di, at);
  }
  for (; i < n; ++i) words[i] %= static_cast<uint32_t>(count - static_cast<int32_t>(i));
}

template <class T>
HWY_INLINE bool InUnit(const T* p, int64_t n) {
  const hn::ScalableTag<T> d;
  const auto zero = hn::Zero(d), one = hn::Set(d, T{1});
  constexpr int64_t kLanes = HWY_LANES(T);
  auto good = hn::Eq(zero, zero);
  const auto check = [&](auto x) HWY_ATTR { good = hn::And(good, hn::And(hn::Ge(x, zero), hn::Le(x, one))); };
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) check(hn::LoadU(d, p + i));
  if (i < n) check(::tessera::cpu::HWY_NAMESPACE::LoadTail(d, p + i, static_cast<size_t>(n - i)));
  return hn::AllTrue(d, good);
}
bool FloatsInUnit(const float* p, int64_t n) { return InUnit(p, n); }
bool DoublesInUnit(const double* p, int64_t n) { return InUnit(p, n); }
void BernoulliEach(const uint32_t* words, int64_t n, const float* p, float* v) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  constexpr int64_t kLanes = HWY_LANES(float);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const auto u = hn::Mul(
        hn::ConvertTo(d, hn::And(hn::LoadU(di, reinterpret_cast<const int32_t*>(words) + i), hn::Set(di, 0xffffff))),
        hn::Set(d, 0x1p-24f));
    hn::StoreU(hn::IfThenElseZero(hn::Lt(u, hn::LoadU(d, p + i)), hn::Set(d, 1.0f)), d, v + i);
  }
  for (; i < n; ++i) v[i] = static_cast<float>(words[i] & 0xffffff) * 0x1p-24f < p[i] ? 1.0f : 0.0f;
}
void BernoulliAll(const uint32_t* words, int64_t n, double p, float* v) {
  const auto limit = hn::Set(Bits(), static_cast<int64_t>(std::ceil(p * 0x1p53)));
  ForPairs(words, n, v, [&](auto bits) HWY_ATTR {
    return hn::IfThenElseZero(hn::RebindMask(D(), hn::Lt(bits, limit)), hn::Set(D(), 1.0));
  });
}

void NormalBlocks(double* data, int64_t blocks, double mean, double std) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t b = 0; b < blocks; ++b, data += 16) {
    for (int64_t j = 0; j < 8; j += lanes) {
      const V radius =
          hn::Sqrt(hn::Mul(hn::Set(d, -2.0), math::Log(d, hn::Sub(hn::Set(d, 1.0), hn::LoadU(d, data + j)))));
      V s, c;
      math::SinAndCos(d, hn::Mul(hn::Set(d, 2 * M_PI), hn::LoadU(d, data + j + 8)), s, c);
      hn::StoreU(hn::MulAdd(hn::Mul(radius, c), hn::Set(d, std), hn::Set(d, mean)), d, data + j);
      hn::StoreU(hn::MulAdd(hn::Mul(radius, s), hn::Set(d, std), hn::Set(d, mean)), d, data + j + 8);
    }
  }
}

void ExponentialFloats(const uint32_t* words, int64_t n, double scale, float* v) {
  const D d;
  ForUnits(words, n, v, [&](V u) HWY_ATTR {
    V k;
    const V log = math::BriefLog(d, hn::Sub(hn::Set(d, 1.0), u), hn::Zero(d), k);
    return hn::Abs(hn::Mul(hn::Set(d, scale), hn::MulAdd(k, hn::Set(d, M_LN2), log)));
  });
}
void ExponentialDoubles(const uint32_t* words, int64_t n, double scale, double* v) {
  const D d;
  ForUnits(words, n, v, [&](V u) HWY_ATTR { return hn::Mul(hn::Set(d, scale), math::Log1p(d, hn::Neg(u))); });
}
template <class T, class F>
HWY_INLINE void CauchyNumbers(const uint32_t* words, int64_t n, double median, double sigma, T* v, F tan) {
  const D d;
  ForUnits(words, n, v, [&](V u) HWY_ATTR {
    return hn::Add(hn::Set(d, median),
                   hn::Mul(hn::Set(d, sigma), tan(hn::Mul(hn::Set(d, M_PI), hn::Sub(u, hn::Set(d, 0.5))))));
  });
}
void CauchyFloats(const uint32_t* words, int64_t n, double median, double sigma, float* v) {
  CauchyNumbers(words, n, median, sigma, v, [](V x) HWY_ATTR { return math::BriefTan(D(), x); });
}
void CauchyDoubles(const uint32_t* words, int64_t n, double median, double sigma, double* v) {
  CauchyNumbers(words, n, median, sigma, v, [](V x) HWY_ATTR { return math::Tan(D(), x); });
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::random_internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu::random_internal {

TESSERA_SIMD_TABLE(UnitFloats);
TESSERA_SIMD_TABLE(UnitDoubles);
TESSERA_SIMD_TABLE(Remainders);
TESSERA_SIMD_TABLE(FallingRemainders);
TESSERA_SIMD_TABLE(FloatsInUnit);
TESSERA_SIMD_TABLE(DoublesInUnit);
TESSERA_SIMD_TABLE(BernoulliEach);
TESSERA_SIMD_TABLE(BernoulliAll);
TESSERA_SIMD_TABLE(NormalBlocks);
TESSERA_SIMD_TABLE(ExponentialFloats);
TESSERA_SIMD_TABLE(ExponentialDoubles);
TESSERA_SIMD_TABLE(CauchyFloats);
TESSERA_SIMD_TABLE(CauchyDoubles);
void unit_floats(const uint32_t* words, int64_t n, int digits, float* v) {
  TESSERA_SIMD(UnitFloats)(words, n, digits, v);
}
void unit_doubles(const uint32_t* words, int64_t n, double* v) { TESSERA_SIMD(UnitDoubles)(words, n, v); }
void remainders(const uint32_t* words, int64_t n, uint32_t size, int64_t base, int64_t* v) {
  TESSERA_SIMD(Remainders)(words, n, size, base, v);
}
void falling_remainders(uint32_t* words, int64_t n, int32_t count) { TESSERA_SIMD(FallingRemainders)(words, n, count); }
bool all_in_unit(const float* p, int64_t n) { return TESSERA_SIMD(FloatsInUnit)(p, n); }
bool all_in_unit(const double* p, int64_t n) { return TESSERA_SIMD(DoublesInUnit)(p, n); }
void bernoulli_numbers(const uint32_t* words, int64_t n, const float* p, float* v) {
  TESSERA_SIMD(BernoulliEach)(words, n, p, v);
}
void bernoulli_numbers(const uint32_t* words, int64_t n, double p, float* v) {
  TESSERA_SIMD(BernoulliAll)(words, n, p, v);
}
void box_muller_blocks(double* data, int64_t blocks, double mean, double std) {
  TESSERA_SIMD(NormalBlocks)(data, blocks, mean, std);
}
void exponential_numbers(const uint32_t* words, int64_t n, double scale, float* v) {
  TESSERA_SIMD(ExponentialFloats)(words, n, scale, v);
}
void exponential_numbers(const uint32_t* words, int64_t n, double scale, double* v) {
  TESSERA_SIMD(ExponentialDoubles)(words, n, scale, v);
}
void cauchy_numbers(const uint32_t* words, int64_t n, double median, double sigma, float* v) {
  TESSERA_SIMD(CauchyFloats)(words, n, median, sigma, v);
}
void cauchy_numbers(const uint32_t* words, int64_t n, double median, double sigma, double* v) {
  TESSERA_SIMD(CauchyDoubles)(words, n, median, sigma, v);
}

}  // namespace tessera::cpu::random_internal
#endif
