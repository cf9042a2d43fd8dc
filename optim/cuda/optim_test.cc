#include "optim/cuda/optim.h"

#include <cmath>
#include <memory>
#include <vector>

#include "tensor/cuda/support/testing.h"

namespace tessera::cuda {
namespace {

using testing::DeviceBytes;
using testing::Mirror;
using testing::random_elements;
using Optim = testing::DeviceTest;

constexpr DType kFloats[] = {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};
constexpr int kSteps = 4;

// The CPU fuses products and sums where it can, so that last digits differ there.
void expect_near(DType t, const Mirror& m, const char* what) {
  testing::expect_close(t, m.host_bytes(), m.device_bytes(), -1, -1, what);
}

void check_sgd(DType t, int64_t n, cpu::SgdStep s) {
  Mirror p(random_elements(t, n, 1)), buffer(random_elements(t, n, 2));
  for (int step = 0; step < kSteps; ++step) {
    Mirror grad(random_elements(t, n, 10 + step));
    s.first_step = step == 0;
    cpu::sgd_step(t, n, s, p.host(), grad.host(), s.momentum != 0 ? buffer.host() : nullptr);
    cuda::sgd_step(t, n, s, p.device(), grad.device(), s.momentum != 0 ? buffer.device() : nullptr);
  }
  testing::expect_same(t, p.host_bytes(), p.device_bytes(), "parameter");
  testing::expect_same(t, buffer.host_bytes(), buffer.device_bytes(), "buffer");
}

TEST_F(Optim, SgdHasTheBitsOfTheCpu) {
  for (DType t : kFloats) {
    for (int64_t n : {0, 1, 17, 20001}) {
      check_sgd(t, n, {0.1, 0, 0, 0, false, false, false});
      check_sgd(t, n, {0.1, 0, 0, 0.2, false, true, false});
      check_sgd(t, n, {0.1, 0.9, 0, 0, false, false, false});
      check_sgd(t, n, {0.1, 0.9, 0.3, 0.1, false, false, false});
      check_sgd(t, n, {0.1, 0.9, 0, 0.1, true, true, false});
    }
  }
}

void check_adam(DType t, int64_t n, cpu::AdamStep s) {
  Mirror p(random_elements(t, n, 1)), m(random_elements(t, n, 2)), v(random_elements(t, n, 3, 0, 1)),
      largest(random_elements(t, n, 4, 0, 1));
  for (int step = 0; step < kSteps; ++step) {
    Mirror grad(random_elements(t, n, 10 + step));
    s.step = step + 1;
    cpu::adam_step(t, n, s, p.host(), grad.host(), m.host(), v.host(), s.amsgrad ? largest.host() : nullptr);
    cuda::adam_step(t, n, s, p.device(), grad.device(), m.device(), v.device(), s.amsgrad ? largest.device() : nullptr);
  }
  expect_near(t, p, "parameter");
  expect_near(t, m, "exp_avg");
  expect_near(t, v, "exp_avg_sq");
  expect_near(t, largest, "max_exp_avg_sq");
}

TEST_F(Optim, Adam) {
  for (DType t : kFloats) {
    for (int64_t n : {0, 1, 17, 20001}) {
      check_adam(t, n, {0.01, 0.9, 0.999, 1e-8, 0, false, false, false, 0});
      check_adam(t, n, {0.01, 0.9, 0.999, 1e-8, 0.1, false, true, true, 0});
      check_adam(t, n, {0.01, 0.4, 0.9, 1e-3, 0.1, true, false, false, 0});
    }
  }
}

// StepTensors in one allocation, `offset` elements behind a 16-byte boundary.
struct List {
  std::vector<std::unique_ptr<DeviceBytes>> memory;
  std::vector<void*> data;
  List(DType t, const std::vector<int64_t>& sizes, uint64_t seed, int64_t offset, double low = -1) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      memory.push_back(std::make_unique<DeviceBytes>(random_elements(t, sizes[i] + offset, seed + i, low, 1)));
      data.push_back(memory.back()->as<uint8_t>() + offset * item_size(t));
    }
  }
};

