// Small inverses of products of triangles: a file of its own, which programs that factor and solve need not link.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "linalg/cpu/factor/blocks_inverse.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "linalg/cpu/factor/blocks.h"
#include "linalg/cpu/factor/small-inl.h"
#include "linalg/cpu/simd_choice.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::factor {
namespace HWY_NAMESPACE {

template <class T>
constexpr SmallProductInverse<T> kSmallProductInverse = {small_product_inverse<T>};

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::factor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu::factor {

#define TESSERA_TABLE(...)                                          \
  template <>                                                       \
  const SmallProductInverse<__VA_ARGS__>& kernels() {               \
    return *TESSERA_SIMD_CHOICE(kSmallProductInverse<__VA_ARGS__>); \
  }
TESSERA_TABLE(float)
TESSERA_TABLE(double)
TESSERA_TABLE(std::complex<float>)
TESSERA_TABLE(std::complex<double>)

}  // namespace tessera::cpu::factor
#endif
