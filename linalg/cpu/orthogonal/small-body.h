// The kernels of small.h for TESSERA_REAL and complex numbers of it: all of a file that is compiled once per SIMD
// target, after foreach_target.h.
#include "hwy/highway.h"
#include "linalg/cpu/orthogonal/least_squares-inl.h"
#include "linalg/cpu/orthogonal/small-inl.h"
#include "linalg/cpu/orthogonal/small.h"
#include "linalg/cpu/simd_choice.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::orthogonal {
namespace HWY_NAMESPACE {
template <class R>
constexpr SmallLeastSquares<R> kSmallLeastSquares = {small_least_squares<R>};
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::orthogonal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu::orthogonal {

template <>
const SmallKernels<TESSERA_REAL>& small_kernels() {
  return *TESSERA_SIMD_CHOICE(kSmallKernels<TESSERA_REAL>);
}
template <>
const SmallKernels<std::complex<TESSERA_REAL>>& small_kernels() {
  return *TESSERA_SIMD_CHOICE(kSmallKernels<std::complex<TESSERA_REAL>>);
}
template <>
const SmallLeastSquares<TESSERA_REAL>& small_least_squares() {
  return *TESSERA_SIMD_CHOICE(kSmallLeastSquares<TESSERA_REAL>);
}

}  // namespace tessera::cpu::orthogonal
#endif
