#include "tensor/cpu/random_transform.h"

#include <cmath>

#include "tensor/cpu/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/random_transform.cc"
#include "hwy/foreach_target.h"
#include "tensor/cpu/math-inl.h"
#include "tensor/cpu/pointwise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::random_internal {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace math = ::tessera::cpu::HWY_NAMESPACE::math;

using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;

void NormalBlocks(double* data, int64_t blocks, double mean, double std) {
  const D d;
  const hn::RebindToUnsigned<D> du;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto one = hn::Set(du, uint64_t{1});
  for (int64_t b = 0; b < blocks; ++b, data += 16) {
    for (int64_t j = 0; j < 8; j += lanes) {
      const V radius = hn::Sqrt(hn::Mul(hn::Set(d, -2.0), math::Log(d, hn::Sub(hn::Set(d, 1.0), hn::LoadU(d, data + j)))));
      V sine, cosine;
      hn::Vec<decltype(du)> quarters;
      math::ReducedSinCos(d, hn::Mul(hn::Set(d, 2 * M_PI), hn::LoadU(d, data + j + 8)), sine, cosine, quarters);
      const auto odd = hn::RebindMask(d, hn::TestBit(quarters, one));
      const auto sign = [&](auto q) HWY_ATTR { return hn::And(hn::SignBit(d), hn::BitCast(d, hn::ShiftLeft<62>(q))); };
      const V c = hn::Xor(hn::IfThenElse(odd, sine, cosine), sign(hn::Add(quarters, one))), s = hn::Xor(hn::IfThenElse(odd, cosine, sine), sign(quarters));
      hn::StoreU(hn::MulAdd(hn::Mul(radius, c), hn::Set(d, std), hn::Set(d, mean)), d, data + j);
      hn::StoreU(hn::MulAdd(hn::Mul(radius, s), hn::Set(d, std), hn::Set(d, mean)), d, data + j + 8);
    }
  }
}

template <class F>
HWY_INLINE void ForEach(double* v, int64_t n, F f) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(hn::LoadU(d, v + i)), d, v + i);
  if (i < n) {
    const size_t rest = static_cast<size_t>(n - i);
    ::tessera::cpu::HWY_NAMESPACE::StoreTail(f(::tessera::cpu::HWY_NAMESPACE::LoadTail(d, v + i, rest)), d, v + i, rest);
  }
}

void ExponentialNumbers(double* v, int64_t n, double scale) {
  const D d;
  ForEach(v, n, [&](V x) HWY_ATTR { return hn::Mul(hn::Set(d, scale), math::Log1p(d, hn::Neg(x))); });
}
void CauchyNumbers(double* v, int64_t n, double median, double sigma) {
  const D d;
  ForEach(v, n, [&](V x) HWY_ATTR {
    const V tangent = math::Tan(d, hn::Mul(hn::Set(d, M_PI), hn::Sub(x, hn::Set(d, 0.5))));
    return hn::Add(hn::Set(d, median), hn::Mul(hn::Set(d, sigma), tangent));
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::random_internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu::random_internal {

TESSERA_SIMD_TABLE(NormalBlocks);
TESSERA_SIMD_TABLE(ExponentialNumbers);
TESSERA_SIMD_TABLE(CauchyNumbers);
void box_muller_blocks(double* data, int64_t blocks, double mean, double std) { TESSERA_SIMD(NormalBlocks)(data, blocks, mean, std); }
void exponential_numbers(double* v, int64_t n, double scale) { TESSERA_SIMD(ExponentialNumbers)(v, n, scale); }
void cauchy_numbers(double* v, int64_t n, double median, double sigma) { TESSERA_SIMD(CauchyNumbers)(v, n, median, sigma); }

}  // namespace tessera::cpu::random_internal
#endif
