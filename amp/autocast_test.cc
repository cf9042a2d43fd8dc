#include "amp/autocast.h"

#include <gtest/gtest.h>

#include <thread>

#include "amp/cast_kernels.h"
#include "autograd/autograd.h"
#include "tensor/ops/api.h"

namespace tessera {
namespace {

constexpr DType kF32 = DType::kFloat32, kBF16 = DType::kBFloat16, kF16 = DType::kFloat16;

double number(const Tensor& t) { return select(select(t, 0, 0), 0, 0).item_scalar().to_double(); }
Tensor square(DType t = kF32) { return ones({4, 4}, t); }

TEST(Autocast, EachPolicy) {
  const Tensor x = square(), h = square(kBF16);
  const amp::Autocast region(DeviceType::kCPU);
  EXPECT_EQ(mm(x, x).dtype(), kBF16);
  EXPECT_EQ(mm(x, h).dtype(), kBF16);
  EXPECT_EQ(prod(h).dtype(), kF32);
  EXPECT_EQ(cat(std::vector<Tensor>{x, h}, 0).dtype(), kF32);
  EXPECT_EQ(cat(std::vector<Tensor>{h, h}, 0).dtype(), kBF16);
  EXPECT_EQ(add(x, x).dtype(), kF32);
  EXPECT_EQ(add(h, h).dtype(), kBF16);
}

TEST(Autocast, WhatIsNotCast) {
  const Tensor d = square(DType::kFloat64), i = square(DType::kInt64), m = ones({4, 4}, kF32, {}, Device("meta"));
  Tensor x = square(), out = square();
  const amp::Autocast region(DeviceType::kCPU);
  EXPECT_EQ(mm(d, d).dtype(), DType::kFloat64);
  EXPECT_EQ(mm(i, i).dtype(), DType::kInt64);
  EXPECT_EQ(mm(m, m).dtype(), kF32);
  // 1 + 2^-12 is no bfloat16: in-place and out= forms compute in float32.
  fill_(x, Scalar(1.000244140625));
  EXPECT_EQ(mm_out(out, x, square()).dtype(), kF32);
  EXPECT_EQ(number(out), 4.0009765625);
  zero_(out);
  addmm_(out, x, square());
  EXPECT_EQ(number(out), 4.0009765625);
}

TEST(Autocast, RegionsNestAndEnd) {
  const Tensor x = square();
  {
    const amp::Autocast outer(DeviceType::kCPU, kF16);
    EXPECT_EQ(mm(x, x).dtype(), kF16);
    {
      const amp::Autocast inner(DeviceType::kCPU, {}, false);
      EXPECT_EQ(mm(x, x).dtype(), kF32);
      EXPECT_FALSE(amp::is_autocast_enabled(DeviceType::kCPU));
    }
    {
      const amp::Autocast inner(DeviceType::kCPU, kBF16);
      EXPECT_EQ(mm(x, x).dtype(), kBF16);
    }
    EXPECT_EQ(mm(x, x).dtype(), kF16);
    DType elsewhere = kF16;
    std::thread([&] { elsewhere = mm(x, x).dtype(); }).join();
    EXPECT_EQ(elsewhere, kF32);
  }
  EXPECT_EQ(mm(x, x).dtype(), kF32);
  EXPECT_EQ(amp::autocast_dtype(DeviceType::kCPU), kBF16);
}

TEST(Autocast, DevicesOfTwoKinds) {
  const Tensor x = square();
  const amp::Autocast cpu(DeviceType::kCPU);
  amp::set_autocast_enabled(DeviceType::kCUDA, true);
  EXPECT_EQ(mm(x, x).dtype(), kBF16);
  amp::set_autocast_enabled(DeviceType::kCPU, false);
  EXPECT_EQ(mm(x, x).dtype(), kF32);
  EXPECT_EQ(exp(square(kF16)).dtype(), kF16) << "a policy of other devices";
  amp::set_autocast_enabled(DeviceType::kCUDA, false);
  EXPECT_THROW(amp::Autocast(DeviceType::kMeta), Error);
}

TEST(Autocast, WeightsAreCastOnce) {
  const Tensor w = square(), x = square();
  w.requires_grad_();
  const amp::Autocast region(DeviceType::kCPU);
  const Tensor first = amp::cast_for(w, DeviceType::kCPU, kBF16);
  EXPECT_TRUE(first.is_same(amp::cast_for(w, DeviceType::kCPU, kBF16)));
  EXPECT_FALSE(first.is_same(amp::cast_for(w, DeviceType::kCPU, kF16)));
  {
    const NoGradGuard no_grad;
    const Tensor plain = amp::cast_for(w, DeviceType::kCPU, kBF16);
    EXPECT_FALSE(plain.requires_grad());
    fill_(w, Scalar(3.0));
  }
  const Tensor again = amp::cast_for(w, DeviceType::kCPU, kBF16);
  EXPECT_TRUE(again.requires_grad());
  EXPECT_EQ(number(again), 3);
  EXPECT_FALSE(amp::cast_for(x, DeviceType::kCPU, kBF16).is_same(amp::cast_for(x, DeviceType::kCPU, kBF16)));
}

TEST(Autocast, GradientsHaveTheWeightsDtype) {
  const Tensor w = square(), x = square();
  w.requires_grad_();
  Tensor loss;
  {
    const amp::Autocast region(DeviceType::kCPU);
    loss = sum(to(mm(x, w), kF32));
  }
  autograd::backward(std::vector<Tensor>{loss});
  EXPECT_EQ(w.grad().dtype(), kF32);
  EXPECT_EQ(number(w.grad()), 4);
}

}  // namespace
}  // namespace tessera
