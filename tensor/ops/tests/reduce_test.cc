// Reductions, running ones, softmax, sorting, search: dtypes, dimensions, empty inputs, nan, the same bits for any
// number of threads.
#include <cmath>
#include <cstdint>
#include <limits>

#include "tensor/ops/tests/testing.h"

namespace tessera {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
const auto matrix = [] { return of<float>({1, 2, 3, 4, 5, 6}, {2, 3}); };

TEST(Reduce, SumsAndTheirDtypes) {
  const Tensor m = matrix();
  expect<float>(sum(m), {21}, {});
  expect<float>(sum(m, IntVector{0}), {5, 7, 9});
  expect<float>(sum(m, IntVector{-1}, true), {6, 15}, {2, 1});
  expect<float>(sum(transpose(m, 0, 1), IntVector{0}), {6, 15});
  expect<int64_t>(sum(of<int8_t>({100, 100})), {200}, {});  // integers and bool in int64
  expect<int64_t>(sum(of<bool>({true, true})), {2}, {});
  expect<int32_t>(sum(of<int8_t>({100, 100}), DType::kInt32), {200}, {});
  expect<double>(sum(of<int64_t>({1, 2}), DType::kFloat64), {3}, {});
  expect<float>(nansum(of<float>({1, kNan, 2})), {3}, {});
  expect<float>(mean(m, IntVector{1}), {2, 5});
  expect<int64_t>(prod(of<int32_t>({2, 3, 7})), {42}, {});
  expect<float>(prod(m, 0), {4, 10, 18});
  expect<float>(sum(number<float>(3), IntVector{0}), {3}, {});
  EXPECT_EQ(sum(to(m, DType::kFloat16)).dtype(), DType::kFloat16);
}

TEST(Reduce, Empty) {
  const Tensor none = zeros({0, 2});
  expect<float>(sum(none, IntVector{0}), {0, 0});
  expect<float>(prod(none), {1}, {});
  expect<float>(mean(none), {kNan}, {});
  expect<bool>(all(none), {true}, {});
  expect<bool>(any(none), {false}, {});
  expect<float>(amax(none, IntVector{1}), {}, {0});
  expect_error<IndexError>([&] { amax(none, IntVector{0}); },
                           "amax(): Expected reduction dim 0 to have non-zero size.");
  expect_error<Error>([&] { max(none); }, "Expected reduction dim to be specified for input.numel() == 0");
  expect_error<IndexError>([&] { argmax(none); }, "argmax(): Expected reduction dim to be specified");
}

TEST(Reduce, Extremes) {
  const Tensor m = of<int32_t>({3, 1, 3, -2, 5, 5}, {2, 3});
  const auto [values, indices] = max(m, 1);
  expect<int32_t>(values, {3, 5});
  expect<int64_t>(indices, {0, 1});  // the first of equals
  expect<int64_t>(argmin(m), {3}, {});
  expect<int64_t>(argmax(m, 0, true), {0, 1, 1}, {1, 3});
  expect<int32_t>(amin(m, IntVector{0, 1}), {-2}, {});
  const auto [low, high] = aminmax(m);
  expect<int32_t>(low, {-2}, {});
  expect<int32_t>(high, {5}, {});
  expect<float>(max(of<float>({1, kNan, 3})), {kNan}, {});  // nan is the largest and the smallest
  expect<int64_t>(argmax(of<float>({1, kNan, 3})), {1}, {});
  expect<float>(min(of<float>({1, kNan, 3})), {kNan}, {});
}

TEST(Reduce, Truth) {
  const Tensor m = of<int32_t>({0, 1, 2, 0, 0, 3}, {2, 3});
  expect<bool>(any(m, 0), {false, true, true});
  expect<bool>(all(m, 0), {false, false, true});
  expect<bool>(all(m, IntVector{0, 1}, true), {false}, {1, 1});
  expect<uint8_t>(any(of<uint8_t>({0, 4})), {1}, {});  // bytes stay bytes
  expect<int64_t>(count_nonzero(m), {3}, {});
  expect<int64_t>(count_nonzero(m, 1), {2, 1});
}

TEST(Reduce, Spread) {
  const Tensor m = of<double>({1, 2, 3, 4, 2, 2, 4, 8}, {2, 4});
  expect<double>(var(m, IntVector{1}), {5.0 / 3, 8}, {2}, 1e-15);
  expect<double>(var(m, IntVector{1}, Scalar(0)), {1.25, 6}, {2}, 1e-15);
  expect<double>(tessera::std(select(m, 0, 1)), {std::sqrt(8.0)}, {}, 1e-15);
  const auto [v, mean] = var_mean(m, IntVector{1}, Scalar(0), true);
  expect<double>(v, {1.25, 6}, {2, 1}, 1e-15);
  expect<double>(mean, {2.5, 4}, {2, 1});
  expect<double>(var(of<double>({1})), {std::nan("")}, {});
  // No cancellation: the numbers lie far from 0.
  expect<double>(var(add(m, 1e9), IntVector{1}), {5.0 / 3, 8}, {2}, 1e-6);
  expect_error<Error>([] { var(of<int32_t>({1, 2})); }, "std and var only support floating point and complex dtypes");
}

TEST(Reduce, Norms) {
  const Tensor v = of<double>({3, -4, 0});
  expect<double>(linalg_vector_norm(v), {5}, {});
  expect<double>(linalg_vector_norm(v, 1), {7}, {});
  expect<double>(linalg_vector_norm(v, 0), {2}, {});
  expect<double>(linalg_vector_norm(v, INFINITY), {4}, {});
  expect<double>(linalg_vector_norm(v, -INFINITY), {0}, {});
  expect<double>(norm(v, 3), {std::cbrt(91.0)}, {}, 1e-14);
  expect<double>(logsumexp(of<double>({0, 0, -INFINITY}), IntVector{0}), {std::log(2.0)}, {}, 1e-15);
  expect<double>(logsumexp(of<double>({1000, 1000}), IntVector{0}), {1000 + std::log(2.0)}, {}, 1e-15);
  expect_error<Error>([] { linalg_vector_norm(of<int32_t>({1})); },
                      "linalg.vector_norm: Expected a floating point or complex tensor as input. Got Int");
}

TEST(Reduce, Running) {
  const Tensor m = of<int32_t>({1, 2, 3, 4, 5, 6}, {2, 3});
  expect<int64_t>(cumsum(m, 1), {1, 3, 6, 4, 9, 15}, {2, 3});
  expect<int64_t>(cumprod(transpose(m, 0, 1), 1), {1, 4, 2, 10, 3, 18}, {3, 2});
  const auto [values, indices] = cummax(of<float>({1, 3, 2, 3, kNan, 5}), 0);
  expect<float>(values, {1, 3, 3, 3, kNan, kNan});
  expect<int64_t>(indices, {0, 1, 1, 3, 4, 4});  // the last of equals
  expect<double>(logcumsumexp(of<double>({0, 0}), 0), {0, std::log(2.0)}, {2}, 1e-15);
  const Tensor f = of<float>({1, 2, 3});
  EXPECT_TRUE(cumsum_(f, 0).is_same(f));
  expect<float>(f, {1, 3, 6});
}

TEST(Reduce, Softmax) {
  const Tensor x = of<double>({0, std::log(3.0), 1000, 1000}, {2, 2});
  expect<double>(softmax(x, 1), {0.25, 0.75, 0.5, 0.5}, {2, 2}, 1e-15);
  expect<double>(log_softmax(x, 1), {-std::log(4.0), std::log(0.75), -std::log(2.0), -std::log(2.0)}, {2, 2}, 1e-14);
  expect<double>(softmax(of<int64_t>({5, 5}), 0, DType::kFloat64), {0.5, 0.5});
  expect<float>(softmax(of<float>({-kInf, 0}), 0), {0, 1});
  expect_error<NotImplementedError>(
      [] {
        softmax(of<int64_t>({5, 5}), 0);
      },
      "\"softmax_lastdim_kernel_impl\" not implemented for 'Long'");
}

TEST(Reduce, Sorting) {
  const Tensor x = of<float>({2, kNan, 1, 2, -kInf});
  const auto [values, indices] = sort(x, std::optional<bool>(true));
  expect<float>(values, {-kInf, 1, 2, 2, kNan});  // nan comes last
  expect<int64_t>(indices, {4, 2, 0, 3, 1});
  expect<float>(std::get<0>(sort(x, 0, true)), {kNan, 2, 2, 1, -kInf});
  expect<int64_t>(argsort(of<int32_t>({3, 1, 2})), {1, 2, 0});
  expect<int32_t>(msort(of<int32_t>({3, 1, 2, 5}, {2, 2})), {2, 1, 3, 5}, {2, 2});
  const auto [top, places] = topk(of<int32_t>({3, 9, 1, 7}), 2);
  expect<int32_t>(top, {9, 7});
  expect<int64_t>(places, {1, 3});
  expect<int32_t>(std::get<0>(topk(of<int32_t>({3, 9, 1, 7}), 2, 0, false)), {1, 3});
  expect_error<Error>([&] { topk(x, 6); }, "selected index k out of range");
  expect_error<IndexError>([&] { sort(x, 1); },
                           "Dimension out of range (expected to be in range of [-1, 0], but got 1)");
}

TEST(Reduce, Search) {
  const Tensor edges = of<int32_t>({1, 3, 3, 5}), x = of<int32_t>({0, 3, 6});
  expect<int64_t>(searchsorted(edges, x), {0, 1, 4});
  expect<int32_t>(searchsorted(edges, x, true, true), {0, 3, 4});
  expect<int64_t>(bucketize(x, edges, false, true), {0, 3, 4});
  expect<int64_t>(bucketize(Scalar(4), edges), {3}, {});
  expect_error<Error>([&] { searchsorted(edges, x, false, false, "middle"); },
                      "torch.searchsorted(): side can only be 'left' or 'right' but got middle");
  expect_error<Error>(
      [&] {
        bucketize(x, zeros({2, 2}, DType::kInt32));
      },
      "boundaries tensor must be 1 dimension, but got dim(2)");
}

TEST(Reduce, Unique) {
  const auto [values, inverse, counts] = _unique2(of<int32_t>({3, 1, 3, 2}), true, true, true);
  expect<int32_t>(values, {1, 2, 3});
  expect<int64_t>(inverse, {2, 0, 2, 1});
  expect<int64_t>(counts, {1, 1, 2});
  expect<int32_t>(std::get<0>(unique_consecutive(of<int32_t>({1, 1, 2, 1}))), {1, 2, 1});
  expect<int32_t>(std::get<0>(unique_dim(of<int32_t>({3, 4, 1, 2, 3, 4}, {3, 2}), 0)), {1, 2, 3, 4}, {2, 2});
}

TEST(Reduce, Out) {
  const Tensor m = matrix(), out = zeros({1});
  Warnings warnings;
  sum_out(out, m, IntVector{0});
  expect<float>(out, {5, 7, 9});
  EXPECT_TRUE(warnings.has(kResized));
  sum_out(select(m, 0, 0), m, IntVector{0});  // part of what is read
  expect<float>(m, {5, 7, 9, 4, 5, 6}, {2, 3});
  const Tensor values = zeros({0}), indices = zeros({0}, DType::kInt64);
  max_out(values, indices, m, 1);
  expect<float>(values, {9, 6});
  expect<int64_t>(indices, {2, 2});
  expect_error<Error>([&] { max_out(values, zeros({2}, DType::kInt32), m, 1); }, "Expected out tensor to have dtype");
  expect_error<Error>([&] { sum_out(zeros({3}, DType::kInt64), m, IntVector{0}); },
                      "can't be cast to the desired output type");
}

TEST(Reduce, ErrorsAndMeta) {
  const Tensor m = matrix();
  expect_error<Error>([&] { sum(m, IntVector{0, -2}); }, "dim 0 appears multiple times in the list of dims");
  expect_error<IndexError>([&] { sum(m, IntVector{2}); },
                           "Dimension out of range (expected to be in range of [-2, 1], but got 2)");
  expect_error<Error>([] { mean(of<int64_t>({1})); },
                      "mean(): could not infer output dtype. Input dtype must be either "
                      "a floating point or complex dtype. Got: Long");
  const Tensor r = sum(meta({2, 3}, DType::kInt8), IntVector{0});
  EXPECT_TRUE(r.is_meta());
  EXPECT_EQ(r.dtype(), DType::kInt64);
  EXPECT_EQ(shape(r), (IntVector{3}));
  EXPECT_EQ(shape(std::get<1>(topk(meta({2, 9}), 4))), (IntVector{2, 4}));
}

TEST(Reduce, SameBits) {
  const Tensor line = rough({1000003}), rows = rough({700, 900});
  expect_same_bits([&] { return sum(line); });
  expect_same_bits([&] { return sum(rows, IntVector{0}); });
  expect_same_bits([&] { return sum(rows, IntVector{1}); });
  expect_same_bits([&] { return var(line); });
  expect_same_bits([&] { return logsumexp(rows, IntVector{0}); });
  expect_same_bits([&] { return cumsum(line, 0); });
  expect_same_bits([&] { return softmax(rows, 0); });
  expect_same_bits([&] { return std::get<1>(sort(line)); });
}

}  // namespace
}  // namespace tessera
