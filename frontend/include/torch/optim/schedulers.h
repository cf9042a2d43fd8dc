// Schedules of learning rates. StepLR and ReduceLROnPlateauScheduler count as the C++ front end always has: a StepLR
// changes the rate in its step number size + 1, 2 size + 1 ... The others are Python's: they set the rates of epoch 0
// when they are made, and each step() goes on by one epoch. The formulas are those of optim/schedules.
#pragma once

#include <torch/optim/optimizer.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>

#include "optim/schedules/schedules.h"

namespace torch::optim {

class LRScheduler {
 public:
  // The optimizer must outlive its scheduler.
  LRScheduler(Optimizer& optimizer) : optimizer_(optimizer) {}
  virtual ~LRScheduler() = default;
  void step() {
    advance();
    ++step_count_;
  }

 protected:
  virtual std::vector<double> get_lrs() = 0;
  virtual void advance() { set_optimizer_lrs(get_lrs()); }
  void set_optimizer_lrs(const std::vector<double>& rates) {
    auto& groups = optimizer_.param_groups();
    TORCH_CHECK(rates.size() == groups.size(), "Number of learning rates not equal to the number of param groups\n",
                "Number of learning rates given: ", rates.size(), "\nNumber of param groups: ", groups.size());
    for (size_t i = 0; i < groups.size(); ++i) groups[i].options().set_lr(rates[i]);
  }
  std::vector<double> get_current_lrs() const {
    std::vector<double> rates;
    for (const OptimizerParamGroup& group : optimizer_.param_groups()) rates.push_back(group.options().get_lr());
    return rates;
  }
  unsigned step_count_ = 0;
  Optimizer& optimizer_;
};

class StepLR : public LRScheduler {
 public:
  StepLR(Optimizer& optimizer, const unsigned step_size, const double gamma = 0.1)
      : LRScheduler(optimizer), step_size_(step_size), gamma_(gamma) {
    TORCH_CHECK(step_size > 0, "Expected a positive step_size, but got ", step_size);
  }

 private:
  std::vector<double> get_lrs() override {
    std::vector<double> rates = get_current_lrs();
    if (step_count_ != 0 && step_count_ % step_size_ == 0)
      for (double& rate : rates) rate *= gamma_;
    return rates;
  }
  const unsigned step_size_;
  const double gamma_;
};

class ReduceLROnPlateauScheduler {
 public:
  enum SchedulerMode { min, max };
  enum ThresholdMode { rel, abs };
  ReduceLROnPlateauScheduler(Optimizer& optimizer, SchedulerMode mode = min, float factor = 0.1, int patience = 10,
                             double threshold = 1e-4, ThresholdMode threshold_mode = rel, int cooldown = 0,
                             const std::vector<float>& min_lr = {}, double eps = 1e-8, bool verbose = false)
      : optimizer_(optimizer),
        mode_(mode),
        threshold_mode_(threshold_mode),
        factor_(factor),
        patience_(patience),
        cooldown_(cooldown),
        threshold_(threshold),
        eps_(eps),
        verbose_(verbose),
        min_lrs_(min_lr) {
    TORCH_CHECK(factor < 1, "Factor should be < 1.0.");
    if (min_lrs_.empty()) min_lrs_.resize(optimizer.param_groups().size());
    TORCH_CHECK(min_lrs_.size() == optimizer.param_groups().size(),
                "Number of learning rates not equal to the number of param groups\nNumber of learning rates given: ",
                min_lrs_.size(), "\nNumber of param groups: ", optimizer.param_groups().size());
    reset();
  }
  virtual ~ReduceLROnPlateauScheduler() = default;
  void step(float metric) {
    namespace s = tessera::optim::schedules;
    ++last_epoch_;
    const bool better = s::improves(metric, best_, threshold_, mode_ == max, threshold_mode_ == rel);
    if (better) best_ = metric;
    const s::Plateau next = s::next_plateau(better, bad_, cooling_, patience_, cooldown_);
    if (next.reduce) reduce();
    bad_ = next.bad, cooling_ = next.cooling;
  }

