#include "optim/optimizers/lr_scheduler.h"

#include <cmath>
#include <numbers>

namespace tessera::optim {

LRScheduler::LRScheduler(Optimizer& optimizer) : optimizer_(optimizer) {
  for (size_t i = 0; i < optimizer.num_groups(); ++i) base_.push_back(optimizer.lr(i));
}

void LRScheduler::step() {
  ++last_epoch_;
  for (size_t i = 0; i < base_.size(); ++i) optimizer_.set_lr(next(optimizer_.lr(i), base_[i]), i);
}

std::vector<double> LRScheduler::last_lr() const {
  std::vector<double> result;
  for (size_t i = 0; i < base_.size(); ++i) result.push_back(optimizer_.lr(i));
  return result;
}

StepLR::StepLR(Optimizer& optimizer, int64_t step_size, double gamma) : LRScheduler(optimizer), step_size_(step_size), gamma_(gamma) {
  TESSERA_CHECK_VALUE(step_size >= 1, "step_size must be positive, but got ", step_size);
}

double StepLR::next(double lr, double) const { return last_epoch() % step_size_ == 0 ? lr * gamma_ : lr; }

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, int64_t t_max, double eta_min) : LRScheduler(optimizer), t_max_(t_max), eta_min_(eta_min) {
  TESSERA_CHECK_VALUE(t_max >= 1, "t_max must be positive, but got ", t_max);
}

double CosineAnnealingLR::next(double lr, double base) const {
  constexpr double pi = std::numbers::pi;
  const double e = static_cast<double>(last_epoch()), period = static_cast<double>(t_max_);
  // Where the rate is at its minimum, the recurrence would divide by zero.
  if ((last_epoch() - 1 - t_max_) % (2 * t_max_) == 0) return lr + (base - eta_min_) * (1 - std::cos(pi / period)) / 2;
  const double ratio = (1 + std::cos(pi * e / period)) / (1 + std::cos(pi * (e - 1) / period));
  return ratio * (lr - eta_min_) + eta_min_;
}

}  // namespace tessera::optim
