// Scaling of the loss, so that small gradients do not vanish in float16:
//
//   amp::GradScaler scaler({.device = DeviceType::kCUDA});
//   scaler.scale(loss).backward();
//   scaler.step(optimizer);      // left out where a gradient is infinite or NaN
//   scaler.update();
#pragma once

#include <map>
#include <optional>

#include "optim/optimizers/optimizer.h"

namespace tessera::amp {

struct GradScalerOptions {
  DeviceType device = DeviceType::kCUDA;
  double init_scale = 65536, growth_factor = 2, backoff_factor = 0.5;
  int64_t growth_interval = 2000;
  bool enabled = true;
};

class GradScaler {
 public:
  // ValueError unless growth_factor > 1 and backoff_factor < 1.
  explicit GradScaler(GradScalerOptions options = {});

  Tensor scale(const Tensor& output);
  // Divides the gradients of an optimizer's parameters by the scale, once between two updates (Error).
  void unscale_(optim::Optimizer& optimizer);
  // Unscales, where that was not done, and steps if all gradients are finite; whether it did.
  bool step(optim::Optimizer& optimizer);
  // Shrinks the scale after a step with infinite gradients, grows it after growth_interval steps without; or sets it.
  // Error if no optimizer's gradients were looked at.
  void update(std::optional<double> new_scale = {});

  bool is_enabled() const { return options_.enabled; }
  double get_scale() const;  // waits for the device
  const GradScalerOptions& options() const { return options_; }
  void set_growth_factor(double factor);
  void set_backoff_factor(double factor);
  void set_growth_interval(int64_t interval) { options_.growth_interval = interval; }

  // What Python's state_dict() holds.
  struct State {
    double scale, growth_factor, backoff_factor;
    int64_t growth_interval, growth_tracker;
  };
  State state() const;
  void load_state(const State& state);

 private:
  enum class Stage { kReady, kUnscaled, kStepped };
  struct PerOptimizer {
    Stage stage = Stage::kReady;
    std::vector<Tensor> found_inf;  // one for each device
  };
  PerOptimizer& begin(optim::Optimizer& optimizer, const char* what);
  void unscale_gradients(optim::Optimizer& optimizer, PerOptimizer* own);

  GradScalerOptions options_;
  int64_t first_tracker_ = 0;
  Tensor scale_, growth_tracker_;                               // on the device, from the first scale() on
  std::map<const optim::Optimizer*, PerOptimizer> optimizers_;  // since the last update
};

}  // namespace tessera::amp