 private:
  void reset() {
    bad_ = cooling_ = 0;
    best_ = (mode_ == min ? 1 : -1) * std::numeric_limits<double>::infinity();
  }
  void reduce() {
    for (size_t i = 0; i < optimizer_.param_groups().size(); ++i) {
      OptimizerOptions& o = optimizer_.param_groups()[i].options();
      const double old = o.get_lr(), lower = std::max(old * factor_, double(min_lrs_.at(i)));
      if (old - lower <= eps_) continue;
      o.set_lr(lower);
      if (verbose_)
        std::cout << "Epoch " << last_epoch_ << ": reducing learning rate of group " << i << " to " << lower
                  << std::endl;
    }
  }
  Optimizer& optimizer_;
  SchedulerMode mode_;
  ThresholdMode threshold_mode_;
  float factor_;
  int patience_, cooldown_, last_epoch_ = 0;
  double threshold_, eps_, best_ = 0;
  bool verbose_;
  std::vector<float> min_lrs_;
  int64_t bad_ = 0, cooling_ = 0;
};

// Python's schedules: epochs from 0 on, which composites start anew (`restart`).
class EpochScheduler : public LRScheduler {
 public:
  // The first rates are those that the first schedule of the optimizer saw.
  explicit EpochScheduler(Optimizer& optimizer) : LRScheduler(optimizer) {
    for (OptimizerParamGroup& group : optimizer.param_groups()) {
      OptimizerOptions& o = group.options();
      if (!o.initial_lr) o.initial_lr = o.get_lr();
      base_lrs.push_back(*o.initial_lr);
    }
  }
  int64_t last_epoch() const { return epoch_; }
  std::vector<double> get_last_lr() const { return get_current_lrs(); }
  Optimizer& optimizer() const { return optimizer_; }
  virtual void restart(bool first) {
    epoch_ = 0;
    set_optimizer_lrs(first ? begin() : closed_form());
  }

 protected:
  // The rates of epoch 0; those of the next epoch from the present ones; those of an epoch from the first ones.
  virtual std::vector<double> begin() { return closed_form(); }
  virtual std::vector<double> closed_form() = 0;
  std::vector<double> get_lrs() override { return closed_form(); }
  void advance() override {
    ++epoch_;
    set_optimizer_lrs(get_lrs());
  }
  void start() { restart(true); }
  std::vector<double> scaled(std::vector<double> rates, double factor) const {
    for (double& rate : rates) rate *= factor;
    return rates;
  }
  std::vector<double> base_lrs;
  int64_t epoch_ = 0;
};

namespace detail {
// A schedule by factors of the present rate (`change`) and of the first one (`weight`).
struct ByFactors : EpochScheduler {
  using Factor = std::function<double(double)>;
  ByFactors(Optimizer& optimizer, Factor change, Factor weight)
      : EpochScheduler(optimizer), change_(std::move(change)), weight_(std::move(weight)) {
    start();
  }

 protected:
  std::vector<double> begin() override { return scaled(get_current_lrs(), change_(0)); }
  std::vector<double> get_lrs() override { return scaled(get_current_lrs(), change_(double(epoch_))); }
  std::vector<double> closed_form() override { return scaled(base_lrs, weight_(double(epoch_))); }

