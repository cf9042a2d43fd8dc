#include <cmath>
#include <random>
#include <tuple>
#include <vector>

#include "tensor/core/error.h"
#include "nn/cuda/loss_engines.h"
#include "tensor/cuda/support/testing.h"

namespace tessera::cuda {
namespace {

using cpu::LossReduction;
using testing::Mirror;
using testing::random_elements;
using Loss = testing::DeviceTest;

constexpr DType kFloats[] = {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};

Mirror random_targets(int64_t n, int64_t classes) {
  std::vector<int64_t> target(static_cast<size_t>(n));
  std::mt19937 rng(4);
  for (auto& t : target) t = rng() % 5 == 0 ? -100 : static_cast<int64_t>(rng() % static_cast<uint64_t>(classes));
  return Mirror::of(target);
}

void check_nll(DType t, int64_t batch, int64_t classes, int64_t inner, bool weighted, LossReduction reduction) {
  const int64_t n = batch * inner, results = reduction == LossReduction::kNone ? n : 1;
  Mirror x(random_elements(t, n * classes, 1, -3, 0)), weight(random_elements(t, classes, 2, 0.1, 1)),
      dy(random_elements(t, results, 3)), target = random_targets(n, classes);
  Mirror out(random_elements(t, results, 5)), total(random_elements(t, 1, 6)), dx(random_elements(t, n * classes, 7));
  cpu::nll_loss_forward(t, batch, classes, inner, x.host(), target.host_as<int64_t>(),
                        weighted ? weight.host() : nullptr, reduction, -100, out.host(), total.host());
  cuda::nll_loss_forward(t, batch, classes, inner, x.device(), target.device_as<int64_t>(),
                         weighted ? weight.device() : nullptr, reduction, -100, out.device(), total.device());
  cpu::nll_loss_backward(t, batch, classes, inner, dy.host(), target.host_as<int64_t>(),
                         weighted ? weight.host() : nullptr, reduction, -100, total.host(), dx.host());
  cuda::nll_loss_backward(t, batch, classes, inner, dy.device(), target.device_as<int64_t>(),
                          weighted ? weight.device() : nullptr, reduction, -100, total.device(), dx.device());
  // Sums of thousands of numbers, in another order.
  const double rtol = t == DType::kFloat64 ? 1e-12 : -1;
  testing::expect_close(t, out.host_bytes(), out.device_bytes(), rtol, -1, "loss");
  testing::expect_close(t, total.host_bytes(), total.device_bytes(), rtol, -1, "total weight");
  testing::expect_close(t, dx.host_bytes(), dx.device_bytes(), rtol, -1, "gradient");
}

TEST_F(Loss, LikeTheCpu) {
  for (DType t : kFloats) {
    for (LossReduction reduction : {LossReduction::kNone, LossReduction::kMean, LossReduction::kSum}) {
      for (bool weighted : {false, true}) {
        check_nll(t, 0, 4, 1, weighted, reduction);
        check_nll(t, 1, 1, 1, weighted, reduction);
        check_nll(t, 37, 11, 1, weighted, reduction);
        check_nll(t, 3, 5, 70, weighted, reduction);
      }
      check_nll(t, 5000, 3, 1, true, reduction);
    }
  }
}

// Of smoothed targets: the likelihood of the target and a part of all classes', each by the CPU's engine.
TEST_F(Loss, SmoothedTargets) {
  constexpr double kSmoothing = 0.3;
  for (DType t : {DType::kFloat32, DType::kFloat64})
    for (LossReduction reduction : {LossReduction::kNone, LossReduction::kMean, LossReduction::kSum})
      for (bool weighted : {false, true})
        for (const auto& [batch, classes, inner] :
             {std::tuple<int64_t, int64_t, int64_t>{1, 1, 1}, {37, 11, 1}, {3, 5, 70}, {700, 40, 1}}) {
          const int64_t n = batch * inner, results = reduction == LossReduction::kNone ? n : 1;
          Mirror x(random_elements(t, n * classes, 1, -3, 0)), weight(random_elements(t, classes, 2, 0.1, 1)),
              dy(random_elements(t, results, 3)), target = random_targets(n, classes), total(random_elements(t, 1, 6)),
                                                  out(random_elements(t, results, 5)),
                                                  dx(random_elements(t, n * classes, 7));
          const void *const host_weight = weighted ? weight.host() : nullptr, *const device_weight =
                                                                                  weighted ? weight.device() : nullptr;
          cuda::smoothed_loss_forward(t, batch, classes, inner, x.device(), target.device_as<int64_t>(), device_weight,
                                      reduction, -100, kSmoothing, out.device(), total.device());
          cuda::smoothed_loss_backward(t, batch, classes, inner, dy.device(), target.device_as<int64_t>(),
                                       device_weight, reduction, -100, kSmoothing, total.device(), dx.device());
          std::vector<double> losses(static_cast<size_t>(n)), shares(static_cast<size_t>(n * classes));
          const auto number = [&](const void* p, int64_t i) { return testing::element(t, p, i).real(); };
          double weights = 0, sum = 0;
          for (int64_t i = 0; i < n; ++i) {
            const int64_t own = target.host_as<int64_t>()[i];
            if (own < 0) continue;
            weights += host_weight ? number(host_weight, own) : 1;
            for (int64_t c = 0; c < classes; ++c) {
              const int64_t at = (i / inner * classes + c) * inner + i % inner;
              const double w = host_weight ? number(host_weight, c) : 1;
              shares[at] = w * (kSmoothing / static_cast<double>(classes) + (c == own ? 1 - kSmoothing : 0));
              losses[i] -= shares[at] * number(x.host(), at);
            }
            sum += losses[i];
          }
          const bool mean = reduction == LossReduction::kMean, each = reduction == LossReduction::kNone;
          std::vector<uint8_t> expected = out.host_bytes(), gradient = dx.host_bytes();
          for (int64_t i = 0; i < results; ++i)
            expected = testing::with_value(std::move(expected), t, i, each ? losses[i] : mean ? sum / weights : sum);
          for (int64_t at = 0; at < n * classes; ++at) {
            const int64_t i = at / (classes * inner) * inner + at % inner;
            const double g = number(dy.host(), each ? i : 0);
            const double expected_here = shares[at] == 0 ? 0 : -shares[at] * g / (mean ? weights : 1);
            gradient = testing::with_value(std::move(gradient), t, at, expected_here);
          }
          const double rtol = t == DType::kFloat64 ? 1e-12 : 1e-5;
          testing::expect_close(t, expected, out.device_bytes(), rtol, rtol, "loss");
          testing::expect_close(t, gradient, dx.device_bytes(), rtol, rtol, "gradient");
        }
}

TEST_F(Loss, TargetsOutOfBounds) {
  for (LossReduction reduction : {LossReduction::kNone, LossReduction::kMean}) {
    Mirror x(random_elements(DType::kFloat32, 6, 1)), out(random_elements(DType::kFloat32, 2, 2)),
        total(random_elements(DType::kFloat32, 1, 2)), target = Mirror::of(std::vector<int64_t>{1, 7});
    cuda::nll_loss_forward(DType::kFloat32, 2, 3, 1, x.device(), target.device_as<int64_t>(), nullptr, reduction, -100,
                           out.device(), total.device());
    try {
      synchronize_stream();
      ADD_FAILURE() << "no error";
    } catch (const IndexError& e) {
      EXPECT_NE(std::string(e.what()).find("Target 7 is out of bounds."), std::string::npos) << e.what();
    }
    cuda::nll_loss_backward(DType::kFloat32, 2, 3, 1, out.device(), target.device_as<int64_t>(), nullptr, reduction,
                            -100, total.device(), x.device());
    EXPECT_THROW(synchronize_stream(), IndexError);
  }
}

}  // namespace
}  // namespace tessera::cuda
