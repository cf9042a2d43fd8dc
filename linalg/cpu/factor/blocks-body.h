// The kernels of blocks.h for TESSERA_REAL and complex numbers of it: all of a file that is compiled once per SIMD
// target, after foreach_target.h.
#include "hwy/highway.h"
#include "linalg/cpu/factor/block-inl.h"
#include "linalg/cpu/factor/blocks.h"
#include "linalg/cpu/factor/small-inl.h"
#include "linalg/cpu/simd_choice.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::factor {
namespace HWY_NAMESPACE {

template <class T>
constexpr BlockKernels<T> kKernels = {
    .lu_panel = lu_panel<T>,
    .solve_block = solve_block<T>,
    .subtract_columns = update<T>,
    .subtract_dots = subtract_dots<T>,
    .cholesky_block = cholesky_block<T>,
    .lanes = lanes<T>,
    .small_lu = small_lu<T>,
    .small_inverse = small_inverse<T>,
    .small_cholesky = small_cholesky<T>,
    .small_solve = small_solve<T>,
    .small_lu_solve = small_lu_solve<T>,
};

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::factor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu::factor {

template <>
const BlockKernels<TESSERA_REAL>& block_kernels() {
  return *TESSERA_SIMD_CHOICE(kKernels<TESSERA_REAL>);
}
template <>
const BlockKernels<std::complex<TESSERA_REAL>>& block_kernels() {
  return *TESSERA_SIMD_CHOICE(kKernels<std::complex<TESSERA_REAL>>);
}

}  // namespace tessera::cpu::factor
#endif
