// Recurrences against closed forms: the product of the changes up to an epoch is its weight.
#include "optim/schedules/schedules.h"

#include <array>
#include <cmath>
#include <functional>

#include <gtest/gtest.h>

namespace tessera::optim::schedules {
namespace {

using OfEpoch = std::function<double(double)>;

void expect_product(const OfEpoch& change, const OfEpoch& weight) {
  double product = 1;
  for (int epoch = 0; epoch < 15; ++epoch) {
    product *= change(epoch);
    EXPECT_NEAR(product, weight(epoch), 1e-14) << "epoch " << epoch;
  }
}

TEST(Schedules, ChangesMultiplyToWeights) {
  expect_product([](double e) { return step_change(e, 4, 0.3); }, [](double e) { return step_weight(e, 4, 0.3); });
  expect_product([](double e) { return exponential_change(e, 0.9); },
                 [](double e) { return exponential_weight(e, 0.9); });
  expect_product([](double e) { return constant_change(e, 0.3, 5); },
                 [](double e) { return constant_weight(e, 0.3, 5); });
  expect_product([](double e) { return linear_change(e, 0.3, 0.8, 5); },
                 [](double e) { return linear_weight(e, 0.3, 0.8, 5); });
  expect_product([](double e) { return polynomial_change(e, 7, 1.5); },
                 [](double e) { return polynomial_weight(e, 7, 1.5); });
}

TEST(Schedules, CosineRecurrenceIsItsClosedForm) {
  double share = 1;  // from the lowest rate to the first one
  for (int epoch = 1; epoch < 25; ++epoch) {
    const auto [rises, weight] = cosine_change(epoch, 6);
    share = rises ? share + weight : share * weight;
    EXPECT_NEAR(share, cosine_weight(epoch, 6), 1e-13) << "epoch " << epoch;
  }
}

TEST(Schedules, CyclesGrow) {
  Cycle place = restart_cycle(0, 2, 3);
  for (int epoch = 0; epoch < 30; ++epoch) {
    const Cycle here = restart_cycle(epoch, 2, 3);
    EXPECT_EQ(here.position, epoch < 2 ? epoch : epoch < 8 ? epoch - 2 : epoch < 26 ? epoch - 8 : epoch - 26);
    EXPECT_EQ(here.length, epoch < 2 ? 2 : epoch < 8 ? 6 : epoch < 26 ? 18 : 54);
    EXPECT_EQ(here.position, place.position);
    EXPECT_EQ(here.length, place.length);
    place = next_in_cycle(place.position, place.length, 3);
  }
  EXPECT_EQ(restart_cycle(7.5, 3, 1).position, 1.5);
}

TEST(Schedules, PhasesAndTriangles) {
  const std::array<double, 2> ends{2, 10};
  for (auto [step, number, passed] :
       {std::tuple{0.0, 0, 0.0}, {1.0, 0, 0.5}, {2.0, 0, 1.0}, {4.0, 1, 0.25}, {10.0, 1, 1.0}, {12.0, 1, 1.25}}) {
    EXPECT_EQ(phase_of(step, ends).number, number) << step;
    EXPECT_EQ(phase_of(step, ends).passed, passed) << step;
  }
  const double heights[] = {0, 1, 2.0 / 3, 1.0 / 3, 0, 1};
  for (int step = 0; step < 6; ++step) {
    EXPECT_NEAR(triangle(step, 4, 0.25).height, heights[step], 1e-15) << step;
    EXPECT_EQ(triangle(step, 4, 0.25).cycle, step < 4 ? 1 : 2) << step;
  }
  EXPECT_EQ(halved_amplitude(3), 0.25);
  EXPECT_EQ(averaging_weight(7, 5, true), 1);
  EXPECT_EQ(averaging_weight(1, 4, false), 0.25);
}

TEST(Schedules, ZeroDivisorsGiveNoNumber) {
  EXPECT_FALSE(std::isfinite(step_change(1, 0, 0.5)));
  EXPECT_FALSE(std::isfinite(constant_change(2, 0, 2)));
  EXPECT_FALSE(std::isfinite(cosine_change(1, 0).weight));
}

}  // namespace
}  // namespace tessera::optim::schedules
