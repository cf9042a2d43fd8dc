// The examples of the headers (and so of the pages that tools/cpp_reference.py writes), each with what it takes for
// granted before it and what it promises after it.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <filesystem>

#include "tessera/autograd.h"
#include "tessera/data.h"
#include "tessera/distributions.h"
#include "tessera/fft.h"
#include "tessera/func.h"
#include "tessera/linalg.h"
#include "tessera/nn.h"
#include "tessera/optim.h"
#include "tessera/serialization.h"
#include "tessera/signal.h"
#include "tessera/special.h"
#include "tessera/tensor.h"

namespace {

using namespace tessera;
using autograd::AutogradContext, autograd::Function, autograd::variable_list;

Tensor numbers(std::initializer_list<float> values) {
  const Tensor t = empty(IntVector{static_cast<int64_t>(values.size())}, DType::kFloat32);
  std::copy(values.begin(), values.end(), t.data<float>());
  return t;
}

namespace function_h {
const Tensor x = numbers({0.5f, -1.0f});
#include "tests/reference/examples/function.h.inc"
}  // namespace function_h

TEST(Examples, FunctionsOfOnesOwn) {
  using function_h::Swish, function_h::y;
  EXPECT_NEAR(y.select(0, 0).item<float>(), 0.5 / (1 + std::exp(-0.75)), 1e-6);
  const Tensor x = numbers({0.5f}).requires_grad_();
  const auto at = [](const Tensor& v) { return Swish::apply(v, 1.5); };
  at(x).sum().backward();
  const double slope = (at(numbers({0.501f})).item<float>() - at(numbers({0.499f})).item<float>()) / 0.002;
  EXPECT_NEAR(x.grad().item<float>(), slope, 1e-3);
}

TEST(Examples, Batches) {
  const Tensor images = zeros(IntVector{70, 3}), labels = arange(70, DType::kInt64);
  int64_t seen = 0;
  const auto step = [&](const Tensor& x, const Tensor& y) { seen += x.size(1) * y.sum().item<int64_t>(); };
#include "tests/reference/examples/loader.h.inc"
  EXPECT_EQ(seen, 3 * 69 * 70 / 2);
}

TEST(Examples, Transforms) {
  const Tensor x = numbers({0.5f, -1.0f}), xs = ones(IntVector{4, 2}), ys = ones(IntVector{4, 2});
#include "tests/reference/examples/transforms.h.inc"
  EXPECT_NEAR(g.select(0, 1).item<float>(), std::cos(-1.0), 1e-6);
  EXPECT_EQ(d.size(0), 4);
  EXPECT_EQ(d.sum().item<float>(), 8);
}

namespace module_h {
#include "tests/reference/examples/module.h.inc"
}

TEST(Examples, Modules) {
  module_h::Net net;
  EXPECT_EQ(net(zeros(IntVector{5, 64})).size(1), 10);
  EXPECT_EQ(net.state_dict()[0].first, "hidden.weight");
}

TEST(Examples, Optimizers) {
  nn::Linear model(2, 1);
  const Tensor before = model.weight.clone(), loss = model(ones(IntVector{1, 2})).pow(2).sum();
#include "tests/reference/examples/optimizer.h.inc"
  EXPECT_NEAR(before.sub(model.weight).abs().max().item<float>(), 1e-3, 1e-5);
}

TEST(Examples, Checkpoints) {
  const auto folder = std::filesystem::temp_directory_path() / ("examples_test" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  std::filesystem::current_path(folder);
  nn::Linear model(2, 1);
  const Tensor before = model.weight.clone();
#include "tests/reference/examples/checkpoint.h.inc"
  EXPECT_TRUE(equal(before, model.weight));
  std::filesystem::remove_all(folder);
}

TEST(Examples, LinearAlgebra) {
  const Tensor a = eye(3, DType::kFloat64).add(ones(IntVector{3, 3}, DType::kFloat64));
  const Tensor b = arange(3, DType::kFloat64);
#include "tests/reference/examples/tessera/linalg.h.inc"
  EXPECT_TRUE(allclose(a.matmul(x), b));
  EXPECT_TRUE(allclose(again, a));
}

TEST(Examples, Spectra) {
  const Tensor wave = arange(9, DType::kFloat64).mul(0.5).cos();
#include "tests/reference/examples/tessera/fft.h.inc"
  EXPECT_EQ(power.size(0), 5);
  EXPECT_TRUE(allclose(again, wave));
}

TEST(Examples, Windows) {
  const Tensor wave = ones(IntVector{8});
#include "tests/reference/examples/tessera/signal.h.inc"
  EXPECT_NEAR(smooth.sum().item<float>(), 4, 1e-6);
}

TEST(Examples, SpecialFunctions) {
  const Tensor x = numbers({2, 30});
#include "tests/reference/examples/tessera/special.h.inc"
  EXPECT_NEAR(y.select(0, 1).item<float>(), 0.018796, 1e-6);  // 1 / (30 sqrt(pi)) (1 - 1 / 1800)
  EXPECT_NEAR(z.select(0, 0).item<float>(), 1.644934, 1e-6);  // pi^2 / 6
}

TEST(Examples, Distributions) {
#include "tests/reference/examples/tessera/distributions.h.inc"
  EXPECT_EQ(drawn.size(0), 1000);
  EXPECT_LT(density.max().item<float>(), 0.39895);
}

}  // namespace
