// What is made of other operators: membership, scatters that reduce, copies with a part replaced, products of vectors,
// integrals, windows.
#include <cmath>
#include <cstdint>

#include "tensor/ops/tests/testing.h"

namespace tessera {
namespace {

TEST(Composed, Membership) {
  const Tensor m = of<int64_t>({1, 2, 3, 4}, {2, 2});
  expect<bool>(isin(m, of<int64_t>({2, 4, 9})), {false, true, false, true}, {2, 2});
  expect<bool>(isin(transpose(m, 0, 1), of<int64_t>({2}), false, true), {true, true, false, true}, {2, 2});
  expect<bool>(isin(m, 3), {false, false, true, false}, {2, 2});
  expect<bool>(isin(Scalar(3), m), {true}, {});
  expect<bool>(isin(m, zeros({0}, DType::kInt64)), {false, false, false, false}, {2, 2});
  expect_error<Error>([&] { isin(make_complex(of<float>({1}), of<float>({0})), of<float>({1})); },
                      "Unsupported input type encountered for isin(): ComplexFloat");
}

TEST(Composed, ScatterReduce) {
  const Tensor self = of<float>({1, 2, 3}), index = of<int64_t>({0, 0, 2, 2}), src = of<float>({4, 6, 5, 1});
  expect<float>(scatter_reduce(self, 0, index, src, "sum"), {11, 2, 9});
  expect<float>(scatter_reduce(self, 0, index, src, "prod"), {24, 2, 15});
  expect<float>(scatter_reduce(self, 0, index, src, "amax"), {6, 2, 5});
  expect<float>(scatter_reduce(self, 0, index, src, "amin", false), {4, 2, 1});
  expect<float>(scatter_reduce(self, 0, index, src, "mean", false), {5, 2, 3});
  expect<int64_t>(scatter_reduce(of<int64_t>({1, 1}), 0, of<int64_t>({0, 0}), of<int64_t>({-3, -3}), "mean"), {-2, 1});
  expect_error<Error>([&] { scatter_reduce(self, 0, index, src, "sort"); },
                      "reduce argument must be either sum, prod, mean, amax or amin, got sort.");
  expect_error<Error>([&] { scatter_reduce(self, 0, index, to(src, DType::kFloat64), "sum"); },
                      "scatter(): Expected self.dtype to be equal to src.dtype");
}

TEST(Composed, IndexReduce) {
  const Tensor self = of<int32_t>({1, 2, 3, 4}, {2, 2}), source = of<int32_t>({5, 6, 7, 8}, {2, 2});
  const Tensor index = of<int64_t>({1, 1});
  expect<int32_t>(index_reduce(self, 0, index, source, "prod"), {1, 2, 105, 192}, {2, 2});
  expect<int32_t>(index_reduce(self, 1, index, source, "amax", false), {1, 6, 3, 8}, {2, 2});
  expect_error<Error>([&] { index_reduce(self, 0, index, source, "sum"); },
                      "reduce argument must be either prod, mean, amax or amin, got sum.");
}

TEST(Composed, CopiesWithAPart) {
  const Tensor m = of<float>({1, 2, 3, 4}, {2, 2});
  expect<float>(select_scatter(m, of<float>({8, 9}), 1, 0), {8, 2, 9, 4}, {2, 2});
  expect<float>(slice_scatter(m, of<float>({8, 9}, {1, 2}), 0, 1), {1, 2, 8, 9}, {2, 2});
  expect<float>(diagonal_scatter(m, of<float>({8, 9})), {8, 2, 3, 9}, {2, 2});
  expect<float>(as_strided_scatter(m, of<float>({8, 9}), {2}, {2}, 1), {1, 8, 3, 9}, {2, 2});
  expect<float>(m, {1, 2, 3, 4}, {2, 2});  // the input stays
  expect_error<Error>([&] { select_scatter(m, of<float>({8}), 1, 0); },
                      "expected src to have a size equal to the slice of self. src size = [1], slice size = [2]");
}

TEST(Composed, FillDiagonal) {
  const Tensor m = zeros({4, 2}, DType::kInt32), v = transpose(zeros({2, 3}, DType::kInt32), 0, 1);
  EXPECT_TRUE(fill_diagonal_(m, 7).is_same(m));
  expect<int32_t>(m, {7, 0, 0, 7, 0, 0, 0, 0}, {4, 2});
  fill_diagonal_(m, 5, true);  // begins anew below the square and a row
  expect<int32_t>(m, {5, 0, 0, 5, 0, 0, 5, 0}, {4, 2});
  fill_diagonal_(v, 3);
  expect<int32_t>(v, {3, 0, 0, 3, 0, 0}, {3, 2});
  expect_error<Error>([] { fill_diagonal_(zeros({3}), 1); }, "dimensions must larger than 1");
  expect_error<Error>([] { fill_diagonal_(zeros({2, 2, 3}), 1); }, "all dimensions of input must be of equal length");
}

TEST(Composed, Products) {
  expect<int64_t>(kron(of<int64_t>({1, 2}), of<int64_t>({3, 4, 5})), {3, 4, 5, 6, 8, 10});
  expect<float>(kron(of<int64_t>({1, 2}, {1, 2}), of<float>({0.5f, 1}, {2, 1})), {0.5f, 1, 1, 2}, {2, 2});
  const Tensor x = of<float>({1, 0, 0}), y = of<float>({0, 1, 0});
  expect<float>(cross(x, y), {0, 0, 1});
  expect<float>(linalg_cross(y, x), {0, 0, -1});
  expect<float>(linalg_vecdot(of<float>({1, 2, 3, 4}, {2, 2}), of<float>({5, 6})), {17, 39}, {2});
  expect_error<Error>([] { linalg_cross(zeros({2}), zeros({2})); },
                      "linalg.cross: inputs dimension -1 must have length 3. Got 2 and 2");
  expect_error<Error>([] { linalg_vecdot(of<int32_t>({1}), of<int32_t>({1})); },
                      "linalg.vecdot: Expected a floating point or complex tensor as input. Got Int");
}

TEST(Composed, Vander) {
  expect<int64_t>(vander(of<int64_t>({1, 2, 3})), {1, 1, 1, 4, 2, 1, 9, 3, 1}, {3, 3});
  expect<int64_t>(vander(of<int64_t>({2, 3}), 4, true), {1, 2, 4, 8, 1, 3, 9, 27}, {2, 4});
  expect_error<Error>([] { vander(zeros({2, 2})); }, "x must be a one-dimensional tensor.");
}

TEST(Composed, Integrals) {
  const Tensor y = of<double>({1, 5, 10});
  expect<double>(trapezoid(y), {10.5}, {});
  expect<double>(trapezoid(y, Scalar(2)), {21}, {});
  expect<double>(trapezoid(y, of<double>({1, 3, 6})), {28.5}, {});
  expect<double>(cumulative_trapezoid(y), {3, 10.5});
  expect_error<Error>(
      [&] {
        trapezoid(y, of<double>({1, 2}));
      },
      "trapezoid: There must be one `x` value for each sample point. Got 2 values for 3 points");
}

TEST(Composed, MantissaAndExponent) {
  const auto [m, e] = frexp(of<float>({8, -3, 0, 0.25f}));
  expect<float>(m, {0.5f, -0.75f, 0, 0.5f});
  expect<int32_t>(e, {4, 2, 0, -1});
  expect<float>(ldexp(m, e), {8, -3, 0, 0.25f});
  expect<float>(ldexp(of<int32_t>({3}), of<int32_t>({-1})), {1.5f});
  expect_error<Error>([] { frexp(of<int32_t>({1})); }, "torch.frexp() only supports floating-point dtypes");
}

TEST(Composed, Windows) {
  expect<double>(hann_window(4, true, DType::kFloat64), {0, 0.5, 1, 0.5}, {4}, 1e-15);
  expect<double>(hann_window(5, false, DType::kFloat64), {0, 0.5, 1, 0.5, 0}, {5}, 1e-15);
  expect<double>(hamming_window(4, true, 0.54, 0.46, DType::kFloat64), {0.08, 0.54, 1, 0.54}, {4}, 1e-15);
  expect<double>(blackman_window(4, true, DType::kFloat64), {0, 0.34, 1, 0.34}, {4}, 1e-15);
  expect<double>(bartlett_window(5, false, DType::kFloat64), {0, 0.5, 1, 0.5, 0}, {5}, 1e-15);
  // I0(0) / I0(2) at the ends, 1 in the middle.
  const double end = 1 / std::cyl_bessel_i(0, 2.0);
  expect<double>(kaiser_window(3, false, 2.0, DType::kFloat64), {end, 1, end}, {3}, 1e-14);
  expect<float>(hann_window(1), {1});
  expect<float>(hann_window(0), {}, {0});
  expect_error<Error>([] { hann_window(4, true, DType::kInt64); }, "expects floating point dtypes, got: ");
  expect_error<Error>([] { bartlett_window(-1); },
                      "bartlett_window requires non-negative window_length, got window_length=-1");
}

TEST(Composed, OutAndMeta) {
  const Tensor out = zeros({2}), x = of<float>({1, 0, 0}), y = of<float>({0, 1, 0});
  Warnings warnings;
  linalg_cross_out(out, x, y);
  expect<float>(out, {0, 0, 1});
  EXPECT_TRUE(warnings.has(kResized));
  expect_error<Error>([&] { linalg_cross_out(x, x, y); }, kOneMemory);
  expect<float>(x, {1, 0, 0});
  EXPECT_EQ(shape(kron(meta({2, 3}), meta({4}))), (IntVector{2, 12}));
  EXPECT_EQ(kron(meta({2, 3}), meta({4})).dtype(), DType::kFloat32);
  EXPECT_EQ(isin(meta({2, 3}), meta({4})).dtype(), DType::kBool);
}

}  // namespace
}  // namespace tessera
