// With h = (x - mean) rstd, g = grad_out * weight and avg the mean over what is normalised together, the backward of a
// normalisation is
//   dx = D(g) = rstd (g - avg(g) - h avg(g h)),   dweight = sum(grad_out h),   dbias = sum(grad_out).
// D is symmetric in g, and it is also the derivative of h with respect to x: that is all that its own derivatives need.
#include "nn/formulas/norm_formulas.h"

#include "nn/norm_extra.h"
#include "tensor/ops/api.h"

namespace tessera::autograd::formulas {
namespace {

// One kind of normalisation, all tensors in a shape in which they broadcast.
struct Norm {
  Tensor grad, x, weight;  // grad and weight may be undefined
  Tensor mean, rstd;
  IntVector dims;        // what is normalised together
  IntVector param_dims;  // what one element of weight applies to
  bool constant_stats;   // given numbers, not the input's own
};

Tensor plus(const Tensor& a, const Tensor& b) { return !a.defined() ? b : !b.defined() ? a : a + b; }

// The statistics as functions of x, for derivatives of yet higher order; eps is what the saved ones tell.
void differentiable_stats(Norm& n) {
  if (n.constant_stats || !grad_mode_enabled()) return;
  const Tensor mean = tessera::mean(n.x, n.dims, true), centred = n.x - mean,
               var = tessera::mean(centred * centred, n.dims, true);
  const Tensor eps = detach(reciprocal(n.rstd * n.rstd) - var);
  n.mean = mean;
  n.rstd = rsqrt(var + eps);
}

// a, b, c: what arrives for dx, dweight and dbias. Gives gradients of grad_out and x, in their shape, and of weight
// with its broadcast dimensions kept.
NormGradients double_backward(Norm n, const Tensor& a, const Tensor& b, const Tensor& c) {
  differentiable_stats(n);
  const Tensor h = (n.x - n.mean) * n.rstd, g = n.weight.defined() && n.grad.defined() ? n.grad * n.weight : n.grad;
  auto avg = [&](const Tensor& t) { return mean(t, n.dims, true); };
  auto project = [&](const Tensor& t) {
    return n.constant_stats ? t * n.rstd : n.rstd * (t - avg(t) - h * avg(t * h));
  };
  Tensor to_grad, to_x, to_weight;
  if (a.defined()) {
    const Tensor p = project(a);
    to_grad = n.weight.defined() ? p * n.weight : p;
    if (n.weight.defined() && n.grad.defined()) to_weight = sum(n.grad * p, n.param_dims, true);
    if (!n.constant_stats && n.grad.defined()) {
      // sum(a D(g)) = rstd K with K = sum(a g) - n avg(a) avg(g) - n avg(a h) avg(g h): the derivatives of rstd and of
      // h.
      const Tensor ah = avg(a * h), gh = avg(g * h);
      const Tensor k = avg(a * g) - avg(a) * avg(g) - ah * gh;
      to_x = -(k * n.rstd * n.rstd * h) - project(n.rstd * (g * ah + a * gh));
    }
  }
  if (b.defined()) {
    to_grad = plus(to_grad, b * h);
    if (n.grad.defined()) to_x = plus(to_x, project(b * n.grad));
  }
  if (c.defined()) to_grad = plus(to_grad, expand(c, n.x.sizes()));
  return {to_grad, to_x, to_weight};
}

// t (if there is one) in the dtype of the arithmetic and in a shape.
Tensor arranged(const Tensor& t, DType dtype, IntList shape) {
  return t.defined() ? reshape(to(t, dtype), shape) : Tensor();
}
Tensor shaped_like(const Tensor& t, const Tensor& like) { return t.defined() ? reshape(t, like.sizes()) : Tensor(); }
NormGradients shaped(const NormGradients& g, const Tensor& input, const Tensor& weight) {
  return {shaped_like(std::get<0>(g), input), shaped_like(std::get<1>(g), input),
          weight.defined() ? shaped_like(std::get<2>(g), weight) : Tensor()};
}
DType arithmetic_dtype(const Tensor& input) {
  return is_reduced_float(input.dtype()) ? DType::kFloat32 : input.dtype();
}

}  // namespace

NormGradients batch_norm_double_backward(const Tensor& to_input, const Tensor& to_weight, const Tensor& to_bias,
                                         const Tensor& grad_out, const Tensor& input, const Tensor& weight,
                                         const Tensor& running_mean, const Tensor& running_var, const Tensor& save_mean,
                                         const Tensor& save_invstd, bool train, double eps) {
  if (input.numel() == 0)
    return {zeros_like(input), zeros_like(input), weight.defined() ? zeros_like(weight) : Tensor()};
  const DType t = arithmetic_dtype(input);
  const int64_t batch = input.size(0), channels = input.size(1);
  const int64_t full[3] = {batch, channels, input.numel() / (batch * channels)}, param[3] = {1, channels, 1};
  Norm n{arranged(grad_out, t, full),
         arranged(input, t, full),
         arranged(weight, t, param),
         arranged(train ? save_mean : running_mean, t, param),
         train ? arranged(save_invstd, t, param) : rsqrt(arranged(running_var, t, param) + eps),
         {0, 2},
         {0, 2},
         !train};
  return shaped(
      double_backward(n, arranged(to_input, t, full), arranged(to_weight, t, param), arranged(to_bias, t, param)),
      input, weight);
}

NormGradients layer_norm_double_backward(const Tensor& to_input, const Tensor& to_weight, const Tensor& to_bias,
                                         const Tensor& grad_out, const Tensor& input, SymIntList normalized_shape,
                                         const Tensor& mean, const Tensor& rstd, const Tensor& weight) {
  if (input.numel() == 0)
    return {zeros_like(input), zeros_like(input), weight.defined() ? zeros_like(weight) : Tensor()};
  const DType t = arithmetic_dtype(input);
  const int64_t size = checked_numel(normalized_shape.ints()), rows = input.numel() / size;
  const int64_t full[2] = {rows, size}, param[2] = {1, size}, stat[2] = {rows, 1};
  Norm n{arranged(grad_out, t, full),
         arranged(input, t, full),
         arranged(weight, t, param),
         arranged(mean, t, stat),
         arranged(rstd, t, stat),
         {1},
         {0},
         false};
  return shaped(
      double_backward(n, arranged(to_input, t, full), arranged(to_weight, t, param), arranged(to_bias, t, param)),
      input, weight);
}

NormGradients group_norm_double_backward(const Tensor& to_input, const Tensor& to_weight, const Tensor& to_bias,
                                         const Tensor& grad_out, const Tensor& input, const Tensor& mean,
                                         const Tensor& rstd, const Tensor& weight, SymInt n_, SymInt c_, SymInt hxw_,
                                         int64_t group) {
  if (input.numel() == 0)
    return {zeros_like(input), zeros_like(input), weight.defined() ? zeros_like(weight) : Tensor()};
  const DType t = arithmetic_dtype(input);
  const int64_t batch = n_.guard_int(), c = c_.guard_int(), hxw = hxw_.guard_int();
  const int64_t full[4] = {batch, group, c / group, hxw}, param[4] = {1, group, c / group, 1},
                stat[4] = {batch, group, 1, 1};
  Norm n{arranged(grad_out, t, full),
         arranged(input, t, full),
         arranged(weight, t, param),
         arranged(mean, t, stat),
         arranged(rstd, t, stat),
         {2, 3},
         {0, 3},
         false};
  return shaped(
      double_backward(n, arranged(to_input, t, full), arranged(to_weight, t, param), arranged(to_bias, t, param)),
      input, weight);
}

std::tuple<Tensor, Tensor> rms_norm_backward(const Tensor& grad, const Tensor& input, SymIntList normalized_shape,
                                             const Tensor& rstd, const Tensor& weight, double eps,
                                             std::span<const bool> mask) {
  if (!grad_mode_enabled()) {
    const auto at_once = kernels::rms_norm_gradient(grad, input, normalized_shape, rstd, weight, mask);
    if (std::get<0>(at_once).defined() || std::get<1>(at_once).defined()) return at_once;
  }
  const DType t = arithmetic_dtype(input);
  IntVector dims, others;
  const int64_t kept = input.dim() - static_cast<int64_t>(normalized_shape.size());
  for (int64_t d = 0; d < input.dim(); ++d) (d < kept ? others : dims).push_back(d);
  const Tensor x = to(input, t), dy = to(grad, t), s = rsqrt(mean(x * x, dims, true) + eps), h = x * s;
  const Tensor g = weight.defined() ? dy * weight : dy;
  const auto shaped = [&](const Tensor& sums) { return reshape(sums, normalized_shape.ints()); };
  return {mask[0] ? to(s * (g - h * mean(g * h, dims, true)), input.dtype()) : Tensor(),
          mask[1] ? to(shaped(others.empty() ? dy * h : sum(dy * h, others)), weight.dtype()) : Tensor()};
}

}  // namespace tessera::autograd::formulas
