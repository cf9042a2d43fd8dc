#pragma once

#include <functional>
#include <vector>

#include "optim/lbfgs/lbfgs.h"

namespace tessera::optim {

struct LBFGSOptions {
  double lr = 1;
  int max_iter = 20;
  int max_eval = -1;  // 5/4 of max_iter
  double tolerance_grad = 1e-7, tolerance_change = 1e-9;
  int history_size = 100;
  bool strong_wolfe = false;  // else each step has the length lr
};

// Limited-memory BFGS (optim/lbfgs). No Optimizer: its step evaluates a closure, several times, and its history belongs
// to all parameters together.
class LBFGS {
 public:
  // ValueError for no parameters, for one that is no leaf, and for a negative rate.
  explicit LBFGS(std::vector<Tensor> params, LBFGSOptions options = {});
  // `closure` sets the gradients of the parameters and returns the loss. Gives the first one, and makes up to max_iter
  // iterations.
  double step(const std::function<double()>& closure);
  // How often closures have been called.
  int evaluations() const { return evaluations_; }

 private:
  struct Here {
    double loss;
    Tensor gradient;  // of all parameters
  };
  Here evaluate(const std::function<double()>& closure);
  void move(double distance);
  void turn(const Tensor& gradient);
  Here search(const std::function<double()>& closure, const Here& here, double slope);

  std::vector<Tensor> params_;
  LBFGSOptions options_;
  int evaluations_ = 0;
  int iterations_ = 0;
  Tensor way_, before_;  // the present direction, the gradient where it began
  double distance_ = 0;
  std::vector<Tensor> changes_, steps_;
  std::vector<double> weights_;
  double scale_ = 1;
};

}  // namespace tessera::optim
