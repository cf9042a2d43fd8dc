// The kernels of lockstep.h for TESSERA_REAL: all of a file that is compiled once per SIMD target, after
// foreach_target.h.
#include <algorithm>
#include <cmath>

#include "hwy/highway.h"
#include "linalg/cpu/lane_matrix-inl.h"
#include "linalg/cpu/spectral/lockstep-inl.h"
#include "linalg/cpu/spectral/matrix_io.h"
#include "linalg/cpu/simd_choice.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {

template <class R>
void Load(int64_t count, int64_t rows, int64_t cols, numbers::Group<const R> from, bool upper, R* to, R* scales) {
  using numbers::HWY_NAMESPACE::Part;
  const numbers::HWY_NAMESPACE::LaneMatrix<R> a{to, cols};
  a.load(count, rows, from, upper ? Part::kUpper : Part::kAll);
  const hn::ScalableTag<R> d;
  auto largest = hn::Zero(d), wrong = largest;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = upper ? i : 0; j < cols; ++j) {
      const auto x = hn::Load(d, a.at(i, j));
      largest = hn::Max(largest, hn::Abs(x));
      wrong = hn::Add(wrong, hn::Sub(x, x));  // 0 for finite numbers alone
    }
  hn::StoreU(hn::Add(largest, wrong), d, scales);
  const int64_t lanes = Lockstep<R>::Lanes();
  for (int64_t lane = 0; lane < lanes; ++lane) scales[lane] = std::isfinite(scales[lane]) ? scale_for(scales[lane]) : 0;
  if (std::all_of(scales, scales + lanes, [](R x) { return x == 1; })) return;
  const auto scale = hn::LoadU(d, scales);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = upper ? i : 0; j < cols; ++j) hn::Store(hn::Mul(scale, hn::Load(d, a.at(i, j))), d, a.at(i, j));
}
template <class R>
void Store(int64_t count, int64_t rows, int64_t cols, R* from, numbers::Group<R> to) {
  numbers::HWY_NAMESPACE::LaneMatrix<R>{from, cols}.store(count, rows, to);
}
template <class R>
uint32_t Eigh(R* a, int64_t n, R* d, R* v, R* room) {
  return LockstepEigh<R>(a, n, d, v, room).run();
}
template <class R>
uint32_t Svd(R* a, int64_t m, int64_t n, R* d, R* u, int64_t u_rows, R* v, R* room) {
  return LockstepSvd<R>(a, m, n, d, u, u_rows, v, room).run();
}
template <class R>
constexpr LockstepKernels<R> kLockstep = {
    .lanes = Lockstep<R>::Lanes, .load = Load<R>, .store = Store<R>, .eigh = Eigh<R>, .svd = Svd<R>};

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu::internal {

template <>
const LockstepKernels<TESSERA_REAL>& lockstep() {
  return *TESSERA_SIMD_CHOICE(kLockstep<TESSERA_REAL>);
}

}  // namespace tessera::cpu::internal
#endif
