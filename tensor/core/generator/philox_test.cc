#include "tensor/core/generator/philox.h"

#include <gtest/gtest.h>

#include "tensor/core/error.h"

namespace tessera {
namespace {

// The known answers that the authors publish with Random123.
TEST(PhiloxTest, PublishedNumbers) {
  static_assert(philox({0, 0, 0, 0}, 0) == PhiloxWords{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u});
  const uint32_t ones = 0xffffffffu;
  EXPECT_EQ(philox({ones, ones, ones, ones}, ~uint64_t{0}),
            (PhiloxWords{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  EXPECT_EQ(philox({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, 0x299f31d0a4093822ull),
            (PhiloxWords{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

TEST(PhiloxTest, StreamsAndPositions) {
  EXPECT_EQ(philox_at(7, 3, uint64_t{5} << 32), philox({0, 5, 3, 0}, 7));
  EXPECT_EQ(philox_at(7, uint64_t{3} << 32, 5), philox({5, 0, 0, 3}, 7));
}

Generator make(uint64_t seed = kDefaultSeed) {
  return Generator(make_intrusive<PhiloxGeneratorImpl>(Device(DeviceType::kCUDA, 1), seed));
}
PhiloxGeneratorImpl& impl(const Generator& g) { return static_cast<PhiloxGeneratorImpl&>(*g.get()); }

TEST(PhiloxGeneratorTest, SeedAndOffset) {
  Generator g = make();
  EXPECT_EQ(g->device(), Device(DeviceType::kCUDA, 1));
  EXPECT_EQ(g->initial_seed(), kDefaultSeed);
  EXPECT_EQ(g->get_offset(), 0u);
  EXPECT_EQ(impl(g).reserve(4), 0u);
  EXPECT_EQ(impl(g).reserve(5), 4u);
  EXPECT_EQ(g->get_offset(), 12u);
  EXPECT_EQ(g->initial_seed(), kDefaultSeed);
  g->set_offset(40);
  EXPECT_EQ(g->get_offset(), 40u);
  EXPECT_THROW(g->set_offset(42), Error);
  EXPECT_EQ(g->get_offset(), 40u);
  g->manual_seed(5);
  EXPECT_EQ(g->initial_seed(), 5u);
  EXPECT_EQ(g->get_offset(), 0u);
  const uint64_t seed = g->seed();
  EXPECT_EQ(g->initial_seed(), seed);
}

TEST(PhiloxGeneratorTest, State) {
  Generator g = make(0x0102030405060708ull);
  g->set_offset(12);
  const std::vector<uint8_t> state = g->get_state();
  EXPECT_EQ(state, (std::vector<uint8_t>{8, 7, 6, 5, 4, 3, 2, 1, 12, 0, 0, 0, 0, 0, 0, 0}));
  Generator other = make();
  other->set_state(state);
  EXPECT_EQ(other->initial_seed(), 0x0102030405060708ull);
  EXPECT_EQ(other->get_offset(), 12u);
  other->set_state(std::span(state).first(8));
  EXPECT_EQ(other->get_offset(), 0u);
  std::vector<uint8_t> odd = state;
  odd[0] = 9;
  odd[8] = 13;
  EXPECT_THROW(other->set_state(odd), Error);
  EXPECT_THROW(other->set_state(std::span(state).first(15)), Error);
  EXPECT_EQ(other->get_state()[0], 8);
}

TEST(PhiloxGeneratorTest, CloneIsIndependent) {
  Generator g = make(3);
  g->set_offset(8);
  Generator copy(g->clone());
  EXPECT_EQ(copy->device(), g->device());
  EXPECT_EQ(copy->get_state(), g->get_state());
  impl(copy).reserve(4);
  EXPECT_EQ(g->get_offset(), 8u);
}

}  // namespace
}  // namespace tessera
