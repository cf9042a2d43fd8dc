#include <cmath>
#include <random>
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
