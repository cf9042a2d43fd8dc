#include "tensor/cpu/support/scratch.h"

#include <cstdint>
#include <cstring>
#include <thread>

#include "gtest/gtest.h"
#include "tensor/core/error.h"

namespace tessera::cpu::internal {
namespace {

TEST(Scratch, BlocksAreAlignedAndDoNotOverlap) {
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{5000}, size_t{3} << 20, size_t{40} << 20}) {
    Scratch a(bytes), b(bytes), c(64);
    for (const Scratch* s : {&a, &b, &c}) EXPECT_EQ(reinterpret_cast<uintptr_t>(s->data()) % 64, 0u);
    std::memset(a.data(), 1, bytes);
    std::memset(b.data(), 2, bytes);
    std::memset(c.data(), 3, 64);
    for (size_t i = 0; i < bytes; i += 997) {
      ASSERT_EQ(a.as<char>()[i], 1);
      ASSERT_EQ(b.as<char>()[i], 2);
    }
  }
}

TEST(Scratch, ABlockIsUsedAgain) {
  void* first;
  {
    Scratch a(100000);
    first = a.data();
  }
  Scratch b(90000);
  EXPECT_EQ(b.data(), first);
}

TEST(Scratch, ManyBlocksAtOnce) {
  std::thread([] {
    Scratch* blocks[40];
    for (int i = 0; i < 40; ++i) std::memset((blocks[i] = new Scratch(1000 * i))->data(), i, 1000 * i);
    for (int i = 0; i < 40; ++i) {
      for (int k = 0; k < 1000 * i; ++k) ASSERT_EQ(blocks[i]->as<char>()[k], i);
      delete blocks[i];
    }
  }).join();
}

TEST(Scratch, ImpossibleSizes) {
  EXPECT_THROW(Scratch(SIZE_MAX), OutOfMemoryError);
  EXPECT_THROW(Scratch(size_t{1} << 61), OutOfMemoryError);
  EXPECT_THROW(ScratchArray<double>(INT64_MAX), OutOfMemoryError);
  EXPECT_THROW(ScratchArray<double>(-1), OutOfMemoryError);
}

}  // namespace
}  // namespace tessera::cpu::internal
