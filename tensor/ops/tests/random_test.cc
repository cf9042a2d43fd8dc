// Random tensors: the documented stream of MT19937, seeds and generators, dtypes, ranges, dropout, errors.
#include <cmath>
#include <cstdint>
#include <utility>

#include "tensor/ops/tests/testing.h"

namespace tessera {
namespace {

Generator seeded(uint64_t seed = 0) { return make_cpu_generator(seed); }
// The first words of MT19937 for seed 0 ([rand.predef] gives the engine, any implementation its words).
constexpr uint32_t kWords[] = {2357136044u, 2546248239u, 3071714933u};
constexpr float uniform_of(uint32_t word) { return static_cast<float>(word & 0xffffffu) * 0x1p-24f; }

TEST(Random, FirstNumbers) {
  expect<float>(rand({3}, seeded()), {uniform_of(kWords[0]), uniform_of(kWords[1]), uniform_of(kWords[2])});
  const uint64_t word = uint64_t{kWords[0]} << 32 | kWords[1];
  expect<double>(rand({1}, seeded(), DType::kFloat64), {static_cast<double>(word & ((1ull << 53) - 1)) * 0x1p-53});
  expect<int64_t>(randint(100, {3}, seeded()), {kWords[0] % 100, kWords[1] % 100, kWords[2] % 100});
  expect<int32_t>(randint(-5, 95, {1}, seeded(), DType::kInt32), {static_cast<int32_t>(kWords[0] % 100) - 5});
  // torch.manual_seed(0); torch.rand(3): 0.4963, 0.7682, 0.0885.
  expect<float>(rand({3}, seeded()), {0.4963f, 0.7682f, 0.0885f}, {3}, 1e-4);
}

TEST(Random, DefaultGenerator) {
  default_cpu_generator()->manual_seed(0);
  expect<float>(rand({1}), {uniform_of(kWords[0])});
  expect<float>(rand({1}), {uniform_of(kWords[1])});  // the stream goes on
  default_cpu_generator()->manual_seed(0);
  expect<float>(rand_like(zeros({1, 1})), {uniform_of(kWords[0])}, {1, 1});
}

TEST(Random, Normal) {
  // One pair of the Box-Muller method by doubles: two uniform numbers of 53 bits each.
  const Generator g = seeded(5), h = seeded(5);
  CpuGeneratorImpl& words = cpu_generator_or_default(h);
  const auto uniform = [&] { return static_cast<double>(words.random64() & ((1ull << 53) - 1)) * 0x1p-53; };
  const double u1 = uniform(), u2 = uniform(), radius = std::sqrt(-2 * std::log1p(-u2));
  const double angle = 2 * std::acos(-1.0) * u1;
  expect<double>(randn({2}, g, DType::kFloat64), {radius * std::cos(angle), radius * std::sin(angle)}, {2}, 1e-12);
  const Tensor many = randn({100000}, seeded(1));
  EXPECT_NEAR(mean(many).item<float>(), 0, 5 / std::sqrt(100000.0));
  EXPECT_NEAR(var(many).item<float>(), 1, 0.03);
  expect<float>(normal(of<float>({1, 2}), 0.0, seeded()), {1, 2});
  expect_error<Error>([] { normal_(zeros({1}), 0, -1); }, "normal expects std >= 0.0, but found std -1");
}

TEST(Random, Permutation) {
  const Generator g = seeded();
  int64_t wanted[6] = {0, 1, 2, 3, 4, 5};
  for (int64_t i = 0; i < 5; ++i) std::swap(wanted[i], wanted[i + cpu_generator_or_default(g).random() % (6 - i)]);
  expect<int64_t>(randperm(6, seeded()), {wanted[0], wanted[1], wanted[2], wanted[3], wanted[4], wanted[5]});
  EXPECT_EQ(randperm(6, seeded(), DType::kInt16).dtype(), DType::kInt16);
  expect<int64_t>(randperm(0), {}, {0});
  expect_error<Error>([] { randperm(-1); }, "n must be non-negative");
}

TEST(Random, TheOrderIsThatOfMemoryOrIndices) {
  // Every layout gets the numbers of one stream, none twice.
  const Tensor plain = rand({6}, seeded(3)), gaps = zeros({6, 2});
  uniform_(select(gaps, 1, 0), 0, 1, seeded(3));
  EXPECT_TRUE(equal(select(gaps, 1, 0), plain));
  EXPECT_TRUE(equal(select(gaps, 1, 1), zeros({6})));  // what lies between is not touched
  const Tensor t = transpose(zeros({2, 3}), 0, 1);
  uniform_(t, 0, 1, seeded(3));
  EXPECT_TRUE(equal(std::get<0>(sort(reshape(t, {6}))), std::get<0>(sort(plain))));
  expect_error<Error>([] { uniform_(expand(zeros({1}), {3})); }, kSelfOverlap);
}

TEST(Random, Ranges) {
  const Tensor u = uniform_(zeros({1000}), -2, 3, seeded());
  EXPECT_GE(min(u).item<float>(), -2);
  EXPECT_LT(max(u).item<float>(), 3);
  const Tensor i = randint(3, 6, {1000}, seeded());
  EXPECT_EQ(min(i).item<int64_t>(), 3);
  EXPECT_EQ(max(i).item<int64_t>(), 5);
  EXPECT_GT(min(exponential_(zeros({1000}), 2, seeded())).item<float>(), 0);
  EXPECT_GE(min(geometric_(zeros({1000}), 0.5, seeded())).item<float>(), 1);
  expect_error<Error>([] { randint(3, 3, {1}); },
                      "random_ expects 'from' to be less than 'to', but got from=3 >= to=3");
  expect_error<Error>([] { uniform_(zeros({1}), 2, 1); }, "uniform_ expects");
  expect_error<NotImplementedError>([] { uniform_(zeros({1}, DType::kInt64)); }, "not implemented for 'Long'");
}

TEST(Random, Bernoulli) {
  expect<float>(bernoulli(of<float>({0, 1, 0, 1}), seeded()), {0, 1, 0, 1});
  expect<int32_t>(bernoulli_(zeros({3}, DType::kInt32), 1.0, seeded()), {1, 1, 1});
  expect_error<Error>([] { bernoulli_(zeros({1}), 1.5); }, "bernoulli_ expects p to be in [0, 1], but got p=1.5");
}

TEST(Random, Multinomial) {
  expect<int64_t>(multinomial(of<float>({0, 1, 0}), 2, true, seeded()), {1, 1});
  const Tensor all = multinomial(of<float>({1, 2, 3}), 3, false, seeded());  // without replacement: a permutation
  expect<int64_t>(std::get<0>(sort(all)), {0, 1, 2});
  EXPECT_EQ(shape(multinomial(ones({4, 3}), 2)), (IntVector{4, 2}));
  expect_error<Error>([] { multinomial(ones({3}), 4); },
                      "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  expect_error<Error>([] { multinomial(ones({3}), 0); }, "cannot sample n_sample <= 0 samples");
  expect_error<Error>([] { multinomial(ones({3}, DType::kInt64), 1); },
                      "multinomial only supports floating-point dtypes for input, got: Long");
}

TEST(Random, Counts) {
  expect<float>(poisson(of<float>({0, 0}), seeded()), {0, 0});
  expect<float>(binomial(of<float>({5, 5}), of<float>({0, 1}), seeded()), {0, 5});
  expect_error<ValueError>([] { binomial(of<int64_t>({5}), of<float>({1})); },
                           "binomial only supports floating-point dtypes for count, got: Long");
}

TEST(Random, Dropout) {
  const Tensor x = ones({1000});
  EXPECT_TRUE(equal(dropout(x, 0.5, false), x));
  EXPECT_TRUE(equal(dropout(x, 1, true), zeros({1000})));
  default_cpu_generator()->manual_seed(0);
  const Tensor y = dropout(x, 0.75, true);
  const int64_t kept = count_nonzero(y).item<int64_t>();
  EXPECT_TRUE(kept > 180 && kept < 320) << kept;
  EXPECT_EQ(sum(y).item<float>(), 4 * static_cast<float>(kept));  // what is kept grows by 1 / (1 - p)
  const auto [z, mask] = native_dropout(x, 0.5, true);
  EXPECT_EQ(mask.dtype(), DType::kBool);
  EXPECT_TRUE(equal(z, mul(to(mask, DType::kFloat32), 2)));
  // Whole features fall.
  const Tensor f = feature_dropout(ones({5, 4, 3}), 0.5, true);
  EXPECT_TRUE(equal(f, expand(slice(f, 2, 0, 1), {5, 4, 3})));
  expect_error<Error>([&] { dropout(x, 1.5, true); }, "dropout probability has to be between 0 and 1, but got 1.5");
  expect_error<Error>([&] { feature_dropout(x, 0.5, true); },
                      "Feature dropout requires at least 2 dimensions in the input");
}

TEST(Random, Out) {
  const Tensor out = zeros({1});
  Warnings warnings;
  rand_out(out, {2}, seeded());
  expect<float>(out, {uniform_of(kWords[0]), uniform_of(kWords[1])});
  EXPECT_TRUE(warnings.has(kResized));
  const Tensor p = zeros({0}, DType::kInt32);
  randperm_out(p, 4, seeded());
  EXPECT_TRUE(equal(p, randperm(4, seeded(), DType::kInt32)));
  expect_error<Error>([&] { multinomial_out(out, ones({3}), 1); }, "multinomial expects Long tensor out, got: Float");
}

TEST(Random, EmptyAndMeta) {
  const Generator g = seeded();
  expect<float>(rand({0}, g), {}, {0});
  const Tensor m = uniform_(meta({2, 3}), 0, 1, g);
  EXPECT_TRUE(m.is_meta());
  EXPECT_EQ(cpu_generator_or_default(g).random(), kWords[0]);  // nothing was drawn
  EXPECT_EQ(shape(bernoulli(meta({2, 3}))), (IntVector{2, 3}));
}

TEST(Random, SameBits) {
  expect_same_bits([] { return rand({300000}, seeded(7)); });
  expect_same_bits([] { return randn({300000}, seeded(7)); });
  expect_same_bits([] { return randint(1000, {300000}, seeded(7)); });
  expect_same_bits([] { return bernoulli(full({300000}, 0.3), seeded(7)); });
}

}  // namespace
}  // namespace tessera
