#include "optim/optimizers/sgd.h"
#include "tests/agreement/told.h"

namespace tessera::agreement {
namespace {

using namespace optim;

// From an optimizer and options to a step that is told the number of the epoch.
using Step = std::function<void(int)>;

template <class S, class... Args>
Step stepping(Args&&... args) {
  const auto schedule = std::make_shared<S>(std::forward<Args>(args)...);
  return [schedule](int) { schedule->step(); };
}

const std::map<std::string, std::function<Step(Optimizer&, Told&)>>& schedules() {
  static const std::map<std::string, std::function<Step(Optimizer&, Told&)>> all = {
      {"StepLR",
       [](Optimizer& o, Told& t) { return stepping<StepLR>(o, t.integer("step_size", 1), t.real("gamma", 0.1)); }},
      {"MultiStepLR",
       [](Optimizer& o, Told& t) {
         const IntVector at = t.integers("milestones", {});
         return stepping<MultiStepLR>(o, std::vector<int64_t>(at.begin(), at.end()), t.real("gamma", 0.1));
       }},
      {"ConstantLR",
       [](Optimizer& o, Told& t) {
         return stepping<ConstantLR>(o, t.real("factor", 1.0 / 3), t.integer("total_iters", 5));
       }},
      {"LinearLR",
       [](Optimizer& o, Told& t) {
         const double start = t.real("start_factor", 1.0 / 3), end = t.real("end_factor", 1);
         return stepping<LinearLR>(o, start, end, t.integer("total_iters", 5));
       }},
      {"ExponentialLR", [](Optimizer& o, Told& t) { return stepping<ExponentialLR>(o, t.real("gamma", 0.1)); }},
      {"PolynomialLR",
       [](Optimizer& o, Told& t) {
         return stepping<PolynomialLR>(o, t.integer("total_iters", 5), t.real("power", 1));
       }},
      {"LambdaLR",
       [](Optimizer& o, Told&) { return stepping<LambdaLR>(o, [](int64_t epoch) { return 1.0 / (1 + epoch); }); }},
      {"CosineAnnealingLR",
       [](Optimizer& o, Told& t) {
         return stepping<CosineAnnealingLR>(o, t.integer("T_max", 1), t.real("eta_min", 0));
       }},
      {"CosineAnnealingWarmRestarts",
       [](Optimizer& o, Told& t) {
         const int64_t first = t.integer("T_0", 1), factor = t.integer("T_mult", 1);
         return stepping<CosineAnnealingWarmRestarts>(o, first, factor, t.real("eta_min", 0));
       }},
      {"ReduceLROnPlateau",
       [](Optimizer& o, Told& t) -> Step {
         PlateauOptions p;
         p.larger_is_better = t.word("mode", "min") == "max";
         p.factor = t.real("factor", p.factor);
         p.patience = t.integer("patience", p.patience);
         p.threshold = t.real("threshold", p.threshold);
         p.relative_threshold = t.word("threshold_mode", "rel") == "rel";
         p.cooldown = t.integer("cooldown", p.cooldown);
         p.min_lr = t.real("min_lr", p.min_lr);
         p.eps = t.real("eps", p.eps);
         const auto schedule = std::make_shared<ReduceLROnPlateau>(o, p);
         return [schedule](int epoch) { schedule->step(1.0 + epoch % 3); };
       }},
  };
  return all;
}

}  // namespace

std::vector<double> rates(const std::string& schedule, Told& told, int steps) {
  SGD optimizer({empty_kernel(IntVector{1}, DType::kFloat32).requires_grad_()}, {.lr = told.real("lr", 0.7)});
  const Step step = schedules().at(schedule)(optimizer, told);
  std::vector<double> found = {optimizer.lr()};
  for (int epoch = 0; epoch < steps; ++epoch) {
    step(epoch);
    found.push_back(optimizer.lr());
  }
  return found;
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : schedules()) names.push_back(name);
  return names;
}

}  // namespace tessera::agreement
