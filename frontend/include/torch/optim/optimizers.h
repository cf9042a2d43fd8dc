// The optimizers: the same steps, defaults and checks as Python's. A list of fields says what the options are and what
// a parameter's state is; `check` what values are refused; `update` is the step.
#pragma once

#include <torch/optim/optimizer.h>

#include <cmath>

#include "optim/lbfgs/lbfgs.h"

namespace torch::optim {
namespace detail {
using T = Tensor;
using Pair = std::tuple<double, double>;
using Triple = std::tuple<double, double, double>;
inline T like(const T& p) { return at::zeros_like(p); }
inline T sparse_like(const T& grad, const T& values) {
  return at::_sparse_coo_tensor_unsafe(grad._indices(), values, grad.sizes(), values.options().layout(kSparse), true);
}
// A number for each element, and for both parts of a complex one.
inline T filled(const T& p, double v) {
  return at::full_like(p, p.is_complex() ? Scalar(std::complex<double>(v, v)) : Scalar(v));
}
}  // namespace detail

#define TESSERA_OPTIONS(Name, rate)                                                                                  \
  struct Name##Options : OptimizerCloneableOptions<Name##Options> {                                                  \
    Name##Options(double lr = rate) : lr_(lr) {}                                                                     \
    TESSERA_OPTIM_FIELDS(TESSERA_##Name##_OPTIONS)                                                                   \
    auto values() const { return std::tuple{TESSERA_##Name##_OPTIONS(TESSERA_OPTIM_VALUE, TESSERA_OPTIM_VALUE) 0}; } \
    bool operator==(const Name##Options& o) const { return values() == o.values(); }                                 \
    void check() const override
#define TESSERA_OPTIM_VALUE(T, name, ...) name##_,
#define TESSERA_STATE(Name)                                                  \
  struct Name##ParamState : OptimizerCloneableParamState<Name##ParamState> { \
    TESSERA_OPTIM_FIELDS(TESSERA_##Name##_STATE)                             \
  };
#define TESSERA_OPTIMIZER(Name)                                        \
  struct Name : detail::Typed<Name, Name##Options, Name##ParamState> { \
    using Typed::Typed;

// --- SGD: p -= lr b, b = momentum b + (1 - dampening) g ---
#define TESSERA_SGD_OPTIONS(X, E) \
  X(double, lr, 1e-3)             \
  X(double, momentum, 0)          \
  X(double, dampening, 0) X(double, weight_decay, 0) X(bool, nesterov, false) E(bool, maximize, false)
TESSERA_OPTIONS(SGD, 1e-3) {
  detail::at_least_zero("learning rate", lr());
  detail::at_least_zero("momentum value", momentum());
  detail::at_least_zero("weight_decay value", weight_decay());
  TORCH_CHECK(!nesterov() || (momentum() > 0 && dampening() == 0),
              "Nesterov momentum requires a momentum and zero dampening");
}
};
#define TESSERA_SGD_STATE(X, E) X(Tensor, momentum_buffer, {})
TESSERA_STATE(SGD)
TESSERA_OPTIMIZER(SGD)
void step_group(OptimizerParamGroup& group, const SGDOptions& o) {
  using detail::T;
  std::vector<T> p[2], g[2], b[2];  // without and with a buffer
  for (const Tensor& param : group.params()) {
    const T grad = param.grad();
    if (!grad.defined()) continue;
    if (!detail::is_dense(grad)) {
      single(param, grad, o);
      continue;
    }
    bool first = false;
    if (o.momentum() != 0) {
      SGDParamState& s = state_of(param, [](SGDParamState&) {});
      first = !s.momentum_buffer().defined();
      if (first) s.momentum_buffer(at::empty_like(grad));
      b[!first].push_back(detail::real_view(s.momentum_buffer()));
    }
    p[!first].push_back(detail::real_view(param));
    g[!first].push_back(detail::real_view(grad));
  }
  for (int k = 0; k < 2; ++k)
    if (!p[k].empty())
      at::_fused_sgd_(p[k], g[k], b[k], o.weight_decay(), o.momentum(), o.lr(), o.dampening(), o.nesterov(),
                      o.maximize(), k == 0 && o.momentum() != 0);
}

private:
void single(const Tensor& param, detail::T grad, const SGDOptions& o) {
  if (o.maximize()) grad = grad.neg();
  if (o.weight_decay() != 0) grad = grad.add(param, o.weight_decay());
  if (o.momentum() != 0) {
    SGDParamState& s = state_of(param, [](SGDParamState&) {});
    if (s.momentum_buffer().defined())
      s.momentum_buffer().mul_(o.momentum()).add_(grad, 1 - o.dampening());
    else
      s.momentum_buffer(grad.clone());
    grad = o.nesterov() ? grad.add(s.momentum_buffer(), o.momentum()) : s.momentum_buffer();
  }
  param.add_(grad, -o.lr());
}
}
;

// --- Adam and AdamW: p -= lr m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps) ---
#define TESSERA_Adam_OPTIONS(X, E)     \
  X(double, lr, 1e-3)                  \
  X(detail::Pair, betas, {0.9, 0.999}) \
  X(double, eps, 1e-8) X(double, weight_decay, 0) X(bool, amsgrad, false) E(bool, maximize, false)
#define TESSERA_ADAM_CHECK                                     \
  detail::at_least_zero("learning rate", lr());                \
  detail::at_least_zero("epsilon value", eps());               \
  detail::at_least_zero("weight_decay value", weight_decay()); \
  detail::check_betas(betas());
TESSERA_OPTIONS(Adam, 1e-3) { TESSERA_ADAM_CHECK }
}
;
#define TESSERA_AdamW_OPTIONS(X, E)    \
  X(double, lr, 1e-3)                  \
  X(detail::Pair, betas, {0.9, 0.999}) \
  X(double, eps, 1e-8) X(double, weight_decay, 1e-2) X(bool, amsgrad, false) E(bool, maximize, false)
TESSERA_OPTIONS(AdamW, 1e-3) { TESSERA_ADAM_CHECK }
}
;
#define TESSERA_Adam_STATE(X, E) \
  X(int64_t, step, 0) X(Tensor, exp_avg, {}) X(Tensor, exp_avg_sq, {}) X(Tensor, max_exp_avg_sq, {})
#define TESSERA_AdamW_STATE TESSERA_Adam_STATE
TESSERA_STATE(Adam)
TESSERA_STATE(AdamW)

namespace detail {
template <bool kDecoupled, class D, class O, class S>
struct AdamLike : Typed<D, O, S> {
  using Typed<D, O, S>::Typed;
  void step_group(OptimizerParamGroup& group, const O& o) {
    std::vector<T> p, g, m, v, largest, steps;
    for (const Tensor& param : group.params()) {
      const T grad = param.grad();
      if (!grad.defined()) continue;
      TORCH_CHECK(is_dense(grad), "Adam does not support sparse gradients, please consider SparseAdam instead");
      S& s = this->state_of(param, [&](S& made) {
        made.exp_avg(like(param));
        made.exp_avg_sq(like(param));
      });
      s.step(s.step() + 1);
      if (o.amsgrad()) {
        if (!s.max_exp_avg_sq().defined()) s.max_exp_avg_sq(like(param));
        largest.push_back(real_view(s.max_exp_avg_sq()));
      }
      p.push_back(real_view(param));
      g.push_back(real_view(grad));
      m.push_back(real_view(s.exp_avg()));
      v.push_back(real_view(s.exp_avg_sq()));
      steps.push_back(tessera::scalar_to_tensor(double(s.step()), tessera::DType::kFloat32));
    }
    if (p.empty()) return;
    const auto [beta1, beta2] = o.betas();
    if constexpr (kDecoupled)
      at::_fused_adamw_(p, g, m, v, largest, steps, o.lr(), beta1, beta2, o.weight_decay(), o.eps(), o.amsgrad(),
                        o.maximize());
    else
      at::_fused_adam_(p, g, m, v, largest, steps, o.lr(), beta1, beta2, o.weight_decay(), o.eps(), o.amsgrad(),
                       o.maximize());
  }
};
}  // namespace detail
struct Adam : detail::AdamLike<false, Adam, AdamOptions, AdamParamState> {
  using AdamLike::AdamLike;
};
struct AdamW : detail::AdamLike<true, AdamW, AdamWOptions, AdamWParamState> {
  using AdamLike::AdamLike;
};

// --- Adagrad: s += g^2, p -= lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + eps); the state exists from the beginning ---
#define TESSERA_Adagrad_OPTIONS(X, E) \
  X(double, lr, 1e-2)                 \
  X(double, lr_decay, 0)              \
  X(double, weight_decay, 0) X(double, initial_accumulator_value, 0) X(double, eps, 1e-10) E(bool, maximize, false)
TESSERA_OPTIONS(Adagrad, 1e-2) {
  detail::at_least_zero("learning rate", lr());
  detail::at_least_zero("lr_decay value", lr_decay());
  detail::at_least_zero("weight_decay value", weight_decay());
  detail::at_least_zero("initial_accumulator_value value", initial_accumulator_value());
  detail::at_least_zero("epsilon value", eps());
}
}
;
#define TESSERA_Adagrad_STATE(X, E) X(Tensor, sum, {}) X(int64_t, step, 0)
TESSERA_STATE(Adagrad)
TESSERA_OPTIMIZER(Adagrad)
static constexpr bool kSparse = true, kOwnDecay = true;
static void prepare(Typed& all) {
  for (OptimizerParamGroup& group : all.param_groups())
    for (const Tensor& p : group.params())
      all.state_of(p, [&](AdagradParamState& s) { start(p, s, static_cast<const AdagradOptions&>(group.options())); });
}
static void start(const detail::T& p, AdagradParamState& s, const AdagradOptions& o) {
  s.sum(detail::filled(p, o.initial_accumulator_value()));
}
static void update(const detail::T& param, detail::T grad, AdagradParamState& s, const AdagradOptions& o) {
  using detail::T;
  const double rate = o.lr() / (1 + (s.step() - 1) * o.lr_decay());
  if (!detail::is_dense(grad)) {
    TORCH_CHECK(o.weight_decay() == 0, "weight_decay option is not compatible with sparse gradients");
    grad = grad.coalesce();
    const T values = grad._values(), sum = s.sum();
    sum.add_(detail::sparse_like(grad, values.mul(values)));
    const T std = sum.sparse_mask(grad)._values().sqrt_().add_(o.eps());
    param.add_(detail::sparse_like(grad, values.div(std)), -rate);
    return;
  }
  if (o.weight_decay() != 0) grad = grad.add(param, o.weight_decay());
  const T p = detail::real_view(param), g = detail::real_view(grad), sum = detail::real_view(s.sum());
  sum.addcmul_(g, g);
  p.addcdiv_(g, sum.sqrt().add(o.eps()), -rate);
}
}
;

