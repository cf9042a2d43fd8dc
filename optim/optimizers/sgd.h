#pragma once

#include "optim/optimizers/optimizer.h"

namespace tessera::optim {

struct SGDOptions {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false, maximize = false;
};

// Stochastic gradient descent, with the momentum of Sutskever et al. 2013. ValueError for negative numbers, and for
// Nesterov without momentum or with dampening.
class SGD final : public Optimizer {
 public:
  explicit SGD(std::vector<Tensor> params, SGDOptions options = {});
  void add_group(std::vector<Tensor> params, SGDOptions options);
  void step() override;
  double lr(size_t group = 0) const override { return options_.at(group).lr; }
  void set_lr(double lr, size_t group = 0) override { options_.at(group).lr = lr; }

 private:
  std::vector<SGDOptions> options_;
};

}  // namespace tessera::optim
