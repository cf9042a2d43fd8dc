// Order statistics, quantiles, covariance, histograms, distances.
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tensor/ops/tests/testing.h"

namespace tessera {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Statistics, OrderStatistics) {
  const Tensor m = of<int32_t>({5, 1, 4, 2, 9, 9}, {2, 3});
  const auto [second, at] = kthvalue(m, 2, 1);
  expect<int32_t>(second, {4, 9});
  EXPECT_EQ(elements<int64_t>(at)[0], 2);
  expect<int32_t>(std::get<0>(kthvalue(transpose(m, 0, 1), 1, 0, true)), {1, 2}, {1, 2});
  expect<int32_t>(median(of<int32_t>({7, 1, 5, 3})), {3}, {});  // the lower one of two
  expect<int32_t>(std::get<0>(median(m, 0)), {2, 1, 4});
  expect<double>(median(of<double>({1, kNan, 2})), {kNan}, {});
  expect<double>(nanmedian(of<double>({1, kNan, 2, 3})), {2}, {});
  expect<double>(median(zeros({0}, DType::kFloat64)), {kNan}, {});
  const auto [most, where] = mode(of<int32_t>({3, 1, 3, 1, 2}));
  expect<int32_t>(most, {1}, {});  // the smallest of the most frequent
  expect<int32_t>(select(of<int32_t>({3, 1, 3, 1, 2}), 0, where.item<int64_t>()), {1}, {});
  expect_error<Error>([&] { kthvalue(m, 4, 1); }, "kthvalue(): selected number k out of range for dimension 1");
  expect_error<IndexError>(
      [] {
        median(zeros({2, 0}), 1);
      },
      "median(): Expected reduction dim 1 to have non-zero size.");
}

TEST(Statistics, Quantiles) {
  const Tensor x = of<double>({4, 1, 3, 2});
  expect<double>(quantile(x, 0.5), {2.5}, {});
  expect<double>(quantile(x, of<double>({0, 0.25, 1})), {1, 1.75, 4});
  expect<double>(quantile(x, 0.4, std::nullopt, false, "lower"), {2}, {});
  expect<double>(quantile(x, 0.4, std::nullopt, false, "higher"), {3}, {});
  expect<double>(quantile(x, 0.4, std::nullopt, false, "midpoint"), {2.5}, {});
  expect<double>(quantile(x, 0.4, std::nullopt, false, "nearest"), {2}, {});  // place 1.2
  const Tensor m = of<double>({1, 2, 3, 6}, {2, 2});
  expect<double>(quantile(m, of<double>({0, 1}), 1), {1, 3, 2, 6}, {2, 2});
  expect<double>(quantile(m, 0.5, 0, true), {2, 4}, {1, 2});
  expect<double>(quantile(of<double>({1, kNan}), 0.5), {kNan}, {});
  expect<double>(nanquantile(of<double>({1, kNan, 3}), 0.5), {2}, {});
  expect_error<Error>([&] { quantile(x, 1.5); }, "quantile() q must be in the range [0, 1] but got 1.5");
  expect_error<Error>([&] { quantile(of<int32_t>({1}), of<int32_t>({1})); },
                      "quantile() input tensor must be either float or double dtype");
  expect_error<Error>([&] { quantile(x, of<float>({0.5f})); },
                      "quantile() q tensor must be same dtype as the input tensor");
  expect_error<Error>([&] { quantile(zeros({0}), 0.5); }, "quantile() input tensor must be non-empty");
  expect_error<Error>(
      [&] { quantile(x, 0.5, std::nullopt, false, "cubic"); },
      "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but got cubic");
}

TEST(Statistics, Means) {
  const Tensor m = of<float>({1, NAN, 3, 5}, {2, 2});
  expect<float>(nanmean(m), {3}, {});
  expect<float>(nanmean(m, IntVector{0}), {2, 5});
  expect<float>(nanmean(of<float>({NAN})), {NAN}, {});
  expect_error<Error>([] { nanmean(of<int32_t>({1})); },
                      "nanmean(): expected input to have floating point or complex dtype but got Int");
}

TEST(Statistics, Covariance) {
  const Tensor x = of<double>({0, 1, 2, 2, 1, 0}, {2, 3});
  expect<double>(cov(x), {1, -1, -1, 1}, {2, 2}, 1e-15);
  expect<double>(cov(x, 0), {2.0 / 3, -2.0 / 3, -2.0 / 3, 2.0 / 3}, {2, 2}, 1e-15);
  expect<double>(cov(select(x, 0, 0)), {1}, {}, 1e-15);
  expect<double>(cov(of<double>({1, 3}), 1, of<int64_t>({1, 3})), {1}, {}, 1e-15);  // 1, 3, 3, 3
  expect<double>(corrcoef(x), {1, -1, -1, 1}, {2, 2}, 1e-15);
  expect_error<Error>([] { cov(zeros({1, 2, 3})); }, "cov(): expected input to have two or fewer dimensions");
  expect_error<Error>(
      [&] {
        cov(x, 1, of<double>({1, 1, 1}));
      },
      "cov(): expected fweights to have integral dtype but got fweights with Double dtype");
  expect_error<Error>([&] { cov(x, 1, of<int64_t>({1, -1, 1})); }, "cov(): fweights cannot be negative");
}