// --- RMSprop: v = alpha v + (1 - alpha) g^2, p -= lr g / (sqrt(v) + eps); centered: v less the squared mean ---
#define TESSERA_RMSprop_OPTIONS(X, E) \
  X(double, lr, 1e-2)                 \
  X(double, alpha, 0.99)              \
  X(double, eps, 1e-8)                \
  X(double, weight_decay, 0) X(double, momentum, 0) X(bool, centered, false) E(bool, maximize, false)
TESSERA_OPTIONS(RMSprop, 1e-2) {
  detail::at_least_zero("learning rate", lr());
  detail::at_least_zero("epsilon value", eps());
  detail::at_least_zero("momentum value", momentum());
  detail::at_least_zero("weight_decay value", weight_decay());
  detail::at_least_zero("alpha value", alpha());
}
}
;
#define TESSERA_RMSprop_STATE(X, E) \
  X(int64_t, step, 0) X(Tensor, square_avg, {}) X(Tensor, momentum_buffer, {}) X(Tensor, grad_avg, {})
TESSERA_STATE(RMSprop)
TESSERA_OPTIMIZER(RMSprop)
static void start(const detail::T& p, RMSpropParamState& s, const RMSpropOptions&) { s.square_avg(detail::like(p)); }
static void update(const detail::T& param, const detail::T& grad, RMSpropParamState& s, const RMSpropOptions& o) {
  using detail::T;
  const T p = detail::real_view(param), g = detail::real_view(grad), v = detail::real_view(s.square_avg());
  v.mul_(o.alpha()).addcmul_(g, g, 1 - o.alpha());
  T scale;
  if (o.centered()) {
    if (!s.grad_avg().defined()) s.grad_avg(detail::like(param));
    const T mean = detail::real_view(s.grad_avg());
    mean.lerp_(g, 1 - o.alpha());
    scale = v.addcmul(mean, mean, -1).sqrt_();
  } else {
    scale = v.sqrt();
  }
  scale.add_(o.eps());
  if (o.momentum() > 0) {
    if (!s.momentum_buffer().defined()) s.momentum_buffer(detail::like(param));
    const T b = detail::real_view(s.momentum_buffer());
    b.mul_(o.momentum()).addcdiv_(g, scale);
    p.add_(b, -o.lr());
  } else {
    p.addcdiv_(g, scale, -o.lr());
  }
}
}
;

