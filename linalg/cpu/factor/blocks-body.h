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
constexpr BlockKernels<T> kBlockKernels = {lu_panel<T>, solve_block<T>, update<T>, subtract_dots<T>};
template <class T>
constexpr CholeskyKernels<T> kCholeskyKernels = {cholesky_block<T>, small_cholesky<T>};
template <class T>
constexpr SmallKernels<T> kSmallKernels = {small_lu<T>, small_lu_solve<T>};
template <class T>
constexpr SmallSystems<T> kSmallSystems = {small_system<T>};
template <class T>
constexpr SmallInverse<T> kSmallInverse = {small_inverse<T>};
template <class T>
constexpr SmallTriangles<T> kSmallTriangles = {small_solve<T>};
template <class T>
constexpr SmallLdl<T> kSmallLdl = {HWY_TARGET <= HWY_AVX2 ? small_ldl_factor<T> : nullptr, small_ldl_solve<T>,
                                   mix_rows<T>};
template <class T>
constexpr int64_t kGroupSize = Lanes<T>::kCount;

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::factor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu::factor {

#define TESSERA_TABLE(Kernels, ...)                       \
  template <>                                             \
  const Kernels<__VA_ARGS__>& kernels() {                 \
    return *TESSERA_SIMD_CHOICE(k##Kernels<__VA_ARGS__>); \
  }
#define TESSERA_TABLES(...)                               \
  TESSERA_TABLE(BlockKernels, __VA_ARGS__)                \
  TESSERA_TABLE(CholeskyKernels, __VA_ARGS__)             \
  TESSERA_TABLE(SmallKernels, __VA_ARGS__)                \
  TESSERA_TABLE(SmallSystems, __VA_ARGS__)                \
  TESSERA_TABLE(SmallInverse, __VA_ARGS__)                \
  TESSERA_TABLE(SmallTriangles, __VA_ARGS__)              \
  template <>                                             \
  int64_t group_size<__VA_ARGS__>() {                     \
    return *TESSERA_SIMD_CHOICE(kGroupSize<__VA_ARGS__>); \
  }
TESSERA_TABLES(TESSERA_REAL)
TESSERA_TABLES(std::complex<TESSERA_REAL>)
TESSERA_TABLE(SmallLdl, TESSERA_REAL)

}  // namespace tessera::cpu::factor
#endif
