#include "tensor/cuda/runtime/architectures.h"

#include <gtest/gtest.h>

#include "tensor/cuda/runtime/runtime.h"

namespace tessera::cuda {
namespace {

using Names = std::vector<std::string>;

TEST(Architectures, CodeServesItsMajorVersionFromItsMinorOneOn) {
  const Names compiled{"sm_80", "sm_90", "sm_103"};
  for (const auto& [major, minor] : {std::pair{8, 0}, {8, 6}, {8, 9}, {9, 0}, {10, 3}})
    EXPECT_TRUE(is_served(compiled, major, minor)) << major << '.' << minor;
  for (const auto& [major, minor] : {std::pair{7, 5}, {10, 0}, {11, 0}, {12, 0}})
    EXPECT_FALSE(is_served(compiled, major, minor)) << major << '.' << minor;
}

TEST(Architectures, IntermediateCodeServesWhateverIsNewer) {
  const Names compiled{"sm_80", "compute_90"};
  for (const auto& [major, minor] : {std::pair{8, 9}, {9, 0}, {10, 0}, {12, 1}})
    EXPECT_TRUE(is_served(compiled, major, minor)) << major << '.' << minor;
  EXPECT_FALSE(is_served(compiled, 7, 0));
  EXPECT_FALSE(is_served({"compute_90"}, 8, 9));
}

TEST(Architectures, OfThisBuild) {
  ASSERT_FALSE(architectures().empty());
  for (const std::string& name : architectures())
    EXPECT_TRUE(name.starts_with("sm_") || name.starts_with("compute_")) << name;
  if (device_count() == 0) GTEST_SKIP() << "no CUDA device";
  EXPECT_EQ(architecture_problem(0), "");
}

}  // namespace
}  // namespace tessera::cuda
