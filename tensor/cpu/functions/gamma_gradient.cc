// How gamma numbers move with their concentration, a vector at a time.
#include "tensor/core/parallel.h"
#include "tensor/cpu/functions/special.h"
#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/functions/gamma_gradient.cc"
#include "hwy/foreach_target.h"
#include "tensor/cpu/math/math_gamma-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The series of gamma_gradient (special.h), for numbers that take it; others one by one.
template <class D, class V>
HWY_INLINE V GammaGradient(D d, V a, V x) {
  const V zero = hn::Zero(d), one = hn::Set(d, 1.0), most = hn::Set(d, 1e5);
  const V above = hn::MulAdd(hn::Sqrt(a), hn::Set(d, 4.0), hn::Add(a, hn::Set(d, 10.0)));  // as is_far_above
  const auto regular =
      hn::And(hn::And(hn::Gt(a, zero), hn::Gt(x, zero)), hn::And(hn::Le(a, most), hn::Lt(x, hn::Min(most, above))));
  const V x0 = hn::IfThenElse(regular, x, one);
  V k = hn::IfThenElse(regular, a, one), term = hn::Div(one, k), sum = zero, size = zero;
  V slope = hn::Sub(math::Log(d, x0), math::DigammaOf<false>(d, hn::Add(k, one)));  // of the terms' logarithms
  for (int n = 1; n < 1000000; ++n) {
    sum = hn::MulAdd(term, slope, sum);
    size = hn::Add(size, term);
    k = hn::Add(k, one);
    const V inverse = hn::Div(one, k);
    slope = hn::Sub(slope, inverse);
    term = hn::Mul(term, hn::Mul(x0, inverse));
    const V rest = hn::Mul(term, hn::Add(hn::Abs(slope), one));
    if (hn::AllTrue(d, hn::And(hn::Gt(k, x0), hn::Lt(rest, hn::Mul(size, hn::Set(d, 1e-17)))))) break;
  }
  const V r = hn::Neg(hn::Mul(x0, sum));
  if (HWY_LIKELY(hn::AllTrue(d, regular))) return r;
  return hn::IfThenElse(regular, r,
                        math::PerLane(d, hn::IfThenElse(regular, one, a), hn::IfThenElse(regular, one, x),
                                      [](double v, double w) HWY_ATTR { return gamma_gradient(v, w); }));
}

void GammaGradients(int64_t n, double* out, const double* a, const double* x) {
  const hn::ScalableTag<double> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(GammaGradient(d, hn::LoadU(d, a + i), hn::LoadU(d, x + i)), d, out + i);
  const hn::CappedTag<double, 1> one;
  for (; i < n; ++i) hn::StoreU(GammaGradient(one, hn::LoadU(one, a + i), hn::LoadU(one, x + i)), one, out + i);
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {

TESSERA_SIMD_TABLE(GammaGradients);

void run_gamma_gradient(int64_t n, double* out, const double* a, const double* x) {
  parallel_for(n, 1 << 8, [&](int64_t begin, int64_t end) {
    TESSERA_SIMD(GammaGradients)(end - begin, out + begin, a + begin, x + begin);
  });
}

}  // namespace tessera::cpu
#endif