 private:
  Factor change_, weight_;
};
// NAME(optimizer, PARAMETERS): factors by the formulas FORMULA_change and FORMULA_weight with arguments of these names.
#define TESSERA_SCHEDULE(Name, formula, parameters, arguments, check)                                \
  struct Name : detail::ByFactors {                                                                  \
    TESSERA_UNPACK parameters                                                                        \
        : ByFactors(                                                                                 \
              optimizer,                                                                             \
              [=](double epoch) {                                                                    \
                return tessera::optim::schedules::formula##_change(epoch, TESSERA_UNPACK arguments); \
              },                                                                                     \
              [=](double epoch) {                                                                    \
                return tessera::optim::schedules::formula##_weight(epoch, TESSERA_UNPACK arguments); \
              }) {                                                                                   \
      check;                                                                                         \
    }                                                                                                \
  };
#define TESSERA_UNPACK(...) __VA_ARGS__
inline void unit_share(const char* what, double factor, bool zero) {
  TORCH_CHECK((zero ? factor >= 0 : factor > 0) && factor <= 1, what, " multiplicative factor expected to be ",
              zero ? "between 0 and 1." : "greater than 0 and less or equal to 1.");
}
}  // namespace detail

TESSERA_SCHEDULE(ConstantLR, constant,
                 (explicit ConstantLR(Optimizer & optimizer, double factor = 1.0 / 3, int64_t total_iters = 5)),
                 (factor, double(total_iters)), detail::unit_share("Constant", factor, true))
TESSERA_SCHEDULE(LinearLR, linear,
                 (explicit LinearLR(Optimizer & optimizer, double start_factor = 1.0 / 3, double end_factor = 1,
                                    int64_t total_iters = 5)),
                 (start_factor, end_factor, double(total_iters)),
                 (detail::unit_share("Starting", start_factor, false), detail::unit_share("Ending", end_factor, true)))
TESSERA_SCHEDULE(ExponentialLR, exponential, (ExponentialLR(Optimizer & optimizer, double gamma)), (gamma), )
TESSERA_SCHEDULE(PolynomialLR, polynomial,
                 (explicit PolynomialLR(Optimizer & optimizer, int64_t total_iters = 5, double power = 1)),
                 (double(total_iters), power), )

// Times gamma at each milestone, as often as it is listed.
struct MultiStepLR : detail::ByFactors {
  MultiStepLR(Optimizer& optimizer, std::vector<int64_t> milestones, double gamma = 0.1)
      : ByFactors(
            optimizer,
            [=](double epoch) {
              return std::pow(gamma, std::count(milestones.begin(), milestones.end(), int64_t(epoch)));
            },
            [=](double epoch) {
              return std::pow(gamma, std::count_if(milestones.begin(), milestones.end(),
                                                   [=](int64_t m) { return double(m) <= epoch; }));
            }) {}
};

// The first rate (MultiplicativeLR: the last one) times a function of the epoch, one for all groups or one for each.
class LambdaLR : public EpochScheduler {
 public:
  using Function = std::function<double(int64_t)>;
  LambdaLR(Optimizer& optimizer, std::vector<Function> lr_lambdas, bool multiplied = false)
      : EpochScheduler(optimizer), functions_(std::move(lr_lambdas)), multiplied_(multiplied) {
    TORCH_CHECK(functions_.size() == base_lrs.size(), "Expected ", base_lrs.size(), " lr_lambdas, but got ",
                functions_.size());
    start();
  }
  LambdaLR(Optimizer& optimizer, Function lr_lambda)
      : LambdaLR(optimizer, std::vector<Function>(optimizer.param_groups().size(), std::move(lr_lambda))) {}

 protected:
  std::vector<double> begin() override { return multiplied_ ? get_current_lrs() : closed_form(); }
  std::vector<double> closed_form() override {
    std::vector<double> rates = multiplied_ ? get_current_lrs() : base_lrs;
    for (size_t i = 0; i < rates.size(); ++i) rates[i] *= functions_[i](epoch_);
    return rates;
  }

 private:
  std::vector<Function> functions_;
  bool multiplied_;
};
struct MultiplicativeLR : LambdaLR {
  MultiplicativeLR(Optimizer& optimizer, std::vector<Function> lr_lambdas)
      : LambdaLR(optimizer, std::move(lr_lambdas), true) {}
  MultiplicativeLR(Optimizer& optimizer, Function f)
      : MultiplicativeLR(optimizer, std::vector<Function>(optimizer.param_groups().size(), std::move(f))) {}
};

class CosineAnnealingLR : public EpochScheduler {
 public:
  CosineAnnealingLR(Optimizer& optimizer, int64_t T_max, double eta_min = 0)
      : EpochScheduler(optimizer), period_(double(T_max)), low_(eta_min) {}

