#include "tensor/core/visit.h"

#include <gtest/gtest.h>

#include <type_traits>

namespace tessera {
namespace {

TEST(VisitSize, GivesATypeOfThatSize) {
  for (const int64_t size : {1, 2, 4, 8, 16})
    EXPECT_EQ(visit_size(size, [](auto tag) { return int64_t{sizeof(typename decltype(tag)::type)}; }), size);
  struct alignas(16) Aligned {
    uint32_t words[4];
  };
  EXPECT_TRUE(visit_size<Aligned>(16, [](auto tag) { return std::is_same_v<typename decltype(tag)::type, Aligned>; }));
  for (const int64_t size : {0, 3, 12, 32}) EXPECT_THROW(visit_size(size, [](auto) {}), Error) << size;
}

TEST(VisitDType, GivesTheTypeOfTheElements) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const DType t = static_cast<DType>(i);
    if (category_of(t) == Category::kQuantized) continue;
    int64_t size = 0;
    try {
      size = visit_dtype(t, [](auto tag) { return int64_t{sizeof(typename decltype(tag)::type)}; });
    } catch (const NotImplementedError& e) {
      EXPECT_NE(std::string(e.what()).find(name_of(t)), std::string::npos) << e.what();
      continue;
    }
    EXPECT_EQ(size, item_size(t)) << name_of(t);
  }
  EXPECT_THROW(visit_dtype(DType::kQInt8, [](auto) {}), NotImplementedError);
}

}  // namespace
}  // namespace tessera
