// Gradients clipped, parameters as one vector.
#pragma once

#include <cmath>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/utils/rnn.h>

namespace torch::nn::utils {

// Scales all gradients down together so that their norm is at most max_norm, and returns what it was. Error with
// error_if_nonfinite if it is no number.
inline double clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type = 2.0,
                              bool error_if_nonfinite = false) {
  using Raw = at::Tensor;
  at::NoGradGuard no_grad;
  std::vector<Raw> grads, norms;
  for (const Tensor& p : parameters)
    if (const Raw grad = p.grad(); grad.defined()) grads.push_back(grad);
  if (grads.empty()) return 0;
  for (const Raw& g : grads) {
    const Raw norm = at::linalg_vector_norm(g, norm_type);
    norms.push_back(norm.to(grads[0].device(), norm.scalar_type()));
  }
  const Raw all = norms.size() == 1 ? norms[0] : at::linalg_vector_norm(at::stack(norms), norm_type);
  const double total = all.to(at::kCPU, at::kFloat64).item<double>();
  TORCH_CHECK(
      !error_if_nonfinite || std::isfinite(total), "The total norm of order ", norm_type,
      " for gradients from "
      "`parameters` is non-finite, so it cannot be clipped. To disable this error and scale the gradients by the "
      "non-finite norm anyway, set `error_if_nonfinite=false`");
  const Raw scale = at::clamp_max(at::div(at::full_like(all, max_norm), at::add(all, 1e-6)), 1.0);
  for (const Raw& g : grads) g.mul_(scale.to(g.device(), scale.scalar_type()));
  return total;
}
inline double clip_grad_norm_(const Tensor& parameter, double max_norm, double norm_type = 2.0,
                              bool error_if_nonfinite = false) {
  return clip_grad_norm_(std::vector<Tensor>{parameter}, max_norm, norm_type, error_if_nonfinite);
}

// Each element of the gradients brought into [-clip_value, clip_value].
inline void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value) {
  at::NoGradGuard no_grad;
  for (const Tensor& p : parameters)
    if (const Tensor grad = p.grad(); grad.defined())
      grad.clamp_(std::optional<at::Scalar>(-clip_value), std::optional<at::Scalar>(clip_value));
}
inline void clip_grad_value_(const Tensor& parameter, double clip_value) {
  clip_grad_value_(std::vector<Tensor>{parameter}, clip_value);
}

inline Tensor parameters_to_vector(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> flat;
  for (const Tensor& p : parameters) flat.push_back(at::reshape(p, {-1}));
  return at::cat(flat);
}
// The parameters become pieces of the vector.
inline void vector_to_parameters(const Tensor& vec, const std::vector<Tensor>& parameters) {
  int64_t at = 0;
  for (const Tensor& p : parameters) {
    const Tensor piece = at::narrow(vec, 0, at, p.numel());
    Tensor(p).set_data(at::view(piece, p.sizes()));
    at += p.numel();
  }
}

}  // namespace torch::nn::utils
