#include "optim/optimizers/adam.h"

#include <algorithm>

#include "optim/optim_ops.h"

namespace tessera::optim {

Adam::Adam(std::vector<Tensor> params, AdamOptions options)
    : Optimizer({"step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"}) {
  add_group(std::move(params), options);
}

void Adam::add_group(std::vector<Tensor> params, AdamOptions options) {
  check_at_least_zero(options.lr, "learning rate");
  check_at_least_zero(options.eps, "epsilon value");
  TESSERA_CHECK_VALUE(options.beta1 >= 0 && options.beta1 < 1, "Invalid beta parameter at index 0: ", options.beta1);
  TESSERA_CHECK_VALUE(options.beta2 >= 0 && options.beta2 < 1, "Invalid beta parameter at index 1: ", options.beta2);
  check_at_least_zero(options.weight_decay, "weight_decay value");
  add_params(std::move(params));
  options_.push_back(options);
}

namespace {

Tensor zeros_like_parameter(const Tensor& p) {
  const Tensor t = empty_tensor(p.sizes(), preserved_strides(p), p.dtype(), p.device());
  std::fill_n(t.data<char>(), t.nbytes(), 0);  // dense: preserved_strides leaves no gaps
  return t;
}

}  // namespace

void Adam::apply(TensorList params, TensorList grads, TensorList m, TensorList v, TensorList largest, TensorList steps,
                 const AdamOptions& o) {
  _fused_adam_(params, grads, m, v, largest, steps, o.lr, o.beta1, o.beta2, o.weight_decay, o.eps, o.amsgrad,
               o.maximize);
}

void AdamW::apply(TensorList params, TensorList grads, TensorList m, TensorList v, TensorList largest, TensorList steps,
                  const AdamOptions& o) {
  _fused_adamw_(params, grads, m, v, largest, steps, o.lr, o.beta1, o.beta2, o.weight_decay, o.eps, o.amsgrad,
                o.maximize);
}

void Adam::step() {
  NoGradGuard no_grad;
  for (size_t i = 0; i < num_groups(); ++i) {
    const AdamOptions& o = options_[i];
    const Active now = active(i);
    if (now.params.empty()) continue;
    std::vector<Tensor> m, v, largest, steps;
    for (size_t k = 0; k < now.params.size(); ++k) {
      State& s = group(i).state[now.numbers[k]];
      if (!s[0].defined()) {
        s[0] = scalar_to_tensor(0, DType::kFloat32);
        s[1] = zeros_like_parameter(now.params[k]);
        s[2] = zeros_like_parameter(now.params[k]);
      }
      if (o.amsgrad && !s[3].defined()) s[3] = zeros_like_parameter(now.params[k]);
      *s[0].data<float>() += 1;
      steps.push_back(s[0]);
      m.push_back(s[1]);
      v.push_back(s[2]);
      if (o.amsgrad) largest.push_back(s[3]);
    }
    apply(now.params, now.grads, m, v, largest, steps, o);
  }
}

}  // namespace tessera::optim