TEST(Statistics, Histograms) {
  const Tensor x = of<float>({0, 1, 1, 2, 5, -1});
  expect<float>(histc(x, 2, 0, 2), {1, 3});  // the last bin has its end, what lies outside is left out
  expect<float>(histc(x, 3), {2, 3, 1});     // over the data's own range: -1, 1, 3, 5
  expect<float>(histc(zeros({0}), 2), {0, 0});
  const std::array<double, 2> range = {0, 2};
  const auto [counts, edges] = histogram(x, 2, range);
  expect<float>(counts, {1, 3});
  expect<float>(edges, {0, 1, 2});
  const auto [weighted, same] = histogram(of<float>({0.5f, 3}), of<float>({0, 1, 4}), of<float>({2, 5}));
  expect<float>(weighted, {2, 5});
  expect<float>(same, {0, 1, 4});
  expect<float>(std::get<0>(histogram(of<float>({0.5f, 3}), of<float>({0, 1, 3}), Tensor(), true)), {0.5f, 0.25f});
  expect_error<Error>([&] { histc(x, 0); }, "torch.histc(): bins must be > 0, but got 0");
  expect_error<Error>([&] { histc(x, 2, 3, 1); }, "torch.histc(): max must be larger than min");
  expect_error<Error>(
      [&] {
        histogram(x, of<float>({1, 0}));
      },
      "torch.histogram(): bins tensor must be sorted in ascending order");
  expect_error<Error>([] { histc(of<int32_t>({1})); }, "\"histogram_cpu\" not implemented for 'Int'");
}

TEST(Statistics, DistancesAndRenorm) {
  expect<double>(dist(of<double>({1, 2}), of<double>({4, 6})), {5}, {});
  expect<double>(dist(of<double>({1, 2}, {2, 1}), of<double>({0, 1}), 1), {4}, {});  // |1| + |0| + |2| + |1|
  const Tensor rows = of<double>({3, 4, 0.3, 0.4}, {2, 2});
  expect<double>(renorm(rows, 2, 0, 1), {0.6, 0.8, 0.3, 0.4}, {2, 2}, 1e-6);  // only rows that are too long
  renorm_(rows, 1, 0, 0.5);
  EXPECT_NEAR(sum(rows).item<double>(), 1, 1e-6);
  expect_error<Error>([&] { renorm(zeros({2}), 2, 0, 1); },
                      "renorm: input needs at least 2 dimensions, got 1 dimensions");
  expect_error<Error>([&] { renorm(rows, 2, 0, -1); }, "renorm: expected maxnorm to be >= 0 but got -1");
}

TEST(Statistics, Out) {
  const Tensor x = of<double>({4, 1, 3}), out = zeros({2}, DType::kFloat64);
  Warnings warnings;
  quantile_out(out, x, 0.5);
  expect<double>(out, {3}, {});
  EXPECT_TRUE(warnings.has(kResized));
  const Tensor values = zeros({0}, DType::kFloat64), places = zeros({0}, DType::kInt64);
  kthvalue_out(values, places, reshape(x, {1, 3}), 1);
  expect<double>(values, {1});
  expect<int64_t>(places, {1});
  expect_error<Error>([&] { kthvalue_out(values, zeros({0}), x, 1); }, "dtype");
}

TEST(Statistics, Meta) {
  const auto [values, places] = kthvalue(meta({2, 5}, DType::kInt16), 2, 1, true);
  EXPECT_EQ(shape(values), (IntVector{2, 1}));
  EXPECT_EQ(values.dtype(), DType::kInt16);
  EXPECT_EQ(places.dtype(), DType::kInt64);
  EXPECT_TRUE(places.is_meta());
  EXPECT_EQ(shape(histc(meta({7}), 4)), (IntVector{4}));
}

TEST(Statistics, SameBits) {
  const Tensor line = rough({200000}), rows = rough({40, 3000});
  expect_same_bits([&] { return cov(rows); });
  expect_same_bits([&] { return histc(line, 50); });
  expect_same_bits([&] { return quantile(rows, 0.3, 1); });
  expect_same_bits([&] { return dist(line, mul(line, 0.5), 3); });
}

}  // namespace
}  // namespace tessera