// --- Adadelta ---
#define TESSERA_Adadelta_OPTIONS(X, E) \
  X(double, lr, 1) X(double, rho, 0.9) X(double, eps, 1e-6) X(double, weight_decay, 0) E(bool, maximize, false)
TESSERA_OPTIONS(Adadelta, 1) {
  detail::at_least_zero("learning rate", lr());
  TORCH_CHECK(0 <= rho() && rho() <= 1, "Invalid rho value: ", rho());
  detail::at_least_zero("epsilon value", eps());
  detail::at_least_zero("weight_decay value", weight_decay());
}
}
;
#define TESSERA_Adadelta_STATE(X, E) X(int64_t, step, 0) X(Tensor, square_avg, {}) X(Tensor, acc_delta, {})
TESSERA_STATE(Adadelta)
TESSERA_OPTIMIZER(Adadelta)
static void start(const detail::T& p, AdadeltaParamState& s, const AdadeltaOptions&) {
  s.square_avg(detail::like(p)).acc_delta(detail::like(p));
}
static void update(const detail::T& param, const detail::T& grad, AdadeltaParamState& s, const AdadeltaOptions& o) {
  using detail::T;
  const T g = detail::real_view(grad), v = detail::real_view(s.square_avg()), u = detail::real_view(s.acc_delta());
  v.mul_(o.rho()).addcmul_(g, g, 1 - o.rho());
  const T delta = u.add(o.eps());
  delta.sqrt_().div_(v.add(o.eps()).sqrt_()).mul_(g);
  u.mul_(o.rho()).addcmul_(delta, delta, 1 - o.rho());
  detail::real_view(param).add_(delta, -o.lr());
}
}
;