 protected:
  std::vector<double> begin() override { return get_current_lrs(); }
  std::vector<double> get_lrs() override {
    const auto change = tessera::optim::schedules::cosine_change(double(epoch_), period_);
    std::vector<double> rates = get_current_lrs();
    for (size_t i = 0; i < rates.size(); ++i)
      rates[i] =
          change.rises ? rates[i] + (base_lrs[i] - low_) * change.weight : low_ + (rates[i] - low_) * change.weight;
    return rates;
  }
  std::vector<double> closed_form() override {
    const double weight = tessera::optim::schedules::cosine_weight(double(epoch_), period_);
    std::vector<double> rates = base_lrs;
    for (double& rate : rates) rate = low_ + (rate - low_) * weight;
    return rates;
  }

 private:
  double period_, low_;
};

// From the present rates to swa_lr in anneal_epochs, by "cos" or "linear", and there they stay.
class SWALR : public EpochScheduler {
 public:
  SWALR(Optimizer& optimizer, std::vector<double> swa_lr, int64_t anneal_epochs = 10,
        const std::string& anneal_strategy = "cos")
      : EpochScheduler(optimizer),
        targets_(std::move(swa_lr)),
        epochs_(anneal_epochs),
        cosine_(anneal_strategy == "cos") {
    TORCH_CHECK_VALUE(targets_.size() == base_lrs.size(), "Expected ", base_lrs.size(), " values of swa_lr, but got ",
                      targets_.size());
    TORCH_CHECK_VALUE(cosine_ || anneal_strategy == "linear",
                      "anneal_strategy must by one of 'cos' or 'linear', instead got ", anneal_strategy);
    TORCH_CHECK_VALUE(epochs_ >= 0, "anneal_epochs must be equal or greater than 0, got ", epochs_);
    start();
  }
  SWALR(Optimizer& optimizer, double swa_lr, int64_t anneal_epochs = 10, const std::string& anneal_strategy = "cos")
      : SWALR(optimizer, std::vector<double>(optimizer.param_groups().size(), swa_lr), anneal_epochs, anneal_strategy) {
  }

 protected:
  std::vector<double> begin() override { return get_lrs(); }
  // Where the way began comes from the present rate, which others may have changed.
  std::vector<double> get_lrs() override {
    const int64_t step = std::max<int64_t>(epoch_, epochs_ ? 0 : 1);
    const double before = weight(step - 1), share = weight(step);
    std::vector<double> rates = get_current_lrs();
    for (size_t i = 0; i < rates.size(); ++i) {
      const double from = before == 1 ? targets_[i] : (rates[i] - before * targets_[i]) / (1 - before);
      rates[i] = targets_[i] * share + from * (1 - share);
    }
    return rates;
  }
  std::vector<double> closed_form() override {
    const double share = weight(epoch_);
    std::vector<double> rates = base_lrs;
    for (size_t i = 0; i < rates.size(); ++i) rates[i] = targets_[i] * share + rates[i] * (1 - share);
    return rates;
  }

 private:
  double weight(int64_t step) const {
    return tessera::optim::schedules::averaging_weight(double(step), double(epochs_), cosine_);
  }
  std::vector<double> targets_;
  int64_t epochs_;
  bool cosine_;
};

class CosineAnnealingWarmRestarts : public EpochScheduler {
 public:
  CosineAnnealingWarmRestarts(Optimizer& optimizer, int64_t T_0, int64_t T_mult = 1, double eta_min = 0)
      : EpochScheduler(optimizer), place_{0, double(T_0)}, first_(double(T_0)), factor_(double(T_mult)), low_(eta_min) {
    TORCH_CHECK(T_0 > 0, "Expected positive integer T_0, but got ", T_0);
    TORCH_CHECK(T_mult >= 1, "Expected integer T_mult >= 1, but got ", T_mult);
    start();
  }
  using LRScheduler::step;
  // To a fraction of an epoch.
  void step(double epoch) {
    TORCH_CHECK(epoch >= 0, "Expected non-negative epoch, but got ", epoch);
    place_ = tessera::optim::schedules::restart_cycle(epoch, first_, factor_);
    epoch_ = int64_t(std::floor(epoch));
    set_optimizer_lrs(closed_form());
  }
  void restart(bool) override { step(0.0); }

