#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/support/simd_test.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tensor/cpu/support/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// out[i] = 2 a[i] + 1; returns the number of lanes, which tells the targets apart.
int Toy(const float* a, float* out, int n) {
  const hn::ScalableTag<float> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  int i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::MulAdd(hn::LoadU(d, a + i), hn::Set(d, 2.0f), hn::Set(d, 1.0f)), d, out + i);
  }
  for (; i < n; ++i) out[i] = 2.0f * a[i] + 1.0f;
  return lanes;
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tessera::cpu {
namespace {

TESSERA_SIMD_TABLE(Toy);

TEST(Simd, EveryTargetOfThisMachineComputesTheSame) {
  std::vector<float> a(37), out(37);
  for (int i = 0; i < 37; ++i) a[i] = 0.5f * i;
  for (int level = 0; level <= static_cast<int>(simd_level()); ++level) {
    std::fill(out.begin(), out.end(), -1.0f);
    EXPECT_EQ(Toy_simd_table[level](a.data(), out.data(), 37), 4 << level);
    for (int i = 0; i < 37; ++i) EXPECT_EQ(out[i], i + 1.0f) << i << " at level " << level;
  }
}

TEST(Simd, DispatchTakesTheChosenTarget) {
  std::vector<float> a(20), out(20);
  EXPECT_EQ(TESSERA_SIMD(Toy)(a.data(), out.data(), 20), 4 << static_cast<int>(simd_level()));
}

TEST(Simd, NameFitsTheLevel) {
  const std::string names[3] = {"SSE4", "AVX2", "AVX3"};
  EXPECT_EQ(simd_level_name(), names[static_cast<int>(simd_level())]);
}

}  // namespace
}  // namespace tessera::cpu
#endif
