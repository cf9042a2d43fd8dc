// Learning rates as functions of the epoch: call step() after the optimizer's steps of each epoch. The formulas, and
// what the parameters mean, are in optim/schedules.
#pragma once

#include <functional>
#include <limits>
#include <vector>

#include "optim/optimizers/optimizer.h"
#include "optim/schedules/schedules.h"

namespace tessera::optim {

class LRScheduler {
 public:
  // From the present rate and the first one to the rate of an epoch.
  using Formula = std::function<double(double rate, double base, double epoch)>;
  // Sets the rates of epoch 0. The optimizer must outlive its scheduler.
  LRScheduler(Optimizer& optimizer, Formula formula);

  void step();
  int64_t last_epoch() const { return last_epoch_; }
  std::vector<double> last_lr() const;

 private:
  void set_rates();

  Optimizer& optimizer_;
  Formula formula_;
  std::vector<double> base_;
  int64_t last_epoch_ = 0;
};

// Schedules with the names and defaults of the Python classes. ValueError for parameters outside of what is said there.
struct StepLR : LRScheduler {
  StepLR(Optimizer& optimizer, int64_t step_size, double gamma = 0.1);
};
struct MultiStepLR : LRScheduler {
  MultiStepLR(Optimizer& optimizer, std::vector<int64_t> milestones, double gamma = 0.1);
};
struct ConstantLR : LRScheduler {
  explicit ConstantLR(Optimizer& optimizer, double factor = 1.0 / 3, int64_t total_iters = 5);
};
struct LinearLR : LRScheduler {
  explicit LinearLR(Optimizer& optimizer, double start_factor = 1.0 / 3, double end_factor = 1,
                    int64_t total_iters = 5);
};
struct ExponentialLR : LRScheduler {
  ExponentialLR(Optimizer& optimizer, double gamma);
};
struct PolynomialLR : LRScheduler {
  explicit PolynomialLR(Optimizer& optimizer, int64_t total_iters = 5, double power = 1);
};
struct LambdaLR : LRScheduler {
  LambdaLR(Optimizer& optimizer, std::function<double(int64_t)> lr_lambda);
};
struct CosineAnnealingLR : LRScheduler {
  CosineAnnealingLR(Optimizer& optimizer, int64_t t_max, double eta_min = 0);
};
struct CosineAnnealingWarmRestarts : LRScheduler {
  CosineAnnealingWarmRestarts(Optimizer& optimizer, int64_t t_0, int64_t t_mult = 1, double eta_min = 0);
};

// Times factor when the metric given to step() has not improved for more than `patience` epochs.
struct PlateauOptions {
  double factor = 0.1;
  int64_t patience = 10;
  double threshold = 1e-4;
  bool larger_is_better = false, relative_threshold = true;
  int64_t cooldown = 0;
  double min_lr = 0, eps = 1e-8;
};
class ReduceLROnPlateau {
 public:
  explicit ReduceLROnPlateau(Optimizer& optimizer, const PlateauOptions& options = {});
  void step(double metric);

 private:
  Optimizer& optimizer_;
  PlateauOptions options_;
  double best_;
  schedules::Plateau state_{};
};

}  // namespace tessera::optim
