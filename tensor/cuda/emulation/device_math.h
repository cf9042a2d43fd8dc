// CUDA's arithmetic functions that the C library does not have: integer intrinsics, casts, rounding modes, special
// functions.
#pragma once

#include <math.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

// Bits.
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(x);
}
inline unsigned long long __brevll(unsigned long long x) {
  return static_cast<unsigned long long>(__brev(static_cast<unsigned>(x))) << 32 |
         __brev(static_cast<unsigned>(x >> 32));
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const uint64_t bytes = static_cast<uint64_t>(y) << 32 | x;
  unsigned r = 0;
  for (int i = 0; i < 4; ++i) r |= static_cast<unsigned>(bytes >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  return r;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned n) {
  return static_cast<unsigned>(((static_cast<uint64_t>(high) << 32 | low) << (n & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned n) {
  return static_cast<unsigned>((static_cast<uint64_t>(high) << 32 | low) >> (n & 31));
}

// Products.
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32); }
inline int __mulhi(int a, int b) { return static_cast<int>(static_cast<int64_t>(a) * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline long long __mul64hi(long long a, long long b) {
  return static_cast<long long>(static_cast<__int128>(a) * b >> 64);
}

// Casts of bits.
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline int __double2hiint(double x) { return static_cast<int>(std::bit_cast<uint64_t>(x) >> 32); }
inline int __double2loint(double x) { return static_cast<int>(std::bit_cast<uint64_t>(x)); }
inline double __hiloint2double(int high, int low) {
  return std::bit_cast<double>(static_cast<uint64_t>(static_cast<unsigned>(high)) << 32 | static_cast<unsigned>(low));
}

namespace tessera::cuda::emulation {
// To an integer as the device does: numbers that are too large give the nearest one, NaN gives 0 (32 bits) or the
// lowest number (64 bits).
template <class I, class F>
I to_int(F x) {
  if (x != x) return sizeof(I) == 8 ? (std::is_signed_v<I> ? std::numeric_limits<I>::min() : I{1} << 63) : I{0};
  const F past = static_cast<F>(std::numeric_limits<I>::max() / 2 + 1) * 2;
  if (x >= past) return std::numeric_limits<I>::max();
  if (x < static_cast<F>(std::numeric_limits<I>::min())) return std::numeric_limits<I>::min();
  return static_cast<I>(x);
}
}  // namespace tessera::cuda::emulation

// Conversions: rn to nearest even, rz to zero, rd down, ru up.
inline int __float2int_rn(float x) { return tessera::cuda::emulation::to_int<int>(nearbyintf(x)); }
inline int __float2int_rz(float x) { return tessera::cuda::emulation::to_int<int>(truncf(x)); }
inline int __float2int_rd(float x) { return tessera::cuda::emulation::to_int<int>(floorf(x)); }
inline int __float2int_ru(float x) { return tessera::cuda::emulation::to_int<int>(ceilf(x)); }
inline unsigned __float2uint_rn(float x) { return tessera::cuda::emulation::to_int<unsigned>(nearbyintf(x)); }
inline unsigned __float2uint_rz(float x) { return tessera::cuda::emulation::to_int<unsigned>(truncf(x)); }
inline long long __float2ll_rn(float x) { return tessera::cuda::emulation::to_int<long long>(nearbyintf(x)); }
inline long long __float2ll_rz(float x) { return tessera::cuda::emulation::to_int<long long>(truncf(x)); }
inline long long __float2ll_rd(float x) { return tessera::cuda::emulation::to_int<long long>(floorf(x)); }
inline int __double2int_rn(double x) { return tessera::cuda::emulation::to_int<int>(nearbyint(x)); }
inline int __double2int_rz(double x) { return tessera::cuda::emulation::to_int<int>(trunc(x)); }
inline int __double2int_rd(double x) { return tessera::cuda::emulation::to_int<int>(floor(x)); }
inline long long __double2ll_rn(double x) { return tessera::cuda::emulation::to_int<long long>(nearbyint(x)); }
inline long long __double2ll_rz(double x) { return tessera::cuda::emulation::to_int<long long>(trunc(x)); }
inline long long __double2ll_rd(double x) { return tessera::cuda::emulation::to_int<long long>(floor(x)); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
inline float __ll2float_rn(long long x) { return static_cast<float>(x); }
inline float __ull2float_rn(unsigned long long x) { return static_cast<float>(x); }
inline double __int2double_rn(int x) { return x; }
inline double __ll2double_rn(long long x) { return static_cast<double>(x); }
inline double __ull2double_rn(unsigned long long x) { return static_cast<double>(x); }
inline float __double2float_rn(double x) { return static_cast<float>(x); }

// Arithmetic that is not contracted on the device.
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1 / a; }
inline float __fsqrt_rn(float a) { return sqrtf(a); }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __drcp_rn(double a) { return 1 / a; }
inline double __dsqrt_rn(double a) { return sqrt(a); }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }

// Fast approximations; here as good as the others.
inline float __fdividef(float a, float b) { return a / b; }
inline float fdividef(float a, float b) { return a / b; }
inline float __expf(float x) { return expf(x); }
inline float __exp10f(float x) { return exp10f(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __log10f(float x) { return log10f(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanf(float x) { return tanf(x); }
inline float __tanhf(float x) { return tanhf(x); }
inline void __sincosf(float x, float* s, float* c) {
  *s = sinf(x);
  *c = cosf(x);
}
inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; }

// Functions that only CUDA has.
inline float rsqrtf(float x) { return 1 / sqrtf(x); }
inline double rsqrt(double x) { return 1 / sqrt(x); }
inline float rsqrt(float x) { return rsqrtf(x); }
inline float rcbrtf(float x) { return 1 / cbrtf(x); }
inline double rcbrt(double x) { return 1 / cbrt(x); }
inline float rhypotf(float x, float y) { return 1 / hypotf(x, y); }
inline double rhypot(double x, double y) { return 1 / hypot(x, y); }
namespace tessera::cuda::emulation {
// sin(pi x), exact at multiples of 1/2.
template <class F>
F sin_of_pi(F x) {
  F r = std::fmod(x, F(2));  // (-2, 2)
  if (r > 1) r -= 2;
  if (r < -1) r += 2;  // [-1, 1]
  if (r > F(0.5)) r = 1 - r;
  if (r < F(-0.5)) r = -1 - r;  // [-1/2, 1/2], where the sine is the same
  return r == 0 ? std::copysign(F(0), x) : static_cast<F>(std::sin(M_PI * static_cast<double>(r)));
}
template <class F>
F cos_of_pi(F x) {
  const F r = std::fabs(std::fmod(x, F(2)));  // [0, 2)
  return sin_of_pi<F>((r > 1 ? 2 - r : r) * -1 + F(0.5)) + F(0);
}
}  // namespace tessera::cuda::emulation
inline float sinpif(float x) { return tessera::cuda::emulation::sin_of_pi(x); }
inline double sinpi(double x) { return tessera::cuda::emulation::sin_of_pi(x); }
inline float cospif(float x) { return tessera::cuda::emulation::cos_of_pi(x); }
inline double cospi(double x) { return tessera::cuda::emulation::cos_of_pi(x); }
inline void sincospif(float x, float* s, float* c) {
  *s = sinpif(x);
  *c = cospif(x);
}
inline void sincospi(double x, double* s, double* c) {
  *s = sinpi(x);
  *c = cospi(x);
}
inline float normcdff(float x) { return 0.5f * erfcf(x * static_cast<float>(-M_SQRT1_2)); }
inline double normcdf(double x) { return 0.5 * erfc(x * -M_SQRT1_2); }

// Minimum and maximum of numbers; with one NaN the other one, as on the device.
namespace tessera::cuda::emulation {
template <class T>
concept Number = std::is_arithmetic_v<T>;
}
template <tessera::cuda::emulation::Number A, tessera::cuda::emulation::Number B>
constexpr std::common_type_t<A, B> min(A a, B b) {
  using T = std::common_type_t<A, B>;
  const T x = static_cast<T>(a), y = static_cast<T>(b);
  return y != y || x < y ? x : y;
}
template <tessera::cuda::emulation::Number A, tessera::cuda::emulation::Number B>
constexpr std::common_type_t<A, B> max(A a, B b) {
  using T = std::common_type_t<A, B>;
  const T x = static_cast<T>(a), y = static_cast<T>(b);
  return y != y || x > y ? x : y;
}
inline unsigned umin(unsigned a, unsigned b) { return a < b ? a : b; }
inline unsigned umax(unsigned a, unsigned b) { return a > b ? a : b; }
