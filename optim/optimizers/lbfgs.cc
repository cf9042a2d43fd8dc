#include "optim/optimizers/lbfgs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "optim/optimizers/optimizer.h"
#include "tensor/ops/api.h"

namespace tessera::optim {
namespace {

double number(const Tensor& t) { return t.item_scalar().to_double(); }
double largest(const Tensor& t) { return number(t.abs().max()); }

template <class T>
void drop_oldest(std::vector<T>* list, size_t most) {
  if (list->size() > most) list->erase(list->begin(), list->end() - static_cast<std::ptrdiff_t>(most));
}

}  // namespace

LBFGS::LBFGS(std::vector<Tensor> params, LBFGSOptions options) : params_(std::move(params)), options_(options) {
  TESSERA_CHECK_VALUE(!params_.empty(), "optimizer got an empty parameter list");
  for (const Tensor& p : params_) TESSERA_CHECK_VALUE(p.is_leaf(), "can't optimize a non-leaf Tensor");
  check_at_least_zero(options_.lr, "learning rate");
  if (options_.max_eval < 0) options_.max_eval = options_.max_iter * 5 / 4;
}

LBFGS::Here LBFGS::evaluate(const std::function<double()>& closure) {
  ++evaluations_;
  double loss = 0;
  {
    NoGradGuard with_gradients(true);
    loss = closure();
  }
  std::vector<Tensor> parts;
  for (const Tensor& p : params_)
    parts.push_back(p.grad().defined() ? p.grad().reshape({-1}) : zeros_like(p).reshape({-1}));
  return {loss, cat(parts, 0)};
}

void LBFGS::move(double distance) {
  int64_t at = 0;
  for (const Tensor& p : params_) {
    p.add_(way_.narrow(0, at, p.numel()).view_as(p), distance);
    at += p.numel();
  }
}

// The way that was last gone joins the history, and there is a new direction.
void LBFGS::turn(const Tensor& gradient) {
  if (iterations_ > 1) {
    const Tensor change = gradient.sub(before_), step = way_.mul(distance_);
    const double curvature = number(dot(change, step));
    if (curvature > 1e-10) {
      changes_.push_back(change);
      steps_.push_back(step);
      weights_.push_back(1 / curvature);
      scale_ = curvature / number(dot(change, change));
      const auto most = static_cast<size_t>(options_.history_size);
      drop_oldest(&changes_, most);
      drop_oldest(&steps_, most);
      drop_oldest(&weights_, most);
    }
  }
  before_ = gradient;
  way_ = lbfgs::direction(gradient, {changes_, steps_, weights_}, scale_).vector;
}

LBFGS::Here LBFGS::search(const std::function<double()>& closure, const Here& here, double slope) {
  std::vector<Tensor> values;
  for (const Tensor& p : params_) values.push_back(p.clone());
  const auto at = [&](double distance) {
    move(distance);
    Here there = evaluate(closure);
    for (size_t i = 0; i < params_.size(); ++i) params_[i].copy_(values[i]);
    return std::pair(there.loss, there.gradient);
  };
  const lbfgs::Found found = lbfgs::strong_wolfe(at, way_, {0, here.loss, slope, here.gradient}, distance_);
  distance_ = found.trial.at;
  move(distance_);
  return {found.trial.value, found.trial.gradient};
}

double LBFGS::step(const std::function<double()>& closure) {
  NoGradGuard no_grad;
  const int evaluated_before = evaluations_;
  Here here = evaluate(closure);
  const double first = here.loss;
  for (int left = options_.max_iter; left-- > 0;) {
    if (largest(here.gradient) <= options_.tolerance_grad) break;
    ++iterations_;
    turn(here.gradient);
    distance_ = options_.lr;
    if (iterations_ == 1) distance_ *= std::min(1.0, 1 / number(here.gradient.abs().sum()));
    const double slope = number(dot(here.gradient, way_));
    if (slope > -options_.tolerance_change) break;
    const double loss_before = here.loss;
    if (options_.strong_wolfe) {
      here = search(closure, here, slope);
    } else {
      move(distance_);
      if (left > 0) here = evaluate(closure);
    }
    if (evaluations_ - evaluated_before >= options_.max_eval ||
        largest(way_) * std::abs(distance_) <= options_.tolerance_change ||
        std::abs(here.loss - loss_before) < options_.tolerance_change)
      break;
  }
  return first;
}

}  // namespace tessera::optim
