#include "amp/grad_scaler.h"

#include <algorithm>

#include "amp/amp_ops.h"
#include "tensor/ops/api.h"

namespace tessera::amp {
namespace {

void check_growth(double f) {
  TESSERA_CHECK_VALUE(f > 1, "GradScaler: growth_factor must be greater than 1, but got ", f);
}
void check_backoff(double f) {
  TESSERA_CHECK_VALUE(f < 1, "GradScaler: backoff_factor must be less than 1, but got ", f);
}

Tensor number(double value, DType dtype, Device device) {
  return full(SymIntList(), Scalar(value), dtype, {}, device, {});
}

}  // namespace

GradScaler::GradScaler(GradScalerOptions options) : options_(options) {
  check_growth(options.growth_factor);
  check_backoff(options.backoff_factor);
}

void GradScaler::set_growth_factor(double factor) {
  check_growth(factor);
  options_.growth_factor = factor;
}
void GradScaler::set_backoff_factor(double factor) {
  check_backoff(factor);
  options_.backoff_factor = factor;
}

Tensor GradScaler::scale(const Tensor& output) {
  if (!options_.enabled) return output;
  if (!scale_.defined()) {
    scale_ = number(options_.init_scale, DType::kFloat32, output.device());
    growth_tracker_ = number(static_cast<double>(first_tracker_), DType::kInt32, output.device());
  }
  return mul(output, to(scale_, output.device(), DType::kFloat32));
}

GradScaler::PerOptimizer& GradScaler::begin(optim::Optimizer& optimizer, const char* what) {
  TESSERA_CHECK(scale_.defined(), "GradScaler.", what, "(): there is no scale yet: call scale(loss) before backward()");
  PerOptimizer& own = optimizers_[&optimizer];
  TESSERA_CHECK(own.stage != Stage::kStepped, "GradScaler.", what,
                "(): this optimizer has stepped since the last update()");
  return own;
}

void GradScaler::unscale_gradients(optim::Optimizer& optimizer, PerOptimizer* own) {
  const NoGradGuard no_grad;
  std::vector<Device> devices;
  std::vector<std::vector<Tensor>> grads;
  for (size_t g = 0; g < optimizer.num_groups(); ++g)
    for (const Tensor& p : optimizer.params(g)) {
      const Tensor grad = p.grad();
      if (!grad.defined()) continue;
      TESSERA_CHECK_VALUE(grad.dtype() != DType::kFloat16,
                          "GradScaler: gradients in float16 cannot be unscaled; keep the parameters in float32");
      const size_t k = static_cast<size_t>(std::ranges::find(devices, grad.device()) - devices.begin());
      if (k == devices.size()) devices.push_back(grad.device()), grads.emplace_back();
      grads[k].push_back(grad);
    }
  const Tensor inverse = to(reciprocal(to(scale_, DType::kFloat64)), DType::kFloat32);
  for (size_t k = 0; k < devices.size(); ++k) {
    own->found_inf.push_back(number(0, DType::kFloat32, devices[k]));
    _amp_foreach_non_finite_check_and_unscale_(grads[k], own->found_inf.back(),
                                               to(inverse, devices[k], DType::kFloat32));
  }
  own->stage = Stage::kUnscaled;
}

void GradScaler::unscale_(optim::Optimizer& optimizer) {
  if (!options_.enabled) return;
  PerOptimizer& own = begin(optimizer, "unscale_");
  TESSERA_CHECK(own.stage == Stage::kReady,
                "GradScaler.unscale_(): this optimizer's gradients are unscaled since the last update()");
  unscale_gradients(optimizer, &own);
}

bool GradScaler::step(optim::Optimizer& optimizer) {
  if (!options_.enabled) {
    optimizer.step();
    return true;
  }
  PerOptimizer& own = begin(optimizer, "step");
  if (own.stage == Stage::kReady) unscale_gradients(optimizer, &own);
  TESSERA_CHECK(!own.found_inf.empty(), "GradScaler.step(): no parameter of the optimizer has a gradient");
  bool finite = true;
  for (const Tensor& f : own.found_inf) finite &= f.item_scalar().to_double() == 0;
  if (finite) optimizer.step();
  own.stage = Stage::kStepped;
  return finite;
}

void GradScaler::update(std::optional<double> new_scale) {
  if (!options_.enabled) return;
  TESSERA_CHECK(scale_.defined(), "GradScaler.update(): there is no scale yet: call scale(loss) before");
  if (new_scale) {
    fill_(scale_, Scalar(*new_scale));
  } else {
    Tensor found;
    for (const auto& [optimizer, own] : optimizers_)
      for (const Tensor& f : own.found_inf) {
        const Tensor here = to(f, scale_.device(), DType::kFloat32);
        found = found.defined() ? add(found, here) : here;
      }
    TESSERA_CHECK(found.defined(), "GradScaler.update(): no optimizer has stepped or been unscaled since the last one");
    _amp_update_scale_(scale_, growth_tracker_, found, options_.growth_factor, options_.backoff_factor,
                       options_.growth_interval);
  }
  optimizers_.clear();
}

double GradScaler::get_scale() const {
  if (!options_.enabled) return 1;
  return scale_.defined() ? scale_.item_scalar().to_double() : options_.init_scale;
}

GradScaler::State GradScaler::state() const {
  return {get_scale(), options_.growth_factor, options_.backoff_factor, options_.growth_interval,
          growth_tracker_.defined() ? growth_tracker_.item_scalar().to_int() : first_tracker_};
}
void GradScaler::load_state(const State& state) {
  options_.init_scale = state.scale;
  options_.growth_factor = state.growth_factor;
  options_.backoff_factor = state.backoff_factor;
  options_.growth_interval = state.growth_interval;
  first_tracker_ = state.growth_tracker;
  if (!scale_.defined()) return;
  fill_(scale_, Scalar(state.scale));
  fill_(growth_tracker_, Scalar(state.growth_tracker));
}

}  // namespace tessera::amp