// --- Adamax ---
#define TESSERA_Adamax_OPTIONS(X, E) \
  X(double, lr, 2e-3)                \
  X(detail::Pair, betas, {0.9, 0.999}) X(double, eps, 1e-8) X(double, weight_decay, 0) E(bool, maximize, false)
TESSERA_OPTIONS(Adamax, 2e-3) { TESSERA_ADAM_CHECK }
}
;
#define TESSERA_Adamax_STATE(X, E) X(int64_t, step, 0) X(Tensor, exp_avg, {}) X(Tensor, exp_inf, {})
TESSERA_STATE(Adamax)
TESSERA_OPTIMIZER(Adamax)
static void start(const detail::T& p, AdamaxParamState& s, const AdamaxOptions&) {
  s.exp_avg(detail::like(p)).exp_inf(detail::like(p));
}
static void update(const detail::T& param, const detail::T& grad, AdamaxParamState& s, const AdamaxOptions& o) {
  using detail::T;
  const auto [beta1, beta2] = o.betas();
  const T g = detail::real_view(grad), m = detail::real_view(s.exp_avg()), u = detail::real_view(s.exp_inf());
  m.lerp_(g, 1 - beta1);
  u.mul_(beta2);
  u.copy_(u.maximum(g.abs().add_(o.eps())));
  detail::real_view(param).addcdiv_(m, u, -o.lr() / (1 - std::pow(beta1, double(s.step()))));
}
}
;

// --- NAdam ---
#define TESSERA_NAdam_OPTIONS(X, E)    \
  X(double, lr, 2e-3)                  \
  X(detail::Pair, betas, {0.9, 0.999}) \
  X(double, eps, 1e-8)                 \
  X(double, weight_decay, 0)           \
  X(double, momentum_decay, 4e-3) X(bool, decoupled_weight_decay, false) E(bool, maximize, false)
TESSERA_OPTIONS(NAdam, 2e-3) { TESSERA_ADAM_CHECK detail::at_least_zero("momentum_decay value", momentum_decay()); }
}
;
#define TESSERA_NAdam_STATE(X, E) \
  X(int64_t, step, 0) X(double, mu_product, 1) X(Tensor, exp_avg, {}) X(Tensor, exp_avg_sq, {})
TESSERA_STATE(NAdam)
TESSERA_OPTIMIZER(NAdam)
static void start(const detail::T& p, NAdamParamState& s, const NAdamOptions&) {
  s.exp_avg(detail::like(p)).exp_avg_sq(detail::like(p));
}
static void update(const detail::T& param, const detail::T& grad, NAdamParamState& s, const NAdamOptions& o) {
  using detail::T;
  const auto [beta1, beta2] = o.betas();
  const double t = double(s.step()), lr = o.lr();
  const auto mu_at = [&, beta = beta1](double at) {
    return beta * (1 - 0.5 * std::pow(0.96, at * o.momentum_decay()));
  };
  const T p = detail::real_view(param), g = detail::real_view(grad), m = detail::real_view(s.exp_avg()),
          v = detail::real_view(s.exp_avg_sq());
  const double mu = mu_at(t), mu_next = mu_at(t + 1);
  s.mu_product(double(float(float(s.mu_product()) * float(mu))));  // Python keeps it in float32
  const double product = s.mu_product();
  m.lerp_(g, 1 - beta1);
  v.mul_(beta2).addcmul_(g, g, 1 - beta2);
  const T denom = v.div(1 - std::pow(beta2, t)).sqrt().add(o.eps());
  p.addcdiv_(g, denom, -(lr * (1 - mu) / (1 - product)));
  p.addcdiv_(m, denom, -(lr * mu_next / (1 - product * mu_next)));
}
}
;

// --- RAdam ---
#define TESSERA_RAdam_OPTIONS(X, E)    \
  X(double, lr, 1e-3)                  \
  X(detail::Pair, betas, {0.9, 0.999}) \
  X(double, eps, 1e-8) X(double, weight_decay, 0) X(bool, decoupled_weight_decay, false) E(bool, maximize, false)
TESSERA_OPTIONS(RAdam, 1e-3) { TESSERA_ADAM_CHECK }
}
;
#define TESSERA_RAdam_STATE(X, E) X(int64_t, step, 0) X(Tensor, exp_avg, {}) X(Tensor, exp_avg_sq, {})
TESSERA_STATE(RAdam)
TESSERA_OPTIMIZER(RAdam)
static void start(const detail::T& p, RAdamParamState& s, const RAdamOptions&) {
  s.exp_avg(detail::like(p)).exp_avg_sq(detail::like(p));
}
static void update(const detail::T& param, const detail::T& grad, RAdamParamState& s, const RAdamOptions& o) {
  using detail::T;
  const auto [beta1, beta2] = o.betas();
  const double t = double(s.step());
  const T g = detail::real_view(grad), m = detail::real_view(s.exp_avg()), v = detail::real_view(s.exp_avg_sq());
  m.lerp_(g, 1 - beta1);
  v.mul_(beta2).addcmul_(g, g, 1 - beta2);
  const double correction2 = 1 - std::pow(beta2, t), rho_inf = 2 / (1 - beta2) - 1,
               rho = rho_inf - 2 * t * std::pow(beta2, t) / correction2;
  T step = m.div(1 - std::pow(beta1, t)).mul(o.lr());
  if (rho > 5) {
    const double rect = std::sqrt((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho));
    const T denom = v.sqrt().add(o.eps());
    step = step.mul(denom.reciprocal().mul(std::sqrt(correction2))).mul(rect);
  }
  detail::real_view(param).sub_(step);
}
}
;

