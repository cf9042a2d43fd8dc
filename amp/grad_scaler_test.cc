#include "amp/grad_scaler.h"

#include <gtest/gtest.h>

#include <limits>

#include "amp/scaling_ops.h"
#include "autograd/autograd.h"
#include "optim/optimizers/sgd.h"
#include "tensor/ops/api.h"

namespace tessera {
namespace {

Tensor parameter() { return ones({3}).requires_grad_(); }
double first(const Tensor& t) { return select(t, 0, 0).item_scalar().to_double(); }

TEST(GradScaler, StepsWithUnscaledGradients) {
  const Tensor p = parameter();
  optim::SGD sgd({p}, {.lr = 1});
  amp::GradScaler scaler({.device = DeviceType::kCPU, .init_scale = 8, .growth_interval = 1});
  autograd::backward(std::vector<Tensor>{scaler.scale(sum(mul(p, Scalar(0.25))))});
  EXPECT_EQ(first(p.grad()), 2);
  EXPECT_TRUE(scaler.step(sgd));
  EXPECT_EQ(first(p), 0.75);
  EXPECT_THROW(scaler.step(sgd), Error);
  scaler.update();
  EXPECT_EQ(scaler.get_scale(), 16);
}

TEST(GradScaler, InfiniteGradientsSkipOneOptimizerOnly) {
  const Tensor p = parameter(), q = parameter();
  optim::SGD a({p}, {.lr = 1}), b({q}, {.lr = 1});
  amp::GradScaler scaler({.device = DeviceType::kCPU, .init_scale = 8});
  autograd::backward(
      std::vector<Tensor>{scaler.scale(add(sum(mul(p, Scalar(std::numeric_limits<double>::infinity()))), sum(q)))});
  scaler.unscale_(b);
  EXPECT_THROW(scaler.unscale_(b), Error);
  EXPECT_EQ(first(q.grad()), 1);
  EXPECT_FALSE(scaler.step(a));
  EXPECT_TRUE(scaler.step(b));
  scaler.update();
  EXPECT_EQ(first(p), 1);
  EXPECT_EQ(first(q), 0);
  EXPECT_EQ(scaler.get_scale(), 4);
}

TEST(GradScaler, StateAndErrors) {
  amp::GradScaler scaler({.device = DeviceType::kCPU, .init_scale = 8, .growth_interval = 3});
  EXPECT_THROW(scaler.update(), Error);
  scaler.scale(ones({1}));
  EXPECT_THROW(scaler.update(), Error);
  scaler.update(32.0);
  const amp::GradScaler::State state = scaler.state();
  EXPECT_EQ(state.scale, 32);
  EXPECT_EQ(state.growth_interval, 3);
  amp::GradScaler other;
  other.load_state(state);
  EXPECT_EQ(other.get_scale(), 32);
  EXPECT_THROW(amp::GradScaler({.growth_factor = 1}), ValueError);
  EXPECT_THROW(amp::GradScaler({.backoff_factor = 1}), ValueError);
  amp::GradScaler off({.enabled = false});
  const Tensor x = ones({1});
  EXPECT_TRUE(off.scale(x).is_same(x));
  EXPECT_EQ(off.get_scale(), 1);
}

TEST(ScaleOperators, EveryDtypeAndLayout) {
  const Tensor inverse = full(SymIntList(), Scalar(0.5), DType::kFloat32);
  for (const DType t : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16}) {
    const Tensor plain = full({3, 5}, Scalar(4.0), t), strided = select(full({3, 5, 2}, Scalar(4.0), t), 2, 1);
    Tensor found = zeros({1});
    _amp_foreach_non_finite_check_and_unscale_(std::vector<Tensor>{plain, strided}, found, inverse);
    EXPECT_EQ(first(found), 0);
    EXPECT_TRUE(equal(plain, full({3, 5}, Scalar(2.0), t)));
    EXPECT_TRUE(equal(strided, full({3, 5}, Scalar(2.0), t)));
    for (const Tensor& bad : {plain, strided}) {
      zero_(found);
      fill_(select(select(bad, 0, 2), 0, 4), Scalar(std::numeric_limits<double>::quiet_NaN()));
      _amp_foreach_non_finite_check_and_unscale_(std::vector<Tensor>{plain, strided}, found, inverse);
      EXPECT_EQ(first(found), 1);
      zero_(bad);
    }
  }
}

TEST(ScaleOperators, UpdateScale) {
  Tensor scale = full(SymIntList(), Scalar(3e38), DType::kFloat32), steps = zeros(SymIntList(), DType::kInt32);
  const Tensor fine = zeros({1}), found = ones({1});
  _amp_update_scale_(scale, steps, fine, 2, 0.5, 2);
  EXPECT_EQ(steps.item_scalar().to_int(), 1);
  _amp_update_scale_(scale, steps, fine, 2, 0.5, 2);
  EXPECT_EQ(scale.item_scalar().to_double(), static_cast<double>(3e38f)) << "a scale stays finite";
  EXPECT_EQ(steps.item_scalar().to_int(), 0);
  _amp_update_scale_(scale, steps, found, 2, 0.5, 2);
  EXPECT_EQ(scale.item_scalar().to_double(), static_cast<double>(1.5e38f));
  EXPECT_THROW(_amp_update_scale_(scale, fine, fine, 2, 0.5, 2), Error);
}

}  // namespace
}  // namespace tessera
