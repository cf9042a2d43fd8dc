#include "tensor/cpu/random/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "tensor/core/error.h"
#include "tensor/core/parallel.h"

namespace tessera::cpu {
namespace {

constexpr int64_t kMany = 20000;

template <class T>
struct Contiguous {
  explicit Contiguous(int64_t n) : values(n), shape(n), stride(sizeof(T)) {}
  Operand operand() { return {values.data(), DTypeOf<T>::value, &stride}; }
  Shape dims() const { return {&shape, 1}; }
  std::vector<T> values;
  int64_t shape, stride;
};

Generator seeded(uint64_t seed = 0) { return make_cpu_generator(seed); }
uint32_t next(const Generator& g) { return cpu_generator_or_default(g).random(); }

double mean(const std::vector<double>& v) { return std::accumulate(v.begin(), v.end(), 0.0) / v.size(); }
double variance(const std::vector<double>& v) {
  const double m = mean(v);
  double s = 0;
  for (double x : v) s += (x - m) * (x - m);
  return s / v.size();
}
// The mean of n draws lies within 5 standard errors; the seed is fixed, so this is no gamble.
void expect_moments(const std::vector<double>& v, double m, double var) {
  EXPECT_NEAR(mean(v), m, 5 * std::sqrt(var / v.size()));
  EXPECT_NEAR(variance(v), var, 0.1 * var);
}

// From the words of seed 0: 2357136044, 2546248239, 3071714933 ...
TEST(UniformTest, ComesFromTheLowBits) {
  Contiguous<float> f(3);
  random_uniform(f.dims(), f.operand(), 0, 1, seeded());
  EXPECT_EQ(f.values[0], (2357136044u & 0xffffffu) * 0x1p-24f);
  EXPECT_EQ(f.values[1], (2546248239u & 0xffffffu) * 0x1p-24f);
  EXPECT_EQ(f.values[2], (3071714933u & 0xffffffu) * 0x1p-24f);
  Contiguous<double> d(1);
  random_uniform(d.dims(), d.operand(), 0, 1, seeded());
  const uint64_t word = uint64_t{2357136044u} << 32 | 2546248239u;
  EXPECT_EQ(d.values[0], (word & ((1ull << 53) - 1)) * 0x1p-53);
  Contiguous<BFloat16> b(2);
  random_uniform(b.dims(), b.operand(), 0, 1, seeded());
  EXPECT_EQ(float(b.values[0]), (2357136044u & 255) / 256.0f);
  Contiguous<Half> h(1);
  random_uniform(h.dims(), h.operand(), 0, 1, seeded());
  EXPECT_EQ(float(h.values[0]), (2357136044u & 2047) / 2048.0f);
}

TEST(UniformTest, RangeAndErrors) {
  Contiguous<double> d(kMany);
  random_uniform(d.dims(), d.operand(), -2, 5, seeded(1));
  for (double x : d.values) ASSERT_TRUE(x >= -2 && x < 5);
  expect_moments(d.values, 1.5, 49.0 / 12);
  Contiguous<float> f(2);
  Generator g = seeded(1);
  EXPECT_THROW(random_uniform(f.dims(), f.operand(), 2, 1, g), Error);
  EXPECT_THROW(random_uniform(f.dims(), f.operand(), 0, INFINITY, g), Error);
  EXPECT_THROW(random_uniform(f.dims(), f.operand(), NAN, 1, g), Error);
  EXPECT_THROW(random_uniform(f.dims(), f.operand(), -3e38, 3e38, g), Error);
  Contiguous<int64_t> i(2);
  EXPECT_THROW(random_uniform(i.dims(), i.operand(), 0, 1, g), NotImplementedError);
  EXPECT_EQ(next(g), next(seeded(1)));  // a refused call draws nothing
}

TEST(UniformTest, MemoryOrder) {
  // A transposed matrix gets its numbers in the order of its addresses, a sliced one in row-major order of what it
  // shows.
  Contiguous<float> plain(12), other(12);
  random_uniform(plain.dims(), plain.operand(), 0, 1, seeded(3));
  const int64_t shape[] = {3, 4}, transposed[] = {4, 12};
  random_uniform(shape, {other.values.data(), DType::kFloat32, transposed}, 0, 1, seeded(3));
  EXPECT_EQ(plain.values, other.values);
  std::vector<float> wide(24, -1.0f);
  const int64_t sliced[] = {32, 8};
  random_uniform(shape, {wide.data(), DType::kFloat32, sliced}, 0, 1, seeded(3));
  for (int i = 0; i < 12; ++i) EXPECT_EQ(wide[2 * i], plain.values[i]);
  for (int i = 0; i < 12; ++i) EXPECT_EQ(wide[2 * i + 1], -1.0f);
  // Negative strides and size-0, size-1, rank-0 shapes.
  float last[3] = {};
  const int64_t three = 3, back = -4;
  random_uniform({&three, 1}, {last + 2, DType::kFloat32, &back}, 0, 1, seeded(3));
  EXPECT_EQ(last[2], plain.values[0]);
  EXPECT_EQ(last[0], plain.values[2]);
  const int64_t empty[] = {4, 0, 2}, any[] = {8, 8, 4};
  Generator g = seeded(3);
  random_uniform(empty, {nullptr, DType::kFloat32, any}, 0, 1, g);
  random_uniform({}, {last, DType::kFloat32, nullptr}, 0, 1, g);
  EXPECT_EQ(last[0], plain.values[0]);
}

double uniform_double(CpuGeneratorImpl& g) { return (g.random64() & ((1ull << 53) - 1)) * 0x1p-53; }

TEST(NormalTest, SmallSizesUseTheWaitingNumber) {
  Generator g = seeded(5);
  Contiguous<double> one(1), two(1);
  random_normal(one.dims(), one.operand(), 1, 2, g);
  random_normal(two.dims(), two.operand(), 0, 1, g);
  EXPECT_FALSE(cpu_generator_or_default(g).next_double_normal);
  Generator again = seeded(5);
  CpuGeneratorImpl& r = cpu_generator_or_default(again);
  const double u1 = uniform_double(r), u2 = uniform_double(r);
  const double radius = std::sqrt(-2 * std::log1p(-u2));
  EXPECT_NEAR(one.values[0], 1 + 2 * radius * std::cos(2 * M_PI * u1), 1e-12);
  EXPECT_NEAR(two.values[0], radius * std::sin(2 * M_PI * u1), 1e-12);
  EXPECT_EQ(next(g), next(again));
}

TEST(NormalTest, BlocksOf16AndTheirTail) {
  Contiguous<double> x(21);
  Generator g = seeded(6), h = seeded(6);
  random_normal(x.dims(), x.operand(), 0.5, 3, g);
  CpuGeneratorImpl& r = cpu_generator_or_default(h);
  std::vector<double> u(37);
  for (double& v : u) v = uniform_double(r);
  const auto check = [&](int at, const double* v, int from) {
    for (int j = from; j < 16; ++j) {
      const double radius = std::sqrt(-2 * std::log(1 - v[j % 8])), theta = 2 * M_PI * v[8 + j % 8];
      EXPECT_NEAR(x.values[at + j], 0.5 + 3 * radius * (j < 8 ? std::cos(theta) : std::sin(theta)), 1e-12);
    }
  };
  for (int j = 0; j < 5; ++j)
    EXPECT_NEAR(x.values[j], 0.5 + 3 * std::sqrt(-2 * std::log(1 - u[j])) * std::cos(2 * M_PI * u[8 + j]), 1e-12);
  check(5, u.data() + 21, 0);
  EXPECT_EQ(next(g), next(h));
}

TEST(NormalTest, MomentsForAllDtypesAndThreads) {
  Contiguous<float> f(kMany), again(kMany);
  random_normal(f.dims(), f.operand(), 2, 3, seeded(7));
  expect_moments({f.values.begin(), f.values.end()}, 2, 9);
  const int threads = num_threads();
  set_num_threads(threads == 1 ? 2 : 1);
  random_normal(again.dims(), again.operand(), 2, 3, seeded(7));
  set_num_threads(threads);
  EXPECT_EQ(f.values, again.values);
  Contiguous<double> d(kMany);
  random_normal(d.dims(), d.operand(), -1, 0.5, seeded(7));
  expect_moments(d.values, -1, 0.25);
  Contiguous<Half> h(kMany);
  random_normal(h.dims(), h.operand(), 0, 1, seeded(7));
  expect_moments({h.values.begin(), h.values.end()}, 0, 1);
  Generator g = seeded();
  EXPECT_THROW(random_normal(f.dims(), f.operand(), 0, -1, g), Error);
  EXPECT_THROW(random_normal(f.dims(), f.operand(), 0, NAN, g), Error);
  Contiguous<int32_t> i(3);
  EXPECT_THROW(random_normal(i.dims(), i.operand(), 0, 1, g), NotImplementedError);
}

TEST(BernoulliTest, ScalarAndTensor) {
  Contiguous<uint8_t> b(kMany);
  random_bernoulli(b.dims(), b.operand(), 0.3, seeded(8));
  expect_moments({b.values.begin(), b.values.end()}, 0.3, 0.21);
  // The scalar form compares 53-bit numbers, the tensor form numbers of the precision of p.
  Contiguous<double> u(100);
  random_uniform(u.dims(), u.operand(), 0, 1, seeded(9));
  Contiguous<float> x(100), p(100);
  random_bernoulli(x.dims(), x.operand(), 0.5, seeded(9));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(x.values[i], u.values[i] < 0.5);
  Contiguous<float> v(100);
  random_uniform(v.dims(), v.operand(), 0, 1, seeded(9));
  for (int i = 0; i < 100; ++i) p.values[i] = i / 100.0f;
  random_bernoulli_tensor(x.dims(), x.operand(), p.operand(), seeded(9));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(x.values[i], v.values[i] < p.values[i]);
  // One probability for all, through a stride of 0.
  const int64_t zero = 0;
  random_bernoulli_tensor(x.dims(), x.operand(), {&p.values[50], DType::kFloat32, &zero}, seeded(9));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(x.values[i], v.values[i] < 0.5f);
  const std::vector<float> before = x.values;
  p.values[99] = 1.5f;
  EXPECT_THROW(random_bernoulli_tensor(x.dims(), x.operand(), p.operand(), seeded()), Error);
  EXPECT_EQ(x.values, before);
  EXPECT_THROW(random_bernoulli(x.dims(), x.operand(), NAN, seeded()), Error);
}

TEST(ContinuousTest, Moments) {
  Contiguous<double> x(kMany);
  random_exponential(x.dims(), x.operand(), 2, seeded(10));
  expect_moments(x.values, 0.5, 0.25);
  random_log_normal(x.dims(), x.operand(), 0, 0.25, seeded(10));
  expect_moments(x.values, std::exp(0.03125), (std::exp(0.0625) - 1) * std::exp(0.0625));
  random_geometric(x.dims(), x.operand(), 0.25, seeded(10));
  expect_moments(x.values, 4, 12);
  random_cauchy(x.dims(), x.operand(), 3, 2, seeded(10));
  std::sort(x.values.begin(), x.values.end());
  EXPECT_NEAR(x.values[kMany / 2], 3, 0.1);
  EXPECT_NEAR(x.values[3 * kMany / 4] - x.values[kMany / 4], 4, 0.2);
  EXPECT_THROW(random_exponential(x.dims(), x.operand(), 0, seeded()), Error);
  EXPECT_THROW(random_geometric(x.dims(), x.operand(), 1, seeded()), Error);
  EXPECT_THROW(random_cauchy(x.dims(), x.operand(), 0, 0, seeded()), Error);
  EXPECT_THROW(random_log_normal(x.dims(), x.operand(), 0, 0, seeded()), Error);
}

TEST(IntegerTest, RemaindersOf32And64Bits) {
  Contiguous<int64_t> x(4);
  random_integers(x.dims(), x.operand(), random_range(DType::kInt64, -5, 95), seeded());
  EXPECT_EQ(x.values[0], int64_t{2357136044u % 100} - 5);
  const uint64_t word = uint64_t{2357136044u} << 32 | 2546248239u;
  random_integers(x.dims(), x.operand(), random_range(DType::kInt64, 0, int64_t{1} << 40), seeded());
  EXPECT_EQ(x.values[0], static_cast<int64_t>(word % (1ull << 40)));
  random_integers(x.dims(), x.operand(), random_range(DType::kInt64, 0, 1 << 28), seeded());
  EXPECT_EQ(x.values[0], static_cast<int64_t>(word % (1u << 28)));
  random_integers(x.dims(), x.operand(), random_range(DType::kInt64, INT64_MIN, std::nullopt), seeded());
  EXPECT_EQ(x.values[0], static_cast<int64_t>(word));
  random_full(x.dims(), x.operand(), seeded());
  EXPECT_EQ(x.values[0], static_cast<int64_t>(word & INT64_MAX));
  Contiguous<uint8_t> b(1);
  random_full(b.dims(), b.operand(), seeded());
  EXPECT_EQ(b.values[0], 2357136044u % 256);
  Contiguous<float> f(1);
  random_full(f.dims(), f.operand(), seeded());
  EXPECT_EQ(f.values[0], 2357136044u % ((1u << 24) + 1));
}

TEST(IntegerTest, Bounds) {
  EXPECT_THROW(random_range(DType::kInt64, 5, 5), Error);
  EXPECT_THROW(random_range(DType::kUInt8, 0, 257), Error);
  EXPECT_THROW(random_range(DType::kUInt8, -1, 3), Error);
  EXPECT_THROW(random_range(DType::kBool, 0, 3), Error);
  EXPECT_THROW(random_range(DType::kFloat16, 0, 1 << 20), Error);
  EXPECT_THROW(random_range(DType::kComplex64, 0, 3), Error);
  EXPECT_THROW(random_range(DType::kInt32, INT64_MIN, std::nullopt), Error);
  EXPECT_EQ(random_range(DType::kUInt8, 0, 256).size, 256u);
  EXPECT_EQ(random_range(DType::kUInt8, 3, std::nullopt).size, 253u);
  EXPECT_EQ(random_range(DType::kInt64, INT64_MIN, INT64_MAX).size, UINT64_MAX);
  EXPECT_TRUE(random_range(DType::kFloat32, 0, 1 << 24).warning.empty());
  EXPECT_FALSE(random_range(DType::kFloat32, 0, 1 << 25).warning.empty());
  for (int64_t from : {INT64_MIN, INT64_MIN + 1, int64_t{0}, INT64_MAX - 1}) {
    for (DType t : {DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
      try {
        random_range(t, from, INT64_MAX);
      } catch (const Error&) {}
    }
  }
}

TEST(PermutationTest, AllDtypes) {
  Contiguous<int64_t> x(10);
  random_permutation(10, x.operand(), seeded());
  std::vector<int64_t> expected(10);
  std::iota(expected.begin(), expected.end(), 0);
  Generator g = seeded();
  for (int i = 0; i < 9; ++i) std::swap(expected[i], expected[i + next(g) % (10 - i)]);
  EXPECT_EQ(x.values, expected);
  std::vector<float> wide(20, -1);
  const int64_t stride = 8;
  random_permutation(10, {wide.data(), DType::kFloat32, &stride}, seeded());
  for (int i = 0; i < 10; ++i) EXPECT_EQ(wide[2 * i], expected[i]);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(wide[2 * i + 1], -1);
  random_permutation(0, x.operand(), g);
  EXPECT_THROW(random_permutation(-1, x.operand(), g), Error);
  Contiguous<uint8_t> b(1);
  EXPECT_THROW(random_permutation(257, b.operand(), g), Error);
}

// Lengths around those of vectors and of the generator's blocks.
constexpr int64_t kLengths[] = {1, 2, 7, 8, 15, 16, 17, 31, 623, 624, 625, 1300};

TEST(VectorsTest, SameAsOneByOne) {
  for (const int64_t n : kLengths) {
    Contiguous<int64_t> x(n), order(n);
    for (const int64_t size :
         {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{1000}, int64_t{65537}, (int64_t{1} << 28) - 1}) {
      random_integers(x.dims(), x.operand(), random_range(DType::kInt64, -5, size - 5), seeded(n));
      Generator g = seeded(n);
      for (const int64_t v : x.values) ASSERT_EQ(v, static_cast<int64_t>(next(g) % size) - 5) << n << ' ' << size;
    }
    Contiguous<int32_t> full(n);
    random_full(full.dims(), full.operand(), seeded(n));
    Generator g = seeded(n);
    for (const int32_t v : full.values) ASSERT_EQ(v, static_cast<int32_t>(next(g) % 0x80000000u));
    std::vector<int64_t> expected(n);
    std::iota(expected.begin(), expected.end(), 0);
    g = seeded(n);
    for (int64_t i = 0; i + 1 < n; ++i) std::swap(expected[i], expected[i + next(g) % (n - i)]);
    random_permutation(n, order.operand(), seeded(n));
    ASSERT_EQ(order.values, expected);
  }
}

TEST(VectorsTest, ProbabilitiesAndTransforms) {
  for (const int64_t n : kLengths) {
    Contiguous<float> x(n), p(n);
    Contiguous<double> wide(n);
    for (int64_t i = 0; i < n; ++i) p.values[i] = static_cast<float>(i) / n;
    random_bernoulli_tensor(x.dims(), x.operand(), p.operand(), seeded(n));
    Generator g = seeded(n);
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(x.values[i], (next(g) & 0xffffff) * 0x1p-24f < p.values[i] ? 1.0f : 0.0f);
    for (const double q : {0.0, 1e-300, 0.3, 1 - 0x1p-53, 1.0}) {
      random_bernoulli(x.dims(), x.operand(), q, seeded(n));
      g = seeded(n);
      for (const float v : x.values) ASSERT_EQ(v, uniform_double(cpu_generator_or_default(g)) < q ? 1.0f : 0.0f);
    }
    random_exponential(x.dims(), x.operand(), 2, seeded(n));
    random_exponential(wide.dims(), wide.operand(), 2, seeded(n));
    g = seeded(n);
    for (int64_t i = 0; i < n; ++i) {
      const double e = -0.5 * std::log1p(-uniform_double(cpu_generator_or_default(g)));
      ASSERT_NEAR(wide.values[i], e, 1e-15 * e);
      ASSERT_NEAR(x.values[i], e, 1e-7 * e);
    }
    random_cauchy(x.dims(), x.operand(), 0, 1, seeded(n));
    random_cauchy(wide.dims(), wide.operand(), 0, 1, seeded(n));
    g = seeded(n);
    for (int64_t i = 0; i < n; ++i) {
      const double t = std::tan(M_PI * (uniform_double(cpu_generator_or_default(g)) - 0.5));
      ASSERT_NEAR(wide.values[i], t, 1e-15 * std::abs(t));
      ASSERT_NEAR(x.values[i], t, 1e-7 * std::abs(t));
    }
    for (const float bad : {-1e-30f, 1.0000001f, NAN, INFINITY}) {
      p.values[n - 1] = bad;
      EXPECT_THROW(random_bernoulli_tensor(x.dims(), x.operand(), p.operand(), seeded(n)), Error) << n << ' ' << bad;
      wide.values.assign(n, 0.5);
      wide.values[n - 1] = bad;
      EXPECT_THROW(random_bernoulli_tensor(x.dims(), x.operand(), wide.operand(), seeded(n)), Error) << n << ' ' << bad;
    }
  }
}

TEST(MultinomialTest, FrequenciesAndErrors) {
  const float w[] = {1, 0, 3, 4};
  const int64_t ws[] = {0, 4}, os[] = {8 * kMany, 8};
  std::vector<int64_t> out(2 * kMany);
  const Operand weights{const_cast<float*>(w), DType::kFloat32, ws};
  const Operand result{out.data(), DType::kInt64, os};
  random_multinomial(2, 4, weights, kMany, true, result, seeded(11));
  for (int64_t c = 0; c < 4; ++c) {
    const double p = w[c] / 8;
    EXPECT_NEAR(std::count(out.begin(), out.end(), c) / (2.0 * kMany), p, 5 * std::sqrt(p * (1 - p) / (2 * kMany)));
  }
  const int64_t os3[] = {24, 8};
  int first[4] = {};
  Generator g = seeded(12);
  for (int i = 0; i < 4000; ++i) {
    random_multinomial(1, 4, weights, 3, false, {out.data(), DType::kInt64, os3}, g);
    ++first[out[0]];
    std::sort(out.begin(), out.begin() + 3);
    ASSERT_EQ((std::vector<int64_t>(out.begin(), out.begin() + 3)), (std::vector<int64_t>{0, 2, 3}));
  }
  EXPECT_NEAR(first[3] / 4000.0, 0.5, 0.04);
  EXPECT_NEAR(first[0] / 4000.0, 0.125, 0.03);
  const float bad[] = {0, 0, -1, 1};
  EXPECT_THROW(random_multinomial(1, 2, {const_cast<float*>(bad), DType::kFloat32, ws}, 1, true, result, g), Error);
  EXPECT_THROW(random_multinomial(1, 4, {const_cast<float*>(bad), DType::kFloat32, ws}, 1, true, result, g), Error);
  EXPECT_THROW(random_multinomial(1, 4, weights, 5, false, result, g), Error);
  EXPECT_THROW(random_multinomial(1, 4, weights, 0, false, result, g), Error);
  EXPECT_THROW(random_multinomial(1, 0, weights, 1, true, result, g), Error);
}

TEST(CountingTest, Moments) {
  Contiguous<double> x(kMany), a(kMany), b(kMany);
  for (double rate : {0.5, 3.5, 10.0, 200.0}) {
    std::fill(a.values.begin(), a.values.end(), rate);
    random_poisson(x.dims(), x.operand(), a.operand(), seeded(13));
    expect_moments(x.values, rate, rate);
    random_gamma(x.dims(), x.operand(), a.operand(), seeded(13));
    expect_moments(x.values, rate, rate);
  }
  for (double p : {0.02, 0.4, 0.9}) {
    std::fill(a.values.begin(), a.values.end(), 50);
    std::fill(b.values.begin(), b.values.end(), p);
    random_binomial(x.dims(), x.operand(), a.operand(), b.operand(), seeded(13));
    expect_moments(x.values, 50 * p, 50 * p * (1 - p));
  }
}

TEST(CountingTest, OddArgumentsEnd) {
  Contiguous<double> x(1), a(1), b(1);
  const double odd[] = {0, -1, 1e300, INFINITY, -INFINITY, NAN};
  for (double v : odd) {
    a.values[0] = v;
    try {
      random_poisson(x.dims(), x.operand(), a.operand(), seeded());
    } catch (const Error&) {}
    random_gamma(x.dims(), x.operand(), a.operand(), seeded());
    for (double p : {0.5, 1e-300, 0.0, 1.0, 2.0, -1.0, double(NAN)}) {
      b.values[0] = p;
      random_binomial(x.dims(), x.operand(), a.operand(), b.operand(), seeded());
    }
  }
  a.values[0] = -1;
  EXPECT_THROW(random_poisson(x.dims(), x.operand(), a.operand(), seeded()), Error);
}

}  // namespace
}  // namespace tessera::cpu