// --- ASGD ---
#define TESSERA_ASGD_OPTIONS(X, E) \
  X(double, lr, 1e-2)              \
  X(double, lambd, 1e-4) X(double, alpha, 0.75) X(double, t0, 1e6) X(double, weight_decay, 0) E(bool, maximize, false)
TESSERA_OPTIONS(ASGD, 1e-2) {
  detail::at_least_zero("learning rate", lr());
  detail::at_least_zero("weight_decay value", weight_decay());
}
}
;
#define TESSERA_ASGD_STATE(X, E) X(int64_t, step, 0) X(double, eta, 0) X(double, mu, 1) X(Tensor, ax, {})
TESSERA_STATE(ASGD)
TESSERA_OPTIMIZER(ASGD)
static void start(const detail::T& p, ASGDParamState& s, const ASGDOptions& o) {
  s.eta(double(float(o.lr()))).ax(detail::like(p));
}
static void update(const detail::T& param, const detail::T& grad, ASGDParamState& s, const ASGDOptions& o) {
  using detail::T;
  const T p = detail::real_view(param), ax = detail::real_view(s.ax());
  p.mul_(1 - o.lambd() * s.eta());
  p.add_(detail::real_view(grad), -s.eta());
  if (s.mu() == 1)
    ax.copy_(p);
  else
    ax.add_(p.sub(ax).mul_(s.mu()));
  // Python keeps both in float32
  const double t = double(s.step());
  s.eta(double(float(o.lr() / std::pow(1 + o.lambd() * o.lr() * t, o.alpha()))));
  s.mu(double(float(1 / std::max(1.0, t - o.t0()))));
}
}
;

// --- Rprop: step sizes that grow while the gradient keeps its sign ---
#define TESSERA_Rprop_OPTIONS(X, E) \
  X(double, lr, 1e-2) X(detail::Pair, etas, {0.5, 1.2}) X(detail::Pair, step_sizes, {1e-6, 50}) E(bool, maximize, false)
TESSERA_OPTIONS(Rprop, 1e-2) {
  detail::at_least_zero("learning rate", lr());
  const auto [down, up] = etas();
  TORCH_CHECK(0 < down && down < 1 && up > 1, "Invalid eta values: ", down, ", ", up);
}
}
;
#define TESSERA_Rprop_STATE(X, E) X(int64_t, step, 0) X(Tensor, prev, {}) X(Tensor, step_size, {})
TESSERA_STATE(Rprop)
TESSERA_OPTIMIZER(Rprop)
static void start(const detail::T& p, RpropParamState& s, const RpropOptions& o) {
  s.prev(detail::like(p)).step_size(detail::filled(p, o.lr()));
}
static void update(const detail::T& param, const detail::T& grad, RpropParamState& s, const RpropOptions& o) {
  using detail::T;
  const auto [down, up] = o.etas();
  const auto [low, high] = o.step_sizes();
  const T g = detail::real_view(grad), prev = detail::real_view(s.prev()), size = detail::real_view(s.step_size());
  const T sign = g.mul(prev).sign(), one = at::ones_like(sign), turned = sign.lt(0);
  size.mul_(at::where(sign.gt(0), one.mul(up), at::where(turned, one.mul(down), one))).clamp_(low, high);
  const T kept = at::where(turned, at::zeros_like(g), g);
  detail::real_view(param).addcmul_(kept.sign(), size, -1);
  prev.copy_(kept);
}
}
;

// --- SparseAdam: Adam that touches only the rows of a sparse gradient ---
#define TESSERA_SparseAdam_OPTIONS(X, E) \
  X(double, lr, 1e-3) X(detail::Pair, betas, {0.9, 0.999}) X(double, eps, 1e-8) E(bool, maximize, false)
