#include "tensor/core/generator/generator.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "tensor/core/error.h"

namespace tessera {
namespace {

CpuGeneratorImpl& cpu(const Generator& g) { return cpu_generator_or_default(g); }

// The 1st and the 10,000th output for the seed 5489 stand in the C++ standard ([rand.predef]) and the authors'
// mt19937ar.out.
TEST(Mt19937Test, PublishedNumbers) {
  Mt19937 engine(5489);
  EXPECT_EQ(engine.next(), 3499211612u);
  for (int i = 2; i < 10000; ++i) engine.next();
  EXPECT_EQ(engine.next(), 4123659995u);
}

TEST(Mt19937Test, FillIsTheSameStream) {
  Mt19937 a(123), b(123);
  std::vector<uint32_t> block(7000);
  int64_t at = 0;
  for (int64_t n : {1, 2, 600, 21, 0, 700, 676, 2500, 1248, 623, 5, 624}) {
    b.fill(block.data() + at, n);
    at += n;
  }
  ASSERT_EQ(at, 7000);
  for (uint32_t x : block) ASSERT_EQ(a.next(), x);
}

TEST(GeneratorTest, SeedsAndDefaults) {
  Generator g = make_cpu_generator();
  EXPECT_EQ(g->initial_seed(), 67280421310721ull);
  EXPECT_TRUE(g->device().is_cpu());
  g->manual_seed(static_cast<uint64_t>(-1));
  EXPECT_EQ(g->initial_seed(), 18446744073709551615ull);
  const uint64_t drawn = g->seed();
  EXPECT_EQ(g->initial_seed(), drawn);
  // Only the low 32 bits reach the engine.
  Generator h = make_cpu_generator(uint64_t{7} << 32);
  g->manual_seed(0);
  EXPECT_EQ(cpu(g).random(), 2357136044u);
  EXPECT_EQ(cpu(h).random(), 2357136044u);
  EXPECT_FALSE(Generator().defined());
  EXPECT_EQ(&cpu(nullptr), default_cpu_generator().get());
}

TEST(GeneratorTest, HighWordComesFirst) {
  Generator a = make_cpu_generator(3), b = make_cpu_generator(3);
  const uint64_t x = cpu(a).random64();
  EXPECT_EQ(x >> 32, cpu(b).random());
  EXPECT_EQ(x & 0xffffffffu, cpu(b).random());
}

template <class T>
T field(const std::vector<uint8_t>& bytes, size_t offset) {
  T x;
  std::memcpy(&x, bytes.data() + offset, sizeof(x));
  return x;
}

TEST(GeneratorTest, StateLayout) {
  Generator g = make_cpu_generator(123);
  std::vector<uint8_t> s = g->get_state();
  ASSERT_EQ(s.size(), 5056u);
  EXPECT_EQ(field<uint64_t>(s, 0), 123u);
  EXPECT_EQ(field<int32_t>(s, 8), 1);
  EXPECT_EQ(field<int32_t>(s, 12), 1);
  EXPECT_EQ(field<uint64_t>(s, 16), 0u);
  EXPECT_EQ(field<uint64_t>(s, 24), 123u);
  cpu(g).random();
  cpu(g).next_double_normal = 0.25;
  cpu(g).next_float_normal = 0.5f;
  s = g->get_state();
  EXPECT_EQ(field<int32_t>(s, 8), 624);
  EXPECT_EQ(field<uint64_t>(s, 16), 1u);
  EXPECT_EQ(field<double>(s, 5016 + 8), 0.25);
  EXPECT_EQ(field<int32_t>(s, 5016 + 24), 1);
  EXPECT_EQ(field<float>(s, 5016 + 32), 0.5f);
  EXPECT_EQ(s[5016 + 36], 1);
}

TEST(GeneratorTest, StateRoundTrip) {
  for (int drawn : {0, 1, 623, 624, 625, 1500}) {
    Generator a = make_cpu_generator(99), b = make_cpu_generator(1);
    for (int i = 0; i < drawn; ++i) cpu(a).random();
    cpu(a).next_double_normal = 1.5;
    b->set_state(a->get_state());
    EXPECT_EQ(a->get_state(), b->get_state());
    EXPECT_EQ(b->initial_seed(), 99u);
    EXPECT_EQ(cpu(b).next_double_normal, 1.5);
    Generator c(a->clone());
    for (int i = 0; i < 2000; ++i) {
      const uint32_t x = cpu(a).random();
      ASSERT_EQ(x, cpu(b).random());
      ASSERT_EQ(x, cpu(c).random());
    }
  }
}

TEST(GeneratorTest, ManualSeedDropsWaitingNormals) {
  Generator g = make_cpu_generator();
  cpu(g).next_double_normal = 1.0;
  cpu(g).next_float_normal = 1.0f;
  g->manual_seed(4);
  EXPECT_FALSE(cpu(g).next_double_normal);
  EXPECT_FALSE(cpu(g).next_float_normal);
}

TEST(GeneratorTest, BadStatesChangeNothing) {
  Generator g = make_cpu_generator(8);
  const std::vector<uint8_t> before = g->get_state();
  EXPECT_THROW(g->set_state({}), Error);
  EXPECT_THROW(g->set_state(std::vector<uint8_t>(5048)), Error);
  EXPECT_THROW(g->set_state(std::vector<uint8_t>(5056)), Error);
  const auto with = [&](size_t offset, uint32_t value) {
    std::vector<uint8_t> s = before;
    std::memcpy(s.data() + offset, &value, 4);
    return s;
  };
  EXPECT_THROW(g->set_state(with(8, 0)), Error);
  EXPECT_THROW(g->set_state(with(8, 625)), Error);
  EXPECT_THROW(g->set_state(with(8, 0xffffffffu)), Error);
  EXPECT_THROW(g->set_state(with(12, 0)), Error);
  EXPECT_THROW(g->set_state(with(16, 625)), Error);
  EXPECT_EQ(g->get_state(), before);
  // left and next disagree: accepted, and every further number is made of the 624 words.
  g->set_state(with(8, 624));
  for (int i = 0; i < 2000; ++i) cpu(g).random();
}

TEST(GeneratorTest, NoOffset) {
  Generator g = make_cpu_generator();
  EXPECT_THROW(g->set_offset(4), Error);
  EXPECT_THROW(g->get_offset(), Error);
}

}  // namespace
}  // namespace tessera
