#include "optim/optimizers/lr_scheduler.h"

#include <algorithm>

namespace tessera::optim {
namespace {

namespace sch = schedules;

int64_t positive(int64_t value, const char* name) {
  TESSERA_CHECK_VALUE(value >= 1, name, " must be positive, but got ", value);
  return value;
}
double share(double value, const char* name) {
  TESSERA_CHECK_VALUE(value >= 0 && value <= 1, name, " must be between 0 and 1, but got ", value);
  return value;
}

// change(epoch) times the rate.
template <class Change>
LRScheduler::Formula multiplied(Change change) {
  return [change](double rate, double, double epoch) { return rate * change(epoch); };
}

}  // namespace

LRScheduler::LRScheduler(Optimizer& optimizer, Formula formula) : optimizer_(optimizer), formula_(std::move(formula)) {
  base_ = last_lr();
  set_rates();
}

void LRScheduler::step() {
  ++last_epoch_;
  set_rates();
}

void LRScheduler::set_rates() {
  for (size_t i = 0; i < base_.size(); ++i)
    optimizer_.set_lr(formula_(optimizer_.lr(i), base_[i], static_cast<double>(last_epoch_)), i);
}

std::vector<double> LRScheduler::last_lr() const {
  std::vector<double> result;
  for (size_t i = 0; i < optimizer_.num_groups(); ++i) result.push_back(optimizer_.lr(i));
  return result;
}

StepLR::StepLR(Optimizer& optimizer, int64_t step_size, double gamma)
    : LRScheduler(optimizer, multiplied([size = positive(step_size, "step_size"), gamma](double epoch) {
                    return sch::step_change(epoch, size, gamma);
                  })) {}

MultiStepLR::MultiStepLR(Optimizer& optimizer, std::vector<int64_t> milestones, double gamma)
    : LRScheduler(optimizer, multiplied([milestones = std::move(milestones), gamma](double epoch) {
                    return sch::exponential_weight(static_cast<double>(std::count(milestones.begin(), milestones.end(),
                                                                                  static_cast<int64_t>(epoch))),
                                                   gamma);
                  })) {}

ConstantLR::ConstantLR(Optimizer& optimizer, double factor, int64_t total_iters)
    : LRScheduler(optimizer, multiplied([factor = share(factor, "factor"), total_iters](double epoch) {
                    return sch::constant_change(epoch, factor, total_iters);
                  })) {}

LinearLR::LinearLR(Optimizer& optimizer, double start_factor, double end_factor, int64_t total_iters)
    : LRScheduler(optimizer, multiplied([start = share(start_factor, "start_factor"),
                                         end = share(end_factor, "end_factor"), total_iters](double epoch) {
                    return sch::linear_change(epoch, start, end, total_iters);
                  })) {}

ExponentialLR::ExponentialLR(Optimizer& optimizer, double gamma)
    : LRScheduler(optimizer, multiplied([gamma](double epoch) { return sch::exponential_change(epoch, gamma); })) {}

PolynomialLR::PolynomialLR(Optimizer& optimizer, int64_t total_iters, double power)
    : LRScheduler(optimizer, multiplied([total = positive(total_iters, "total_iters"), power](double epoch) {
                    return sch::polynomial_change(epoch, total, power);
                  })) {}

LambdaLR::LambdaLR(Optimizer& optimizer, std::function<double(int64_t)> lr_lambda)
    : LRScheduler(optimizer, [f = std::move(lr_lambda)](double, double base, double epoch) {
        return base * f(static_cast<int64_t>(epoch));
      }) {}

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, int64_t t_max, double eta_min)
    : LRScheduler(optimizer, [period = positive(t_max, "t_max"), eta_min](double rate, double base, double epoch) {
        if (epoch == 0) return rate;
        const auto [rises, weight] = sch::cosine_change(epoch, period);
        return rises ? rate + (base - eta_min) * weight : eta_min + (rate - eta_min) * weight;
      }) {}

CosineAnnealingWarmRestarts::CosineAnnealingWarmRestarts(Optimizer& optimizer, int64_t t_0, int64_t t_mult,
                                                         double eta_min)
    : LRScheduler(optimizer, [first = positive(t_0, "t_0"), factor = positive(t_mult, "t_mult"), eta_min](
                                 double, double base, double epoch) {
        const auto [position, length] = sch::restart_cycle(epoch, first, factor);
        return eta_min + (base - eta_min) * sch::cosine_weight(position, length);
      }) {}

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, const PlateauOptions& options)
    : optimizer_(optimizer), options_(options) {
  TESSERA_CHECK_VALUE(options.factor < 1, "factor must be less than 1, but got ", options.factor);
  best_ = (options.larger_is_better ? -1 : 1) * std::numeric_limits<double>::infinity();
}

void ReduceLROnPlateau::step(double metric) {
  const bool better =
      sch::improves(metric, best_, options_.threshold, options_.larger_is_better, options_.relative_threshold);
  if (better) best_ = metric;
  state_ = sch::next_plateau(better, state_.bad, state_.cooling, options_.patience, options_.cooldown);
  if (!state_.reduce) return;
  for (size_t i = 0; i < optimizer_.num_groups(); ++i) {
    const double rate = optimizer_.lr(i), reduced = std::max(rate * options_.factor, options_.min_lr);
    if (rate - reduced > options_.eps) optimizer_.set_lr(reduced, i);
  }
}

}  // namespace tessera::optim
