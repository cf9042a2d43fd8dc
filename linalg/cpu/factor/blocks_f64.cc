// Kernels for blocks and groups of matrices of doubles, and of complex numbers of them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "linalg/cpu/factor/blocks_f64.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "linalg/cpu/factor/block-inl.h"
#include "linalg/cpu/factor/blocks.h"
#include "linalg/cpu/factor/small-inl.h"
#include "tensor/cpu/support/simd.h"

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
const BlockKernels<double>& F64Kernels() { return kKernels<double>; }
const BlockKernels<std::complex<double>>& C128Kernels() { return kKernels<std::complex<double>>; }

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::factor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu::factor {
TESSERA_SIMD_TABLE(F64Kernels);
TESSERA_SIMD_TABLE(C128Kernels);
template <>
const BlockKernels<double>& block_kernels() {
  return TESSERA_SIMD(F64Kernels)();
}
template <>
const BlockKernels<std::complex<double>>& block_kernels() {
  return TESSERA_SIMD(C128Kernels)();
}
}  // namespace tessera::cpu::factor
#endif