TESSERA_OPTIONS(SparseAdam, 1e-3) {
  TORCH_CHECK(lr() > 0, "Invalid learning rate: ", lr());
  TORCH_CHECK(eps() > 0, "Invalid epsilon value: ", eps());
  detail::check_betas(betas());
}
}
;
#define TESSERA_SparseAdam_STATE(X, E) X(int64_t, step, 0) X(Tensor, exp_avg, {}) X(Tensor, exp_avg_sq, {})
TESSERA_STATE(SparseAdam)
TESSERA_OPTIMIZER(SparseAdam)
static constexpr bool kSparse = true;
static void prepare(Optimizer& all) {
  for (const OptimizerParamGroup& group : all.param_groups())
    for (const Tensor& p : group.params())
      TORCH_CHECK(detail::is_dense(p), "SparseAdam requires dense parameter tensors");
}
static void start(const detail::T& p, SparseAdamParamState& s, const SparseAdamOptions&) {
  s.exp_avg(detail::like(p)).exp_avg_sq(detail::like(p));
}
static void update(const detail::T& p, detail::T grad, SparseAdamParamState& s, const SparseAdamOptions& o) {
  using detail::T;
  TORCH_CHECK(!detail::is_dense(grad), "SparseAdam does not support dense gradients, please consider Adam instead");
  const auto [beta1, beta2] = o.betas();
  const double t = double(s.step());
  grad = grad.coalesce();
  const T values = grad._values(), m = s.exp_avg(), v = s.exp_avg_sq();
  if (!values.numel()) return;
  const T old_m = m.sparse_mask(grad)._values(), old_v = v.sparse_mask(grad)._values();
  const T step_m = values.sub(old_m).mul(1 - beta1), step_v = values.mul(values).sub(old_v).mul(1 - beta2);
  m.add_(detail::sparse_like(grad, step_m));
  v.add_(detail::sparse_like(grad, step_v));
  const T denom = step_v.add(old_v).sqrt_().add_(o.eps());
  const double size = o.lr() * std::sqrt(1 - std::pow(beta2, t)) / (1 - std::pow(beta1, t));
  p.add_(detail::sparse_like(grad, step_m.add(old_m).mul(-size).div(denom)));
}
}
;

// --- Muon: momentum orthogonalised by Newton-Schulz iterations in bfloat16, for matrices ---
#define TESSERA_Muon_OPTIONS(X, E)                              \
  X(double, lr, 1e-3)                                           \
  X(double, weight_decay, 0.1)                                  \
  X(double, momentum, 0.95)                                     \
  X(bool, nesterov, true)                                       \
  X(detail::Triple, ns_coefficients, {3.4445, -4.7750, 2.0315}) \
  X(double, eps, 1e-7)                                          \
  X(int64_t, ns_steps, 5) X(std::optional<std::string>, adjust_lr_fn, std::nullopt) E(bool, maximize, false)
TESSERA_OPTIONS(Muon, 1e-3) {
  detail::at_least_zero("learning rate", lr());
  detail::at_least_zero("momentum", momentum());
  detail::at_least_zero("weight decay", weight_decay());
  TORCH_CHECK(!adjust_lr_fn() || *adjust_lr_fn() == "original" || *adjust_lr_fn() == "match_rms_adamw",
              "Adjust learning rate function ", *adjust_lr_fn(), " is not supported");
  TORCH_CHECK(ns_steps() < 100, "Number of steps must be less than 100 for computational efficiency");
}
}
;
#define TESSERA_Muon_STATE(X, E) X(Tensor, momentum_buffer, {}) E(int64_t, step, 0)
TESSERA_STATE(Muon)
TESSERA_OPTIMIZER(Muon)
static constexpr bool kOwnDecay = true;
static void prepare(Optimizer& all) {
  for (const OptimizerParamGroup& group : all.param_groups())
    for (const detail::T& p : group.params())
      TORCH_CHECK(p.dim() == 2, "Muon only supports 2D parameters whereas we found a parameter with size: ", p.sizes());
}
static void start(const detail::T& p, MuonParamState& s, const MuonOptions&) { s.momentum_buffer(detail::like(p)); }
static void update(const detail::T& p, const detail::T& grad, MuonParamState& s, const MuonOptions& o) {
  using detail::T;
  TORCH_CHECK(!p.is_complex(), "Muon does not support complex parameters");
  const T b = s.momentum_buffer();
  b.lerp_(grad, 1 - o.momentum());
  const T step = orthogonal(o.nesterov() ? grad.lerp(b, o.momentum()) : b, o);
  p.mul_(1 - o.lr() * o.weight_decay());
  const double rows = double(p.size(0)), cols = double(p.size(1));
  const bool rms = o.adjust_lr_fn() == "match_rms_adamw";
  p.add_(step, -o.lr() * (rms ? 0.2 * std::sqrt(std::max(rows, cols)) : std::sqrt(std::max(1.0, rows / cols))));
}

private:
static detail::T orthogonal(const detail::T& grad, const MuonOptions& o) {
  using detail::T;
  const auto [a, b, c] = o.ns_coefficients();
  T x = grad.to(kBFloat16);
  const bool tall = grad.size(0) > grad.size(1);
  if (tall) x = x.transpose(0, 1);
  x = x.div(x.norm().clamp(o.eps()));
  for (int64_t i = 0; i < o.ns_steps(); ++i) {
    const T gram = x.matmul(x.transpose(0, 1));
    x = at::addmm(x, at::addmm(gram, gram, gram, b, c), x, a);
  }
  return tall ? x.transpose(0, 1) : x;
}
}
;

// --- Adafactor: second moments of matrices as means of rows and columns ---
#define TESSERA_Adafactor_OPTIONS(X, E)        \
  X(double, lr, 1e-2)                          \
  X(double, beta2_decay, -0.8)                 \
  X(std::optional<double>, eps1, std::nullopt) \
  X(double, eps2, 1e-3) X(double, d, 1) X(double, weight_decay, 0) E(bool, maximize, false)
