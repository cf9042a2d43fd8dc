#include "optim/optimizers/sgd.h"

#include "optim/optim_ops.h"

namespace tessera::optim {

SGD::SGD(std::vector<Tensor> params, SGDOptions options) : Optimizer({"momentum_buffer", nullptr, nullptr, nullptr}) {
  add_group(std::move(params), options);
}

void SGD::add_group(std::vector<Tensor> params, SGDOptions options) {
  check_at_least_zero(options.lr, "learning rate");
  check_at_least_zero(options.momentum, "momentum value");
  check_at_least_zero(options.weight_decay, "weight_decay value");
  TESSERA_CHECK_VALUE(!options.nesterov || (options.momentum > 0 && options.dampening == 0),
                      "Nesterov momentum requires a momentum and zero dampening");
  add_params(std::move(params));
  options_.push_back(options);
}

namespace {
struct Lists {
  std::vector<Tensor> params, grads, buffers;
};
}  // namespace

void SGD::step() {
  NoGradGuard no_grad;
  for (size_t i = 0; i < num_groups(); ++i) {
    const SGDOptions& o = options_[i];
    const Active all = active(i);
    // The first step copies the gradient into the buffer: parameters whose first gradient came now go by themselves.
    Lists fresh, known;
    for (size_t k = 0; k < all.params.size(); ++k) {
      Tensor& buffer = group(i).state[all.numbers[k]][0];
      const bool first = o.momentum != 0 && !buffer.defined();
      if (first)
        buffer = empty_tensor(all.params[k].sizes(), preserved_strides(all.params[k]), all.params[k].dtype(),
                              all.params[k].device());
      Lists& lists = first ? fresh : known;
      lists.params.push_back(all.params[k]);
      lists.grads.push_back(all.grads[k]);
      if (o.momentum != 0) lists.buffers.push_back(buffer);
    }
    for (const Lists* l : {&fresh, &known})
      if (!l->params.empty())
        _fused_sgd_(l->params, l->grads, l->buffers, o.weight_decay, o.momentum, o.lr, o.dampening, o.nesterov,
                    o.maximize, l == &fresh);
  }
}

}  // namespace tessera::optim
