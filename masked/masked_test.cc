// Values and gradients under a mask beside the same of a filled copy, in every form that the reduction engine has.
#include "masked/masked.h"

#include <cmath>

#include "autograd/autograd.h"
#include "gtest/gtest.h"
#include "tensor/ops/api.h"

namespace tessera {
namespace {

struct Case {
  IntVector shape, dims;
  bool transposed, broadcast;
};
const Case kCases[] = {
    {{7, 5}, {1}, false, false},        {{7, 5}, {0}, false, false},   {{300, 9}, {0, 1}, true, false},
    {{3, 9000}, {1}, false, false},     {{3, 9000}, {1}, false, true}, {{5000, 40}, {0}, false, true},
    {{2, 3, 700}, {0, 2}, true, false}, {{150000}, {0}, false, false},
};

// Numbers between -1 and 1 in no order.
Tensor spread(IntVector sizes, double step) {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  return reshape(sin(arange(Scalar(n), DType::kFloat64) * step), sizes);
}
struct Made {
  Tensor x, mask;
};
Made made(const Case& c, DType t) {
  Tensor x = to(3 * spread(c.shape, 12.9898), t);
  IntVector sizes = c.shape;
  if (c.broadcast) sizes[0] = 1;
  Tensor mask = gt(spread(sizes, 78.233), Scalar(-0.2));
  if (c.transposed) x = transpose(contiguous(transpose(x, 0, -1)), 0, -1);
  return {x, mask};
}
double apart(const Tensor& a, const Tensor& b) {
  const Tensor x = to(a, DType::kFloat64), y = to(b, DType::kFloat64);
  const Tensor same = logical_or(eq(x, y), logical_and(isnan(x), isnan(y)));
  return max(where(same, 0 * eq(x, y), abs(x - y) / (abs(x) + 1))).item<double>();
}

TEST(Masked, ReductionsAreThoseOfAFilledCopy) {
  for (const Case& c : kCases) {
    for (DType t : {DType::kFloat32, DType::kFloat64, DType::kInt16}) {
      const auto [x, mask] = made(c, t);
      const Tensor each = expand(mask, c.shape), zero = where(each, x, Scalar(0));
      const Scalar least = t == DType::kInt16 ? Scalar(-32768) : Scalar(-INFINITY),
                   most = t == DType::kInt16 ? Scalar(32767) : Scalar(INFINITY);
      EXPECT_LT(apart(_masked_sum(x, mask, c.dims), sum(zero, c.dims)), 1e-4);
      EXPECT_EQ(apart(_masked_reduce(x, mask, "amax", c.dims, true), amax(where(each, x, least), c.dims, true)), 0);
      EXPECT_EQ(apart(_masked_reduce(x, mask, "amin", c.dims), amin(where(each, x, most), c.dims)), 0);
      if (t == DType::kInt16) continue;
      const Tensor n = sum(each, c.dims, true);
      EXPECT_LT(apart(_masked_sum(x, mask, c.dims, true, true), sum(zero, c.dims, true) / n), 1e-5);
      const Tensor centred = where(each, x - _masked_sum(x, mask, c.dims, true, true), Scalar(0));
      EXPECT_LT(apart(_masked_reduce(x, mask, "var", c.dims, true, 1),
                      sum(square(centred), c.dims, true) / clamp_min(n - 1, Scalar(0))),
                1e-5);
      EXPECT_LT(apart(_masked_reduce(x, mask, "norm", c.dims, false, 3), linalg_vector_norm(zero, Scalar(3), c.dims)),
                1e-5);
      EXPECT_LT(
          apart(_masked_reduce(x, mask, "logsumexp", c.dims), logsumexp(where(each, x, Scalar(-INFINITY)), c.dims)),
          1e-5);
    }
  }
}

TEST(Masked, SoftmaxIsThatOfACopyWithInfinities) {
  for (const Case& c : kCases) {
    const auto [x, mask] = made(c, DType::kFloat32);
    for (int64_t dim : c.dims) {
      const Tensor filled = where(mask, x, Scalar(-INFINITY));
      EXPECT_LT(apart(_softmax_under(x, mask, dim), softmax(filled, dim)), 1e-6);
      EXPECT_LT(apart(exp(_softmax_under(x, mask, dim, true)), softmax(filled, dim)), 1e-5);
    }
  }
}

TEST(Masked, GradientsDoNotReachWhatDoesNotCount) {
  const auto [x, mask] = made(Case{{6, 8}, {1}, false, false}, DType::kFloat64);
  const Tensor w = spread({6}, 7.7);
  x.requires_grad_();
  sum(_masked_reduce(x, mask, "var", IntVector{1}, false, 1) * w + _masked_sum(x, mask, IntVector{1}, false, true))
      .backward();
  EXPECT_EQ(max(abs(where(mask, zeros({}, DType::kFloat64), x.grad()))).item<double>(), 0);
  EXPECT_GT(max(abs(x.grad())).item<double>(), 0);
}

TEST(Masked, NothingThatCounts) {
  const Tensor x = ones(IntVector{2, 3}), none = zeros(IntVector{2, 3}, DType::kBool);
  EXPECT_EQ(_masked_sum(x, none, IntVector{1})[0].item<float>(), 0);
  EXPECT_TRUE(std::isnan(_masked_sum(x, none, IntVector{1}, false, true)[0].item<float>()));
  EXPECT_TRUE(std::isnan(_masked_reduce(x, none, "var", IntVector{1}, false, 1)[1].item<float>()));
  EXPECT_EQ(_masked_reduce(x, none, "amax", IntVector{1})[0].item<float>(), -INFINITY);
  EXPECT_TRUE(std::isnan(_softmax_under(x, none, 1)[0][0].item<float>()));
}

TEST(Masked, WrongArgumentsAreRefused) {
  const Tensor x = ones(IntVector{2, 3});
  EXPECT_THROW(_masked_sum(x, x, IntVector{1}), TypeError);
  EXPECT_THROW(_masked_reduce(x, gt(x, Scalar(0)), "median", IntVector{1}), Error);
  EXPECT_THROW(_masked_reduce(x, gt(x, Scalar(0)), "amax", IntVector{2}), IndexError);
}

}  // namespace
}  // namespace tessera