TESSERA_OPTIONS(Adafactor, 1e-2) {
  detail::at_least_zero("learning rate", lr());
  TORCH_CHECK(beta2_decay() <= 0, "beta2_decay should be <= 0 but is: ", beta2_decay());
  TORCH_CHECK(!eps1() || *eps1() >= 0, "epsilon1 should be >= 0 but is: ", *eps1());
  TORCH_CHECK(eps2() >= 0, "epsilon2 should be >= 0 but is: ", eps2());
  TORCH_CHECK(d() >= 1, "Clipping threshold d should be >= 1 but is: ", d());
  TORCH_CHECK(weight_decay() >= 0, "weight_decay should be >= 0 but is: ", weight_decay());
}
}
;
#define TESSERA_Adafactor_STATE(X, E) \
  X(int64_t, step, 0) X(Tensor, row_var, {}) X(Tensor, col_var, {}) X(Tensor, variance, {})
TESSERA_STATE(Adafactor)
TESSERA_OPTIMIZER(Adafactor)
static constexpr bool kOwnDecay = true;
static void start(const detail::T& p, AdafactorParamState& s, const AdafactorOptions&) {
  TORCH_CHECK(!p.is_complex(), "Adafactor does not support complex parameters");
  if (p.dim() < 2) {
    s.variance(detail::like(p));
    return;
  }
  std::vector<int64_t> row(p.sizes().begin(), p.sizes().end()), col = row;
  row.back() = 1;
  col[col.size() - 2] = 1;
  s.row_var(p.new_zeros(row)).col_var(p.new_zeros(col));
}
static double tiny(ScalarType t) {
  return t == kDouble ? 0x1p-52 : t == kHalf ? 0x1p-10 : t == kBFloat16 ? 0x1p-7 : 0x1p-23;
}
static void update(const detail::T& p, const detail::T& g, AdafactorParamState& s, const AdafactorOptions& o) {
  using detail::number, detail::T;
  const double t = double(s.step()), eps1 = o.eps1().value_or(tiny(p.scalar_type())),
               keep = std::pow(t, o.beta2_decay());
  const auto root = [](const T& x) { return std::sqrt(double(x.numel())); };
  const double rate = std::max(o.eps2(), number(p.norm()) / root(p)) * std::min(o.lr(), 1 / std::sqrt(t));
  if (o.weight_decay() != 0) p.mul_(1 - o.lr() * o.weight_decay());
  T var;
  if (g.dim() > 1) {
    const T row = s.row_var(), col = s.col_var();
    const auto mean_square = [&](int64_t dim) {
      const T n = at::norm(g, 2, {dim}, true);
      return n.mul(n).div_(double(g.size(dim)));
    };
    row.lerp_(mean_square(-1), keep);
    col.lerp_(mean_square(-2), keep);
    var = row.matmul(col).div_(row.mean({-2}, true).clamp_(eps1));
  } else {
    s.variance().lerp_(g.mul(g), keep);
    var = s.variance().clone();
  }
  const T step = var.clamp_(eps1 * eps1).rsqrt_().mul_(g);
  p.add_(step, -rate / std::max(1.0, number(step.norm()) / (root(step) * o.d())));
}
}
;

// --- L-BFGS: up to max_iter iterations a step, in one group; directions and line searches are optim/lbfgs ---
#define TESSERA_LBFGS_OPTIONS(X, E)                 \
  X(double, lr, 1)                                  \
  X(int64_t, max_iter, 20)                          \
  X(std::optional<int64_t>, max_eval, std::nullopt) \
  X(double, tolerance_grad, 1e-7)                   \
  X(double, tolerance_change, 1e-9)                 \
  X(int64_t, history_size, 100) X(std::optional<std::string>, line_search_fn, std::nullopt)
TESSERA_OPTIONS(LBFGS, 1) { detail::at_least_zero("learning rate", lr()); }
}
;
#define TESSERA_LBFGS_STATE(X, E)     \
  X(int64_t, func_evals, 0)           \
  X(int64_t, n_iter, 0)               \
  X(double, t, 0)                     \
  X(double, prev_loss, 0)             \
  X(Tensor, d, {})                    \
  X(Tensor, H_diag, {})               \
  X(Tensor, prev_flat_grad, {})       \
  E(std::deque<Tensor>, old_dirs, {}) \
  E(std::deque<Tensor>, old_stps, {}) \
  E(std::deque<Tensor>, ro, {}) E(std::optional<std::vector<Tensor>>, al, std::nullopt)
