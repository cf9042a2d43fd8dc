#include "optim/optimizers/sgd.h"

#include "optim/optim_ops.h"

namespace tessera::optim {

SGD::SGD(std::vector<Tensor> params, SGDOptions options) : Optimizer({"momentum_buffer", nullptr, nullptr, nullptr}) { add_group(std::move(params), options); }

void SGD::add_group(std::vector<Tensor> params, SGDOptions options) {
  check_at_least_zero(options.lr, "learning rate");
  check_at_least_zero(options.momentum, "momentum value");
  check_at_least_zero(options.weight_decay, "weight_decay value");
  TESSERA_CHECK_VALUE(!options.nesterov || (options.momentum > 0 && options.dampening == 0), "Nesterov momentum requires a momentum and zero dampening");
  add_params(std::move(params));
  options_.push_back(options);
}

void SGD::step() {
  NoGradGuard no_grad;
  for (size_t i = 0; i < num_groups(); ++i) {
    const SGDOptions& o = options_[i];
    const Active all = active(i);
    // A first step copies the gradient into the buffer: parameters that get their first gradient now go by themselves.
    for (bool first : {true, false}) {
      std::vector<Tensor> params, grads, buffers;
      for (size_t k = 0; k < all.params.size(); ++k) {
        Tensor& buffer = group(i).state[all.numbers[k]][0];
        if (o.momentum != 0 && first == buffer.defined()) continue;
        if (o.momentum == 0 && !first) continue;
        params.push_back(all.params[k]);
        grads.push_back(all.grads[k]);
        if (o.momentum != 0) buffers.push_back(first ? empty_tensor(all.grads[k].sizes(), preserved_strides(all.grads[k]), all.grads[k].dtype(), all.grads[k].device()) : buffer);
      }
      if (params.empty()) continue;
      _fused_sgd_(params, grads, buffers, o.weight_decay, o.momentum, o.lr, o.dampening, o.nesterov, o.maximize, first && o.momentum != 0);
      if (!first || o.momentum == 0) continue;
      for (size_t k = 0, b = 0; k < all.params.size(); ++k) {
        Tensor& buffer = group(i).state[all.numbers[k]][0];
        if (!buffer.defined()) buffer = buffers[b++];
      }
      if (params.size() == all.params.size()) break;  // none is left for a later step
    }
  }
}

}  // namespace tessera::optim
