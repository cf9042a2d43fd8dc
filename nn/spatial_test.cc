// Convolution, pooling, normalisation, padding: first and second derivatives against differences of values, memory
// formats, running statistics, errors.
#include <cmath>
#include <functional>
#include <vector>

#include "autograd/autograd.h"
#include "gtest/gtest.h"
#include "nn/nn_ops.h"
#include "tensor/ops/api.h"

namespace tessera {
namespace {

using Tensors = std::vector<Tensor>;
using Function = std::function<Tensor(const Tensors&)>;

// Numbers without pattern or ties, of either sign.
Tensor numbers(IntVector sizes, double phase) {
  Tensor t = empty_kernel(sizes, DType::kFloat64);
  for (int64_t i = 0; i < t.numel(); ++i)
    t.data<double>()[i] =
        1.5 * std::sin(2.3 * static_cast<double>(i) + phase) + 0.3 * std::cos(0.7 * static_cast<double>(i * i) + phase);
  return t;
}

// sum(f(x) * weights): one number that depends on every result.
Tensor weighted(const Tensor& y, double phase) { return sum(y * numbers(to_vector(y.sizes()), phase)); }

Tensors leaves(const Tensors& x) {
  Tensors r;
  for (const Tensor& t : x) r.push_back(t.clone().requires_grad_());
  return r;
}

// grad(value(x)) against central differences, for every element of every input.
void expect_gradient(const std::function<Tensor(const Tensors&)>& value, const Tensors& x, const char* what) {
  const Tensors l = leaves(x);
  const Tensor roots[1] = {value(l)};
  const auto grads = autograd::grad(roots, l, {}, std::nullopt, false, true);
  for (size_t k = 0; k < x.size(); ++k)
    for (int64_t i = 0; i < x[k].numel(); ++i) {
      double at[2];
      for (int s = 0; s < 2; ++s) {
        Tensors moved = leaves(x);
        moved[k] = x[k].clone();
        moved[k].data<double>()[i] += s ? -1e-6 : 1e-6;
        moved[k].requires_grad_();
        at[s] = value(moved).item<double>();
      }
      const double got = grads[k].defined() ? contiguous(grads[k]).data<double>()[i] : 0;
      ASSERT_NEAR(got, (at[0] - at[1]) / 2e-6, 2e-6 * (1 + std::fabs(got)))
          << what << ", input " << k << ", element " << i;
    }
}

void check_derivatives(const Function& f, const Tensors& x) {
  expect_gradient([&](const Tensors& v) { return weighted(f(v), 0.4); }, x, "first derivative");
  expect_gradient(
      [&](const Tensors& v) {
        const Tensor roots[1] = {weighted(f(v), 0.4)};
        Tensor total = sum(v[0]) * 0.0;  // gradients of linear functions depend on nothing
        double phase = 1;
        for (const Tensor& g : autograd::grad(roots, v, {}, std::nullopt, true, true))
          if (g.defined()) total = total + weighted(g, phase++);
        return total;
      },
      x, "second derivative");
}

TEST(Convolution, Derivatives) {
  check_derivatives(
      [](const Tensors& v) {
        return conv2d(v[0], v[1], v[2], IntVector{2, 1}, IntVector{1, 0}, IntVector{1, 2}, 2);
      },
      {numbers({2, 4, 4, 5}, 0.1), numbers({2, 2, 3, 2}, 0.2), numbers({2}, 0.3)});
  check_derivatives(
      [](const Tensors& v) {
        return conv_transpose1d(v[0], v[1], v[2], IntVector{2}, IntVector{1}, IntVector{1}, 2, IntVector{2});
      },
      {numbers({2, 4, 3}, 0.1), numbers({4, 1, 3}, 0.2), numbers({2}, 0.3)});
}

TEST(Convolution, SameLengthWithAnEvenKernel) {
  check_derivatives(
      [](const Tensors& v) { return conv1d(v[0], v[1], Tensor(), IntVector{1}, "same", IntVector{3}, 1); },
      {numbers({1, 5}, 0.1), numbers({1, 1, 2}, 0.2)});
  EXPECT_EQ(
      conv1d(numbers({3, 7}, 0), numbers({2, 3, 4}, 0), Tensor(), IntVector{1}, "same", IntVector{1}, 1).sizes().back(),
      7);
}

TEST(Convolution, KeepsChannelsLast) {
  const Tensor x = numbers({2, 3, 5, 6}, 0.1), w = numbers({4, 3, 3, 3}, 0.2);
  const Tensor y = conv2d(contiguous(x, MemoryFormat::kChannelsLast), w);
  EXPECT_TRUE(y.is_contiguous(MemoryFormat::kChannelsLast));
  EXPECT_TRUE(equal(contiguous(y), conv2d(x, w)));
}

void expect_error(const std::function<void()>& f, const char* text) {
  try {
    f();
    FAIL() << "no error: " << text;
  } catch (const Error& e) { EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what(); }
}

TEST(Convolution, Errors) {
  const Tensor x = numbers({1, 4, 5, 5}, 0);
  expect_error(
      [&] {
        conv2d(x, numbers({2, 3, 3, 3}, 0));
      },
      "Given groups=1, weight of size [2, 3, 3, 3], expected input[1, 4, 5, 5] to have 3 channels, but got 4 channels "
      "instead");
  expect_error([&] { conv2d(x, numbers({2, 4, 7, 3}, 0)); }, "Kernel size can't be greater than actual input size");
  expect_error(
      [&] {
        conv2d(numbers({5, 5}, 0), numbers({2, 4, 3, 3}, 0));
      },
      "Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: [5, 5]");
  expect_error(
      [&] {
        conv2d(x, numbers({2, 4, 3, 3}, 0), Tensor(), IntVector{2, 2}, "same", IntVector{1, 1}, 1);
      },
      "not supported for strided");
}

TEST(Pooling, Derivatives) {
  const Tensors x = {numbers({2, 2, 5, 4}, 0.1)};
  check_derivatives(
      [](const Tensors& v) {
        return max_pool2d(v[0], IntVector{3, 2}, IntVector{2, 1}, IntVector{1, 0}, IntVector{1, 2}, true);
      },
      x);
  check_derivatives(
      [](const Tensors& v) {
        return avg_pool2d(v[0], IntVector{3}, IntVector{2}, IntVector{1}, true, false, std::nullopt);
      },
      x);
  check_derivatives([](const Tensors& v) { return adaptive_avg_pool2d(v[0], IntVector{2, 3}); }, x);
  check_derivatives([](const Tensors& v) { return std::get<0>(adaptive_max_pool2d(v[0], IntVector{2, 3})); }, x);
  check_derivatives([](const Tensors& v) { return max_pool1d(v[0], IntVector{2}); }, {numbers({3, 5}, 0.1)});
}

TEST(Pooling, Errors) {
  expect_error(
      [] {
        max_pool2d(numbers({1, 1, 4, 4}, 0), IntVector{2}, {}, IntVector{2});
      },
      "pad should be at most half of effective kernel size");
  expect_error([] { max_pool2d(numbers({1, 1, 1, 1}, 0), IntVector{2}); }, "Output size is too small");
}

TEST(Normalisation, Derivatives) {
  const Tensors x = {numbers({3, 2, 3}, 0.1), numbers({2}, 0.2), numbers({2}, 0.3)};
  const Tensor mean = numbers({2}, 0.5), var = numbers({2}, 0.6) * numbers({2}, 0.6) + 0.5;
  check_derivatives(
      [](const Tensors& v) { return batch_norm(v[0], v[1], v[2], Tensor(), Tensor(), true, 0.1, 1e-5, false); }, x);
  check_derivatives([&](const Tensors& v) { return batch_norm(v[0], v[1], v[2], mean, var, false, 0.1, 1e-5, false); },
                    x);
  check_derivatives([](const Tensors& v) { return group_norm(v[0], 2, v[1], v[2]); },
                    {numbers({2, 4, 3}, 0.1), numbers({4}, 0.2), numbers({4}, 0.3)});
  check_derivatives(
      [](const Tensors& v) {
        return layer_norm(v[0], IntVector{2, 3}, v[1], v[2]);
      },
      {numbers({3, 2, 3}, 0.1), numbers({2, 3}, 0.2), numbers({2, 3}, 0.3)});
  check_derivatives([](const Tensors& v) { return rms_norm(v[0], IntVector{3}, v[1]); },
                    {numbers({2, 3}, 0.1), numbers({3}, 0.2)});
}

TEST(Normalisation, RunningStatistics) {
  const Tensor x = numbers({4, 2, 3}, 0.1), mean = zeros({2}, DType::kFloat64), var = ones({2}, DType::kFloat64);
  const uint32_t before = mean.version();
  Tensor input = x.clone().requires_grad_();
  const Tensor y = batch_norm(input, Tensor(), Tensor(), mean, var, true, 0.25, 1e-5, false);
  EXPECT_GT(mean.version(), before);
  for (int64_t c = 0; c < 2; ++c) {
    const Tensor channel = contiguous(select(x, 1, c));
    EXPECT_NEAR(mean.data<double>()[c], 0.25 * tessera::mean(channel).item<double>(), 1e-12);
    EXPECT_NEAR(var.data<double>()[c], 0.75 + 0.25 * tessera::var(channel).item<double>(), 1e-12);
  }
  sum(y).backward();  // what was updated is not needed for it
  EXPECT_TRUE(input.grad().defined());
}

TEST(Normalisation, ChannelsLastIsTheSame) {
  const Tensor x = numbers({2, 3, 4, 5}, 0.1), w = numbers({3}, 0.2);
  const Tensor y =
      batch_norm(contiguous(x, MemoryFormat::kChannelsLast), w, Tensor(), Tensor(), Tensor(), true, 0.1, 1e-5, false);
  EXPECT_TRUE(y.is_contiguous(MemoryFormat::kChannelsLast));
  EXPECT_TRUE(allclose(y, batch_norm(x, w, Tensor(), Tensor(), Tensor(), true, 0.1, 1e-5, false), 1e-12, 1e-12));
}

TEST(Padding, Derivatives) {
  const Tensors x = {numbers({1, 2, 4, 5}, 0.1)};
  const IntVector amounts = {2, 1, -1, 3};
  for (const char* mode : {"constant", "reflect", "replicate", "circular"})
    check_derivatives([&](const Tensors& v) { return pad(v[0], amounts, mode, std::nullopt); }, x);
  expect_error(
      [] {
        reflection_pad1d(numbers({1, 3}, 0), IntVector{3, 0});
      },
      "Padding size should be less than the corresponding input dimension");
}

TEST(Rearranging, RoundTrips) {
  const Tensor x = numbers({2, 8, 3, 4}, 0.1);
  EXPECT_TRUE(equal(pixel_unshuffle(pixel_shuffle(x, 2), 2), x));
  EXPECT_TRUE(equal(channel_shuffle(channel_shuffle(x, 2), 4), x));
  check_derivatives(
      [](const Tensors& v) {
        return im2col(v[0], IntVector{2, 3}, IntVector{1, 1}, IntVector{0, 1}, IntVector{1, 2});
      },
      {numbers({1, 2, 3, 4}, 0.1)});
}

}  // namespace
}  // namespace tessera