std::vector<int64_t> many_sizes() {
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < 130; ++i) sizes.push_back(i * 37 % 11 == 0 ? 0 : i * 97 % 400);
  sizes.push_back(9000);
  return sizes;
}

// Many parameters at once are the same as one after another, aligned or not.
TEST_F(Optim, ManyParameters) {
  const std::vector<int64_t> sizes = many_sizes();
  const int64_t count = static_cast<int64_t>(sizes.size());
  for (DType t : {DType::kBFloat16, DType::kFloat32}) {
    for (int64_t offset : {0, 1}) {
      const List p(t, sizes, 100, 0), q(t, sizes, 100, 0), g(t, sizes, 500, offset), m(t, sizes, 900, 0),
          n(t, sizes, 900, 0), v(t, sizes, 1300, 0, 0), w(t, sizes, 1300, 0, 0);
      const cpu::SgdStep sgd{0.1, 0.9, 0, 0.01, false, false, false};
      const cpu::AdamStep adam{0.01, 0.9, 0.999, 1e-8, 0.01, true, false, false, 3};
      sgd_steps(sgd, {t, count, sizes.data(), p.data.data(), g.data.data(), {m.data.data(), nullptr, nullptr}}, {});
      adam_steps(adam, {t, count, sizes.data(), p.data.data(), g.data.data(), {m.data.data(), v.data.data(), nullptr}},
                 {});
      for (size_t i = 0; i < sizes.size(); ++i) {
        cuda::sgd_step(t, sizes[i], sgd, q.data[i], g.data[i], n.data[i]);
        cuda::adam_step(t, sizes[i], adam, q.data[i], g.data[i], n.data[i], w.data[i], nullptr);
        testing::expect_same(t, q.memory[i]->read(), p.memory[i]->read());
        testing::expect_same(t, n.memory[i]->read(), m.memory[i]->read());
        testing::expect_same(t, w.memory[i]->read(), v.memory[i]->read());
      }
    }
  }
}

TEST_F(Optim, ScalesAndStepNumbersOfTheDevice) {
  const std::vector<int64_t> sizes = {1000, 10};
  const DType t = DType::kFloat32;
  const List p(t, sizes, 1, 0), q(t, sizes, 1, 0), g(t, sizes, 5, 0), h(t, sizes, 5, 0), m(t, sizes, 9, 0),
      n(t, sizes, 9, 0), v(t, sizes, 13, 0, 0), w(t, sizes, 13, 0, 0);
  const float numbers[] = {4.0f, 0.0f, 1.0f, 3.0f, 7.0f};  // scale, no infinity, an infinity, step numbers
  const DeviceBytes scalars(sizeof numbers);
  copy_to_device(scalars.get(), numbers, sizeof numbers);
  const float* const on_device = scalars.as<float>();
  const float* const steps[] = {on_device + 3, on_device + 4};
  cpu::AdamStep s{0.01, 0.9, 0.999, 1e-8, 0, false, false, false, 0};
  const StepTensors parameters{
      t, 2, sizes.data(), p.data.data(), g.data.data(), {m.data.data(), v.data.data(), nullptr}};
  const std::vector<uint8_t> before = p.memory[0]->read();
  adam_steps(s, parameters, {on_device, on_device + 2, steps});
  testing::expect_same(t, before, p.memory[0]->read(), "skipped");
  adam_steps(s, parameters, {on_device, on_device + 1, steps});
  for (int i = 0; i < 2; ++i) {
    std::vector<uint8_t> scaled = h.memory[i]->read();
    for (int64_t k = 0; k < sizes[i]; ++k) reinterpret_cast<float*>(scaled.data())[k] /= 4;
    testing::expect_same(t, scaled, g.memory[i]->read(), "gradient");
    const DeviceBytes gradient(scaled);
    s.step = numbers[3 + i];
    cuda::adam_step(t, sizes[i], s, q.data[i], gradient.get(), n.data[i], w.data[i], nullptr);
    testing::expect_same(t, q.memory[i]->read(), p.memory[i]->read(), "parameter");
    testing::expect_same(t, w.memory[i]->read(), v.memory[i]->read(), "exp_avg_sq");
  }
}

}  // namespace
}  // namespace tessera::cuda
