// Learning rates as functions of the epoch: call step() after the optimizer's steps of each epoch.
#pragma once

#include <vector>

#include "optim/optimizers/optimizer.h"

namespace tessera::optim {

class LRScheduler {
 public:
  virtual ~LRScheduler() = default;
  void step();
  int64_t last_epoch() const { return last_epoch_; }
  std::vector<double> last_lr() const;

 protected:
  // The optimizer must outlive its scheduler.
  explicit LRScheduler(Optimizer& optimizer);
  // From the present rate and the one at the start to that of last_epoch().
  virtual double next(double lr, double base) const = 0;

 private:
  Optimizer& optimizer_;
  std::vector<double> base_;
  int64_t last_epoch_ = 0;
};

// Times gamma every step_size epochs. ValueError for a step_size below 1.
class StepLR final : public LRScheduler {
 public:
  StepLR(Optimizer& optimizer, int64_t step_size, double gamma = 0.1);
 protected:
  double next(double lr, double base) const override;
 private:
  int64_t step_size_;
  double gamma_;
};

// eta_min + (base - eta_min) (1 + cos(pi epoch / t_max)) / 2 (Loshchilov and Hutter 2016, without restarts), computed from the present rate. ValueError for a t_max below 1.
class CosineAnnealingLR final : public LRScheduler {
 public:
  CosineAnnealingLR(Optimizer& optimizer, int64_t t_max, double eta_min = 0);
 protected:
  double next(double lr, double base) const override;
 private:
  int64_t t_max_;
  double eta_min_;
};

}  // namespace tessera::optim