 protected:
  std::vector<double> get_lrs() override {
    place_ = tessera::optim::schedules::next_in_cycle(place_.position, place_.length, factor_);
    return closed_form();
  }
  std::vector<double> closed_form() override {
    const double weight = tessera::optim::schedules::cosine_weight(place_.position, place_.length);
    std::vector<double> rates = base_lrs;
    for (double& rate : rates) rate = low_ + (rate - low_) * weight;
    return rates;
  }

 private:
  tessera::optim::schedules::Cycle place_;
  double first_, factor_, low_;
};

namespace detail {
struct WithMomentum : EpochScheduler {
  using EpochScheduler::EpochScheduler;

 protected:
  void set_momentum(double momentum) {
    for (OptimizerParamGroup& group : optimizer_.param_groups())
      if (double* m = group.options().momentum_or_beta()) *m = momentum;
  }
  void need_momentum() const {
    TORCH_CHECK(optimizer_.param_groups().at(0).options().momentum_or_beta(),
                "optimizer must support momentum or beta1 with `cycle_momentum` option enabled");
  }
};
}  // namespace detail

// Rates go up and down between two limits, the momentum the other way round; step() after every batch.
class CyclicLR : public detail::WithMomentum {
 public:
  enum Mode { triangular, triangular2, exp_range };
  CyclicLR(Optimizer& optimizer, double base_lr, double max_lr, int64_t step_size_up = 2000,
           std::optional<int64_t> step_size_down = std::nullopt, Mode mode = triangular, double gamma = 1,
           bool cycle_momentum = true, double base_momentum = 0.8, double max_momentum = 0.9)
      : WithMomentum(optimizer),
        low_(base_lr),
        high_(max_lr),
        total_(double(step_size_up + step_size_down.value_or(step_size_up))),
        rise_(double(step_size_up) / total_),
        gamma_(gamma),
        low_momentum_(base_momentum),
        high_momentum_(max_momentum),
        mode_(mode),
        momentum_(cycle_momentum) {
    if (momentum_) need_momentum();
    start();
  }

 protected:
  std::vector<double> closed_form() override {
    namespace s = tessera::optim::schedules;
    const auto at = s::triangle(double(epoch_), total_, rise_);
    const double scale = mode_ == exp_range     ? s::exponential_weight(double(epoch_), gamma_)
                         : mode_ == triangular2 ? s::halved_amplitude(double(at.cycle))
                                                : 1.0;
    if (momentum_) set_momentum(high_momentum_ - (high_momentum_ - low_momentum_) * at.height * scale);
    return std::vector<double>(base_lrs.size(), low_ + (high_ - low_) * at.height * scale);
  }

 private:
  double low_, high_, total_, rise_, gamma_, low_momentum_, high_momentum_;
  Mode mode_;
  bool momentum_;
};

// One cycle: up to max_lr in pct_start of the steps, then down to a small part of the first rate.
class OneCycleLR : public detail::WithMomentum {
 public:
  enum Anneal { cos, linear };
  OneCycleLR(Optimizer& optimizer, double max_lr, int64_t total_steps, double pct_start = 0.3, Anneal anneal = cos,
             bool cycle_momentum = true, double base_momentum = 0.85, double max_momentum = 0.95,
             double div_factor = 25, double final_div_factor = 1e4, bool three_phase = false)
      : WithMomentum(optimizer), total_(total_steps), anneal_(anneal), momentum_(cycle_momentum) {
    TORCH_CHECK(total_steps > 0, "Expected positive integer total_steps, but got ", total_steps);
    TORCH_CHECK(0 <= pct_start && pct_start <= 1, "Expected float between 0 and 1 pct_start, but got ", pct_start);
    if (momentum_) need_momentum();
    const double first = max_lr / div_factor, last = first / final_div_factor, rise = pct_start * double(total_steps);
    phases_ = {{rise - 1, first, max_lr, max_momentum, base_momentum}};
    if (three_phase) {
      phases_.push_back({2 * rise - 2, max_lr, first, base_momentum, max_momentum});
      phases_.push_back({double(total_steps) - 1, first, last, max_momentum, max_momentum});
    } else {
      phases_.push_back({double(total_steps) - 1, max_lr, last, base_momentum, max_momentum});
    }
    for (const Phase& p : phases_) ends_.push_back(p.end);
    for (OptimizerParamGroup& group : optimizer.param_groups()) group.options().initial_lr = first;
    start();
  }