TESSERA_STATE(LBFGS)
TESSERA_OPTIMIZER(LBFGS)
static void prepare(Optimizer& all) {
  TORCH_CHECK(all.param_groups().size() == 1, "LBFGS doesn't support per-parameter options (parameter groups)");
  for (OptimizerOptions* o : {&all.defaults(), &all.param_groups()[0].options()}) {
    auto& own = static_cast<LBFGSOptions&>(*o);
    if (!own.max_eval()) own.max_eval(own.max_iter() * 5 / 4);
  }
}
// The closure is called several times; gives the first loss.
Tensor step(LossClosure closure) override {
  TORCH_CHECK(closure, "LBFGS requires a closure function");
  const tessera::NoGradGuard no_grad;
  const auto& o = static_cast<const LBFGSOptions&>(param_groups_.at(0).options());
  TORCH_CHECK(!o.line_search_fn() || *o.line_search_fn() == "strong_wolfe", "only 'strong_wolfe' is supported");
  LBFGSParamState& s = state_of(param_groups_[0].params().at(0), [](LBFGSParamState&) {});
  const int64_t evaluated_before = s.func_evals();
  const auto evaluate = [&] {
    s.func_evals(s.func_evals() + 1);
    Tensor loss = detail::loss_of(closure);
    return std::pair(std::move(loss), gradient());
  };
  auto [first, g] = evaluate();
  double loss = detail::number(first);
  for (int64_t left = o.max_iter(); left-- > 0;) {
    if (detail::number(g.abs().max()) <= o.tolerance_grad()) break;
    s.n_iter(s.n_iter() + 1);
    const T way = turn(s, g, o);
    const double slope = detail::number(at::dot(g, way)), before = loss;
    double rate = o.lr();
    if (s.n_iter() == 1) rate *= std::min(1.0, 1.0 / detail::number(g.abs().sum()));
    s.d(way).t(rate).prev_flat_grad(g).prev_loss(loss);
    if (slope > -o.tolerance_change()) break;
    if (o.line_search_fn()) {
      search(evaluate, s, loss, g, slope);
    } else {
      move(way, rate);
      if (left) {
        Tensor now;
        std::tie(now, g) = evaluate();
        loss = detail::number(now);
      }
    }
    if (s.func_evals() - evaluated_before >= *o.max_eval() ||
        detail::number(way.mul(s.t()).abs().max()) <= o.tolerance_change() ||
        std::abs(loss - before) < o.tolerance_change())
      break;
  }
  return first;
}
void step_group(OptimizerParamGroup&, const LBFGSOptions&) {}

private:
using T = Tensor;
// All gradients as one vector.
T gradient() const {
  std::vector<T> parts;
  for (const T& p : param_groups_[0].params()) {
    const T g = p.grad();
    const T dense = !g.defined() ? at::zeros_like(p) : detail::is_dense(g) ? g : g.to_dense();
    parts.push_back(detail::real_view(dense).reshape({-1}));
  }
  return at::cat(parts, 0);
}
void move(const T& way, double distance) {
  int64_t at = 0;
  for (const T& param : param_groups_[0].params()) {
    const T p = detail::real_view(param);
    p.add_(way.narrow(0, at, p.numel()).view_as(p), distance);
    at += p.numel();
  }
}
// The next direction; the way that was last gone joins the history.
static T turn(LBFGSParamState& s, const T& g, const LBFGSOptions& o) {
  const auto keep = [&](std::deque<Tensor>& list, const T& newest) {
    list.push_back(newest);
    while (list.size() > size_t(o.history_size())) list.pop_front();
  };
  if (s.n_iter() == 1) {
    s.old_dirs().clear(), s.old_stps().clear(), s.ro().clear();
    s.H_diag(at::ones_like(at::dot(g, g)));
    return g.neg();
  }
  const T change = g.sub(s.prev_flat_grad()), way = s.d().mul(s.t()), curvature = at::dot(change, way);
  if (detail::number(curvature) > 1e-10) {
    keep(s.old_dirs(), change);
    keep(s.old_stps(), way);
    keep(s.ro(), curvature.reciprocal());
    s.H_diag(curvature.div(at::dot(change, change)));
  }
  const std::vector<tessera::Tensor> changes(s.old_dirs().begin(), s.old_dirs().end()),
      ways(s.old_stps().begin(), s.old_stps().end());
  std::vector<double> weights;
  for (const Tensor& w : s.ro()) weights.push_back(detail::number(w));
  return tessera::optim::lbfgs::direction(g, {changes, ways, weights}, detail::number(s.H_diag())).vector;
}
template <class F>
void search(F& evaluate, LBFGSParamState& s, double& loss, T& g, double slope) {
  std::vector<T> here;
  const T way = s.d();
  for (const T& p : param_groups_[0].params()) here.push_back(p.clone());
  const auto at = [&](double distance) {
    move(way, distance);
    auto [value, there] = evaluate();
    for (size_t i = 0; i < here.size(); ++i) param_groups_[0].params()[i].copy_(here[i]);
    return std::pair<double, tessera::Tensor>(detail::number(value), there);
  };
  const auto found = tessera::optim::lbfgs::strong_wolfe(at, way, {0, loss, slope, g}, s.t());
  s.t(found.trial.at);
  move(way, found.trial.at);
  loss = found.trial.value;
  g = found.trial.gradient;
}
}
;

}  // namespace torch::optim
