#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "tensor/core/error.h"
#include "tensor/core/generator/philox.h"
#include "tensor/cuda/random/engines.h"
#include "tensor/cuda/support/testing.h"

namespace tessera::cuda {
namespace {

using testing::DeviceBytes;
using testing::DeviceTest;
using testing::element;
using Random = DeviceTest;

constexpr int64_t kMany = 20000;
constexpr DType kFloats[] = {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};

Generator seeded(uint64_t seed = 0) {
  return Generator(make_intrusive<PhiloxGeneratorImpl>(Device(DeviceType::kCUDA, 0), seed));
}

using Sampler = std::function<void(cpu::Shape, const cpu::Operand&, const Generator&)>;

// n numbers of a sampler, as doubles.
std::vector<double> sampled(DType t, int64_t n, const Generator& g, const Sampler& sampler) {
  const DeviceBytes out(static_cast<size_t>(n * item_size(t)));
  const int64_t stride = item_size(t);
  sampler({&n, 1}, {out.get(), t, &stride}, g);
  const std::vector<uint8_t> bytes = out.read();
  std::vector<double> r(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) r[i] = element(t, bytes.data(), i).real();
  return r;
}
Sampler uniform(double from, double to) {
  return [=](cpu::Shape s, const cpu::Operand& o, const Generator& g) { cuda::random_uniform(s, o, from, to, g); };
}
Sampler normal(double mean, double std) {
  return [=](cpu::Shape s, const cpu::Operand& o, const Generator& g) { cuda::random_normal(s, o, mean, std, g); };
}

double mean(const std::vector<double>& v) {
  return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
}
double variance(const std::vector<double>& v) {
  const double m = mean(v);
  double s = 0;
  for (double x : v) s += (x - m) * (x - m);
  return s / static_cast<double>(v.size());
}
// The mean of n draws lies within 5 standard errors; the seed is fixed, so this is no gamble.
void expect_moments(const std::vector<double>& v, double m, double var) {
  EXPECT_NEAR(mean(v), m, 5 * std::sqrt(var / static_cast<double>(v.size())) + 1e-3 * std::fabs(m));
  EXPECT_NEAR(variance(v), var, 0.1 * var);
}

TEST_F(Random, KnownNumbers) {
  const std::vector<double> u = sampled(DType::kFloat32, 3, seeded(), uniform(0, 1)),
                            z = sampled(DType::kFloat32, 3, seeded(), normal(0, 1));
  const double uniforms[] = {0.3990, 0.5167, 0.0249}, normals[] = {-0.9247, -0.4253, -2.6438};
  for (int i = 0; i < 3; ++i) {
    EXPECT_NEAR(u[i], uniforms[i], 5.1e-5);
    EXPECT_NEAR(z[i], normals[i], 5.1e-5);
  }
}

// Element i of a large tensor: stream i % lanes, step i / lanes / 4, word i / lanes % 4.
TEST_F(Random, EachElementHasItsWords) {
  const int64_t lanes = 270336, n = 5 * lanes + 1000;
  Generator g = seeded(9);
  g->set_offset(8);
  const std::vector<double> v = sampled(DType::kFloat32, n, g, uniform(0, 1));
  EXPECT_EQ(g->get_offset(), 16u);
  for (int64_t i : {int64_t{0}, int64_t{77}, lanes - 1, lanes, 3 * lanes + 5, 4 * lanes, n - 1}) {
    const PhiloxWords w = philox_at(9, static_cast<uint64_t>(i % lanes), static_cast<uint64_t>(2 + i / lanes / 4));
    const uint32_t words[] = {w.x, w.y, w.z, w.w};
    EXPECT_EQ(v[i], static_cast<float>(words[i / lanes % 4]) * 0x1p-32f + 0x1p-33f) << i;
  }
  const std::vector<double> next = sampled(DType::kFloat64, 3, g, uniform(0, 1));
  const PhiloxWords w = philox_at(9, 1, 4);
  EXPECT_EQ(next[1], static_cast<double>(w.x ^ static_cast<uint64_t>(w.y) << 21) * 0x1p-53 + 0x1p-54);
  EXPECT_EQ(g->get_offset(), 20u);
}

// A transposed tensor gets the same numbers at the same addresses; gaps are left alone.
TEST_F(Random, StridesFollowMemory) {
  const int64_t shape[] = {30, 50}, turned[] = {50, 30}, strides[] = {200, 4}, turned_strides[] = {4, 200},
                gaps[] = {400, 8};
  const DeviceBytes a(6000), b(6000), c(12000, 0);
  cuda::random_normal(shape, {a.get(), DType::kFloat32, strides}, 0, 1, seeded());
  cuda::random_normal(turned, {b.get(), DType::kFloat32, turned_strides}, 0, 1, seeded());
  cuda::random_normal(shape, {c.get(), DType::kFloat32, gaps}, 0, 1, seeded());
  const std::vector<uint8_t> va = a.read(), vc = c.read();
  EXPECT_EQ(va, b.read());
  for (int64_t i = 0; i < 1500; ++i) {
    ASSERT_EQ(element(DType::kFloat32, va.data(), i), element(DType::kFloat32, vc.data(), 2 * i));
    ASSERT_EQ(element(DType::kFloat32, vc.data(), 2 * i + 1), 0.0);
  }
}

TEST_F(Random, EmptyAndScalar) {
  Generator g = seeded();
  EXPECT_TRUE(sampled(DType::kFloat32, 0, g, normal(0, 1)).empty());
  EXPECT_EQ(g->get_offset(), 0u);
  const DeviceBytes out(4);
  cuda::random_uniform({}, {out.get(), DType::kFloat32, nullptr}, 0, 1, g);
  EXPECT_NEAR(element(DType::kFloat32, out.read().data(), 0).real(), 0.3990, 5.1e-5);
}

TEST_F(Random, Uniform) {
  for (DType t : kFloats) {
    const std::vector<double> v = sampled(t, kMany, seeded(1), uniform(-2, 3));
    expect_moments(v, 0.5, 25.0 / 12);
    EXPECT_GE(*std::min_element(v.begin(), v.end()), -2);
    EXPECT_LT(*std::max_element(v.begin(), v.end()), 3);
  }
  EXPECT_EQ(sampled(DType::kFloat32, 2, seeded(), uniform(2, 2)), (std::vector<double>{2, 2}));
  EXPECT_THROW(sampled(DType::kFloat32, 2, seeded(), uniform(2, 1)), Error);
  EXPECT_THROW(sampled(DType::kFloat16, 2, seeded(), uniform(0, 1e6)), Error);
  EXPECT_THROW(sampled(DType::kInt32, 2, seeded(), uniform(0, 1)), NotImplementedError);
}

TEST_F(Random, NormalAndLogNormal) {
  for (DType t : kFloats) {
    std::vector<double> v = sampled(t, kMany, seeded(2), normal(1, 2));
    expect_moments(v, 1, 4);
    EXPECT_NEAR(std::count_if(v.begin(), v.end(), [](double x) { return x > 3; }) / static_cast<double>(kMany), 0.1587,
                0.01);
    v = sampled(t, kMany, seeded(2), [](cpu::Shape s, const cpu::Operand& o, const Generator& g) {
      cuda::random_log_normal(s, o, 1, 0.25, g);
    });
    expect_moments(v, std::exp(1 + 0.03125), (std::exp(0.0625) - 1) * std::exp(2.0625));
  }
  EXPECT_THROW(sampled(DType::kFloat32, 2, seeded(), normal(0, -1)), Error);
}

TEST_F(Random, BernoulliOfAllDtypes) {
  for (DType t : {DType::kBool, DType::kUInt8, DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64,
                  DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    for (double p : {0.0, 0.3, 1.0}) {
      const std::vector<double> v =
          sampled(t, kMany, seeded(3),
                  [=](cpu::Shape s, const cpu::Operand& o, const Generator& g) { cuda::random_bernoulli(s, o, p, g); });
      EXPECT_NEAR(mean(v), p, 5 * std::sqrt(p * (1 - p) / kMany));
      EXPECT_TRUE(std::all_of(v.begin(), v.end(), [](double x) { return x == 0 || x == 1; }));
    }
  }
}

// The numbers of a Bernoulli mask, and products.
TEST_F(Random, DropoutInOneStep) {
  for (const DType t : kFloats) {
    constexpr int64_t kCount = 5000;
    const bool wide = t == DType::kFloat64;
    const std::vector<double> kept =
        sampled(wide ? t : DType::kFloat32, kCount, seeded(3),
                [](cpu::Shape s, const cpu::Operand& o, const Generator& g) { cuda::random_bernoulli(s, o, 0.7, g); });
    const testing::Mirror x(testing::random_elements(t, kCount, 1));
    const DeviceBytes y(static_cast<size_t>(kCount * item_size(t))), mask(kCount);
    const Generator g = seeded(3);
    cuda::random_dropout(t, kCount, 0.3, 1 / 0.7, x.device(), y.get(), mask.as<bool>(), g);
    EXPECT_GT(g->get_offset(), 0u);
    const std::vector<uint8_t> out = y.read(), bits = mask.read();
    for (int64_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(bits[static_cast<size_t>(i)], kept[static_cast<size_t>(i)]) << name_of(t) << " " << i;
      const double before = element(t, x.host_bytes().data(), i).real(), now = element(t, out.data(), i).real();
      ASSERT_NEAR(now, kept[static_cast<size_t>(i)] * before / 0.7, 0.02 * std::fabs(before)) << name_of(t) << " " << i;
    }
  }
}
TEST_F(Random, BernoulliOfATensor) {
  for (DType t : kFloats) {
    std::vector<uint8_t> chances(static_cast<size_t>(4 * item_size(t)));
    const double p[] = {0, 0.25, 0.75, 1};
    for (int i = 0; i < 4; ++i) chances = testing::with_value(chances, t, i, p[i]);
    const DeviceBytes from(chances), out(4 * 5000 * 8);
    const int64_t shape[] = {4, 5000}, strides[] = {40000, 8}, from_strides[] = {item_size(t), 0};
    cuda::random_bernoulli_tensor(shape, {out.get(), DType::kInt64, strides}, {from.get(), t, from_strides}, seeded(4));
    const std::vector<uint8_t> v = out.read();
    for (int i = 0; i < 4; ++i) {
      const int64_t* row = reinterpret_cast<const int64_t*>(v.data()) + i * 5000;
      EXPECT_NEAR(static_cast<double>(std::count(row, row + 5000, 1)) / 5000, p[i],
                  5 * std::sqrt(p[i] * (1 - p[i]) / 5000));
    }
  }
  const float bad[] = {0.5f, 1.5f};
  const DeviceBytes from(8), out(2);
  copy_to_device(from.get(), bad, 8);
  const int64_t n = 2, four = 4, one = 1;
  cuda::random_bernoulli_tensor({&n, 1}, {out.get(), DType::kBool, &one}, {from.get(), DType::kFloat32, &four},
                                seeded());
  EXPECT_THROW(synchronize_stream(), Error);
}

TEST_F(Random, ExponentialCauchyGeometric) {
  for (DType t : kFloats) {
    std::vector<double> v = sampled(t, kMany, seeded(5), [](cpu::Shape s, const cpu::Operand& o, const Generator& g) {
      cuda::random_exponential(s, o, 2, g);
    });
    expect_moments(v, 0.5, 0.25);
    EXPECT_GT(*std::min_element(v.begin(), v.end()), 0);
    v = sampled(t, kMany, seeded(5),
                [](cpu::Shape s, const cpu::Operand& o, const Generator& g) { cuda::random_cauchy(s, o, 1, 2, g); });
    std::nth_element(v.begin(), v.begin() + kMany / 2, v.end());
    EXPECT_NEAR(v[kMany / 2], 1, 0.15);
    std::nth_element(v.begin(), v.begin() + kMany / 4, v.end());
    EXPECT_NEAR(v[kMany / 4], -1, 0.2);
  }
  for (DType t : {DType::kUInt8, DType::kInt32, DType::kInt64, DType::kFloat16, DType::kFloat64}) {
    const std::vector<double> v =
        sampled(t, kMany, seeded(5),
                [](cpu::Shape s, const cpu::Operand& o, const Generator& g) { cuda::random_geometric(s, o, 0.25, g); });
    expect_moments(v, 4, 12);
    EXPECT_EQ(*std::min_element(v.begin(), v.end()), 1);
  }
}

TEST_F(Random, Integers) {
  for (DType t : {DType::kUInt8, DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64, DType::kUInt16,
                  DType::kUInt32, DType::kUInt64, DType::kFloat16, DType::kFloat32, DType::kFloat64}) {
    const cpu::RandomRange range = cpu::random_range(t, 3, 13);
    const std::vector<double> v = sampled(
        t, kMany, seeded(6),
        [&](cpu::Shape s, const cpu::Operand& o, const Generator& g) { cuda::random_integers(s, o, range, g); });
    expect_moments(v, 7.5, 8.25);
    EXPECT_EQ(*std::min_element(v.begin(), v.end()), 3);
    EXPECT_EQ(*std::max_element(v.begin(), v.end()), 12);
  }
  for (const auto& [from, to] :
       {std::pair{int64_t{-5} << 40, int64_t{5} << 40}, {int64_t{-9} << 57, int64_t{9} << 57}}) {
    const cpu::RandomRange range = cpu::random_range(DType::kInt64, from, to);
    const std::vector<double> v = sampled(
        DType::kInt64, kMany, seeded(6),
        [&](cpu::Shape s, const cpu::Operand& o, const Generator& g) { cuda::random_integers(s, o, range, g); });
    const double half = static_cast<double>(to);
    EXPECT_NEAR(mean(v), 0, 0.03 * half);
    EXPECT_NEAR(variance(v), half * half / 3, 0.05 * half * half);
    EXPECT_GE(*std::min_element(v.begin(), v.end()), -half);
    EXPECT_LE(*std::max_element(v.begin(), v.end()), half);
  }
  const cpu::RandomRange all = cpu::random_range(DType::kInt64, INT64_MIN, std::nullopt);
  const std::vector<double> v =
      sampled(DType::kInt64, kMany, seeded(6),
              [&](cpu::Shape s, const cpu::Operand& o, const Generator& g) { cuda::random_integers(s, o, all, g); });
  EXPECT_NEAR(static_cast<double>(std::count_if(v.begin(), v.end(), [](double x) { return x < 0; })) / kMany, 0.5,
              0.02);
}

TEST_F(Random, Full) {
  const std::pair<DType, double> largest[] = {
      {DType::kBool, 1},        {DType::kUInt8, 255},          {DType::kInt8, 127},
      {DType::kInt16, 32767},   {DType::kInt32, 2147483647.0}, {DType::kInt64, 0x1p63},
      {DType::kFloat16, 2048},  {DType::kBFloat16, 256},       {DType::kFloat32, 0x1p24},
      {DType::kFloat64, 0x1p53}};
  for (const auto& [t, top] : largest) {
    const std::vector<double> v =
        sampled(t, kMany, seeded(7),
                [](cpu::Shape s, const cpu::Operand& o, const Generator& g) { cuda::random_full(s, o, g); });
    EXPECT_GE(*std::min_element(v.begin(), v.end()), 0);
    EXPECT_LE(*std::max_element(v.begin(), v.end()), top);
    EXPECT_NEAR(mean(v), top / 2, 0.02 * top) << name_of(t);
  }
}

TEST_F(Random, PermutationsOfAllDtypes) {
  for (int64_t n : {0, 1, 2, 100, 5000}) {
    for (DType t : {DType::kInt64, DType::kInt16, DType::kFloat32, DType::kFloat64}) {
      std::vector<double> v = sampled(t, n, seeded(8), [=](cpu::Shape, const cpu::Operand& o, const Generator& g) {
        cuda::random_permutation(n, o, g);
      });
      int64_t descents = 0;
      for (int64_t i = 1; i < n; ++i) descents += v[i - 1] > v[i];
      EXPECT_GE(descents, n >= 100 ? n / 3 : 0);
      std::sort(v.begin(), v.end());
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(v[i], i);
    }
  }
  // Each of the 6 orders of three equally often.
  Generator g = seeded(8);
  std::vector<int> count(27);
  for (int i = 0; i < 600; ++i) {
    const std::vector<double> v =
        sampled(DType::kInt64, 3, g,
                [](cpu::Shape, const cpu::Operand& o, const Generator& gen) { cuda::random_permutation(3, o, gen); });
    ++count[static_cast<size_t>(9 * v[0] + 3 * v[1] + v[2])];
  }
  for (int order : {5, 7, 11, 15, 19, 21}) EXPECT_NEAR(count[order], 100, 45);
  const DeviceBytes out(600);
  const int64_t one = 1;
  EXPECT_THROW(cuda::random_permutation(257, {out.get(), DType::kUInt8, &one}, g), Error);
  EXPECT_THROW(cuda::random_permutation(-1, {out.get(), DType::kUInt8, &one}, g), Error);
}

// Weights (rows x categories) and n_sample numbers of each row.
std::vector<int64_t> chosen(DType t, int64_t rows, const std::vector<double>& weights, int64_t n_sample,
                            bool replacement, const Generator& g) {
  const int64_t categories = static_cast<int64_t>(weights.size()) / rows, size = item_size(t);
  std::vector<uint8_t> bytes(static_cast<size_t>(rows * categories * size));
  visit_dtype(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!is_complex(DTypeOf<T>::value))
      for (size_t i = 0; i < weights.size(); ++i) {
        const T w = static_cast<T>(weights[i]);
        std::memcpy(bytes.data() + i * sizeof(T), &w, sizeof(T));
      }
  });
  const DeviceBytes in(bytes), out(static_cast<size_t>(rows * n_sample * 8));
  const int64_t strides[] = {categories * size, size}, out_strides[] = {8 * n_sample, 8};
  cuda::random_multinomial(rows, categories, {in.get(), t, strides}, n_sample, replacement,
                           {out.get(), DType::kInt64, out_strides}, g);
  const std::vector<uint8_t> r = out.read();
  std::vector<int64_t> v(static_cast<size_t>(rows * n_sample));
  std::memcpy(v.data(), r.data(), r.size());
  return v;
}

TEST_F(Random, MultinomialWithReplacement) {
  for (DType t : kFloats) {
    const std::vector<int64_t> v = chosen(t, 2, {1, 0, 3, 4, 0, 0, 5, 3}, kMany, true, seeded(9));
    const double shares[2][4] = {{0.125, 0, 0.375, 0.5}, {0, 0, 0.625, 0.375}};
    for (int row = 0; row < 2; ++row)
      for (int c = 0; c < 4; ++c)
        EXPECT_NEAR(static_cast<double>(std::count(v.begin() + row * kMany, v.begin() + (row + 1) * kMany, c)) / kMany,
                    shares[row][c], shares[row][c] == 0 ? 0 : 0.02);
  }
  // Several chunks: the chosen numbers are spread as their weights, which grow.
  std::vector<double> weights(20000);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = i % 2 ? static_cast<double>(i) : 0;
  const std::vector<int64_t> v = chosen(DType::kFloat32, 1, weights, kMany, true, seeded(9));
  double sum = 0;
  for (int64_t c : v) {
    ASSERT_TRUE(c >= 0 && c < 20000 && c % 2 == 1);
    sum += static_cast<double>(c);
  }
  EXPECT_NEAR(sum / kMany, 2.0 / 3 * 20000, 200);
}

TEST_F(Random, MultinomialWithoutReplacement) {
  for (DType t : {DType::kFloat16, DType::kFloat32, DType::kFloat64}) {
    Generator g = seeded(10);
    const int64_t rows = 1000;
    std::vector<double> weights;
    for (int64_t r = 0; r < rows; ++r) weights.insert(weights.end(), {1, 0, 3, 4});
    std::vector<int64_t> v = chosen(t, rows, weights, 3, false, g);
    int first[4] = {};
    for (int64_t r = 0; r < rows; ++r) {
      ++first[v[3 * r]];
      std::sort(v.begin() + 3 * r, v.begin() + 3 * r + 3);
      ASSERT_EQ(std::vector<int64_t>(v.begin() + 3 * r, v.begin() + 3 * r + 3), (std::vector<int64_t>{0, 2, 3}));
    }
    EXPECT_NEAR(first[3] / 1000.0, 0.5, 0.07);
    EXPECT_NEAR(first[0] / 1000.0, 0.125, 0.05);
    v = chosen(t, rows, weights, 1, false, g);
    EXPECT_NEAR(static_cast<double>(std::count(v.begin(), v.end(), 2)) / 1000, 0.375, 0.07);
  }
}

TEST_F(Random, MultinomialErrors) {
  Generator g = seeded();
  EXPECT_THROW(chosen(DType::kFloat32, 1, {1, 1}, 3, false, g), Error);
  EXPECT_THROW(chosen(DType::kFloat32, 1, {1, 1}, 0, false, g), Error);
  for (bool replacement : {true, false})
    for (const std::vector<double>& bad : {std::vector<double>{1, -1, 1}, {1, NAN, 1}, {1, INFINITY, 1}, {0, 0, 0}})
      EXPECT_THROW(chosen(DType::kFloat32, 1, bad, 2, replacement, g), Error);
}

// One parameter for all elements.
std::vector<double> counted(DType t, double a, double b, uint64_t seed,
                            const std::function<void(cpu::Shape, const cpu::Operand&, const cpu::Operand&,
                                                     const cpu::Operand&, const Generator&)>& sampler) {
  const std::vector<uint8_t> one(static_cast<size_t>(item_size(t)));
  const DeviceBytes pa(testing::with_value(one, t, 0, a)), pb(testing::with_value(one, t, 0, b));
  const int64_t zero = 0;
  return sampled(t, kMany, seeded(seed), [&](cpu::Shape s, const cpu::Operand& o, const Generator& g) {
    sampler(s, o, {pa.get(), t, &zero}, {pb.get(), t, &zero}, g);
  });
}
std::vector<double> poisson(DType t, double rate) {
  return counted(t, rate, 0, 11,
                 [](cpu::Shape s, const cpu::Operand& o, const cpu::Operand& a, const cpu::Operand&,
                    const Generator& g) { cuda::random_poisson(s, o, a, g); });
}
std::vector<double> gamma(DType t, double alpha) {
  return counted(t, alpha, 0, 12,
                 [](cpu::Shape s, const cpu::Operand& o, const cpu::Operand& a, const cpu::Operand&,
                    const Generator& g) { cuda::random_gamma(s, o, a, g); });
}
std::vector<double> binomial(DType t, double count, double p) {
  return counted(t, count, p, 13,
                 [](cpu::Shape s, const cpu::Operand& o, const cpu::Operand& a, const cpu::Operand& b,
                    const Generator& g) { cuda::random_binomial(s, o, a, b, g); });
}

TEST_F(Random, CountsHaveTheirMoments) {
  for (DType t : {DType::kFloat32, DType::kFloat64}) {
    for (double rate : {0.5, 3.5, 10.0, 200.0}) {
      expect_moments(poisson(t, rate), rate, rate);
      expect_moments(gamma(t, rate), rate, rate);
    }
    for (double p : {0.02, 0.4, 0.9}) expect_moments(binomial(t, 50, p), 50 * p, 50 * p * (1 - p));
  }
  expect_moments(poisson(DType::kFloat16, 30), 30, 30);
}

TEST_F(Random, OddParametersEnd) {
  for (DType t : {DType::kFloat32, DType::kFloat64}) {
    EXPECT_EQ(poisson(t, 0)[5], 0);
    EXPECT_THROW(poisson(t, -1), Error);
    EXPECT_THROW(poisson(t, NAN), Error);
    EXPECT_TRUE(std::isinf(poisson(t, INFINITY)[0]));
    EXPECT_GT(gamma(t, 0)[0], 0);
    EXPECT_TRUE(std::isinf(gamma(t, INFINITY)[0]));
    EXPECT_EQ(binomial(t, 10, 0)[3], 0);
    EXPECT_EQ(binomial(t, 10, 1)[3], 10);
    EXPECT_EQ(binomial(t, -3, 0.5)[3], 0);
    EXPECT_TRUE(std::isnan(binomial(t, 10, NAN)[3]));
  }
}

TEST_F(Random, OnlyGeneratorsOfItsKind) {
  EXPECT_THROW(sampled(DType::kFloat32, 3, make_cpu_generator(), uniform(0, 1)), Error);
}

}  // namespace
}  // namespace tessera::cuda
