#pragma once

#include "optim/optimizers/optimizer.h"

namespace tessera::optim {

struct AdamOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool amsgrad = false, maximize = false;
};
struct AdamWOptions : AdamOptions {
  AdamWOptions() { weight_decay = 1e-2; }
  AdamWOptions(AdamOptions o) : AdamOptions(o) {}
};

// Kingma and Ba 2015. ValueError for negative numbers and betas outside [0, 1).
class Adam : public Optimizer {
 public:
  explicit Adam(std::vector<Tensor> params, AdamOptions options = {});
  void add_group(std::vector<Tensor> params, AdamOptions options);
  void step() override;
  double lr(size_t group = 0) const override { return options_.at(group).lr; }
  void set_lr(double lr, size_t group = 0) override { options_.at(group).lr = lr; }

 protected:
  // A virtual function rather than a flag: a program with Adam does not hold AdamW's kernel.
  virtual void apply(TensorList params, TensorList grads, TensorList m, TensorList v, TensorList largest,
                     TensorList steps, const AdamOptions& o);

 private:
  std::vector<AdamOptions> options_;
};

// Adam with decoupled weight decay (Loshchilov and Hutter 2019).
class AdamW final : public Adam {
 public:
  explicit AdamW(std::vector<Tensor> params, AdamWOptions options = {}) : Adam(std::move(params), options) {}

 protected:
  void apply(TensorList params, TensorList grads, TensorList m, TensorList v, TensorList largest, TensorList steps,
             const AdamOptions& o) override;
};

}  // namespace tessera::optim