 protected:
  std::vector<double> closed_form() override {
    namespace s = tessera::optim::schedules;
    TORCH_CHECK(epoch_ <= total_, "Tried to step ", epoch_, " times. The specified number of total steps is ", total_);
    const auto at = s::phase_of(double(epoch_), ends_);
    const Phase& p = phases_[size_t(at.number)];
    // a cosine is the share that is left, and counts from the end
    const bool cosine = anneal_ == cos;
    const double weight = cosine ? s::cosine_weight(at.passed, 1) : at.passed;
    const auto between = [&](double from, double to) {
      return cosine ? to + (from - to) * weight : from + (to - from) * weight;
    };
    if (momentum_) set_momentum(between(p.from_momentum, p.to_momentum));
    return std::vector<double>(base_lrs.size(), between(p.from, p.to));
  }

 private:
  struct Phase {
    double end, from, to, from_momentum, to_momentum;
  };
  int64_t total_;
  Anneal anneal_;
  bool momentum_;
  std::vector<Phase> phases_;
  std::vector<double> ends_;
};

// Several schedules of one optimizer: all at every step, or one after the other, each from its milestone on.
class ChainedScheduler : public EpochScheduler {
 public:
  ChainedScheduler(std::vector<std::shared_ptr<EpochScheduler>> schedulers)
      : EpochScheduler(first_of(schedulers)), members_(std::move(schedulers)) {}
  void restart(bool first) override {
    for (auto& member : members_) member->restart(first || member != members_[0]);
  }

 protected:
  static Optimizer& first_of(const std::vector<std::shared_ptr<EpochScheduler>>& all) {
    TORCH_CHECK(!all.empty(), "expected at least one scheduler, but got no scheduler.");
    for (const auto& member : all)
      TORCH_CHECK(&member->optimizer() == &all[0]->optimizer(),
                  "expected all schedulers to belong to the same optimizer");
    return all[0]->optimizer();
  }
  void advance() override {
    for (auto& member : members_) member->step();
  }
  std::vector<double> closed_form() override { return get_current_lrs(); }
  std::vector<std::shared_ptr<EpochScheduler>> members_;
};
class SequentialLR : public ChainedScheduler {
 public:
  SequentialLR(Optimizer& optimizer, std::vector<std::shared_ptr<EpochScheduler>> schedulers,
               std::vector<int64_t> milestones)
      : ChainedScheduler(std::move(schedulers)), milestones_(std::move(milestones)) {
    TORCH_CHECK(&first_of(members_) == &optimizer, "expected all schedulers to belong to the same optimizer");
    TORCH_CHECK(milestones_.size() + 1 == members_.size(), "expected one scheduler more than milestones, but got ",
                members_.size(), " schedulers and ", milestones_.size(), " milestones");
    set_optimizer_lrs(base_lrs);
    members_[0]->restart(true);
  }
  void restart(bool first) override {
    epoch_ = 0;
    members_[0]->restart(first);
  }

 protected:
  void advance() override {
    ++epoch_;
    const auto next = std::upper_bound(milestones_.begin(), milestones_.end(), epoch_);
    EpochScheduler& present = *members_[size_t(next - milestones_.begin())];
    if (std::find(milestones_.begin(), milestones_.end(), epoch_) == milestones_.end())
      present.step();
    else
      present.restart(false);
  }

 private:
  std::vector<int64_t> milestones_;
};

}  // namespace torch::optim
