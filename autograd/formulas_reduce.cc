#include "autograd/formulas_reduce.h"

#include <algorithm>
#include <cmath>

#include "autograd/formulas_pointwise.h"
#include "tensor/core/transforms.h"

namespace tessera::autograd::formulas {
namespace {
uint64_t mask_of(OptionalDims dims, int64_t rank) {
  if (!dims || dims->empty()) return ~uint64_t{0};
  uint64_t m = 0;
  for (int64_t d : *dims) m |= uint64_t{1} << wrap_dim(d, rank);
  return m;
}
int64_t count_of(IntList sizes, uint64_t mask) {
  int64_t n = 1;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (mask >> i & 1) n *= sizes[i];
  return n;
}
Tensor flip_along(const Tensor& t, int64_t dim) { return flip(t, IntVector{dim}); }
Tensor reversed_cumsum(const Tensor& t, int64_t dim) {
  if (t.numel() <= 1 || t.size(dim) == 1) return t;
  return flip_along(cumsum(flip_along(t, dim), dim), dim);
}
}  // namespace

Tensor unsqueeze_dims(const Tensor& grad, OptionalDims dims, int64_t input_dim, bool keepdim) {
  if (keepdim || input_dim == 0) return grad;
  const uint64_t mask = mask_of(dims, input_dim);
  Tensor r = grad;
  for (int64_t i = 0; i < input_dim; ++i)
    if (mask >> i & 1) r = unsqueeze(r, i);
  return r;
}

Tensor sum_backward(const Tensor& grad, IntList sizes, OptionalDims dims, bool keepdim) {
  return expand(unsqueeze_dims(grad, dims, static_cast<int64_t>(sizes.size()), keepdim), sizes);
}
Tensor mean_backward(const Tensor& grad, IntList sizes, OptionalDims dims, bool keepdim) {
  const int64_t n = count_of(sizes, mask_of(dims, static_cast<int64_t>(sizes.size())));
  return sum_backward(grad, sizes, dims, keepdim) / n;
}

namespace {
// prod without self[i], for every i, along the last dimension: products from the left and from the right.
Tensor products_of_others(const Tensor& self) {
  const Tensor one = ones_like(narrow(self, -1, 0, 1));
  const int64_t n = self.size(-1);
  const Tensor left_parts[2] = {one, narrow(self, -1, 0, n - 1)};
  const Tensor left = cumprod(cat(left_parts, -1), -1);
  const Tensor right_parts[2] = {one, flip_along(narrow(self, -1, 1, n - 1), -1)};
  const Tensor right = flip_along(cumprod(cat(right_parts, -1), -1), -1);
  return left * right;
}
}  // namespace

namespace {
// Inside of function transforms a value may differ across a batch: what to do must not depend on it.
bool may_look_at(const Tensor& t) { return !t.is_meta() && !is_transformed(t); }
}  // namespace

Tensor prod_backward(const Tensor& grad, const Tensor& self, const Tensor& result) {
  if (self.dim() == 0) return clone(grad);
  if (!may_look_at(self) || grad_mode_enabled())
    return grad * conj_of(reshape(products_of_others(reshape(self, {-1})), self.sym_sizes()));
  if (all(self).item<bool>()) return grad * conj_of(result / self);
  return grad * conj_of(reshape(products_of_others(reshape(self, {-1})), self.sym_sizes()));
}
Tensor prod_dim_backward(const Tensor& grad, const Tensor& self, const Tensor& result, int64_t dim, bool keepdim) {
  if (self.dim() == 0) return clone(grad);
  const int64_t d = wrap_dim(dim, self.dim());
  const Tensor g = keepdim ? grad : unsqueeze(grad, d), r = keepdim ? result : unsqueeze(result, d);
  if (self.numel() == 0) return zeros_like(self);
  if (!grad_mode_enabled() && may_look_at(self) && all(self).item<bool>()) return g * conj_of(r / self);
  return g * conj_of(transpose(products_of_others(transpose(self, d, -1)), d, -1));
}

Tensor evenly_distribute(const Tensor& grad, const Tensor& self, const Tensor& value) {
  const Tensor mask = !may_look_at(value)              ? where(isnan(value), isnan(self), eq(self, value))
                      : any(isnan(value)).item<bool>() ? isnan(self)
                                                       : eq(self, value);
  return mask * (grad / sum(mask));
}
Tensor extremes_backward(const Tensor& grad, const Tensor& self, const Tensor& result, IntList dims, bool keepdim) {
  const Tensor g = unsqueeze_dims(grad, dims, self.dim(), keepdim),
               r = unsqueeze_dims(result, dims, self.dim(), keepdim);
  const Tensor mask = eq(self, r);
  return (g * mask) / sum(mask, dims, true);
}
Tensor aminmax_backward(const Tensor& grad_min, const Tensor& grad_max, const Tensor& self, const Tensor& min,
                        const Tensor& max, std::optional<int64_t> dim, bool keepdim) {
  const IntVector dims = dim ? IntVector{*dim} : IntVector();
  Tensor r;
  if (grad_min.defined()) r = extremes_backward(grad_min, self, min, dims, keepdim);
  if (grad_max.defined()) {
    const Tensor g = extremes_backward(grad_max, self, max, dims, keepdim);
    r = r.defined() ? r + g : g;
  }
  return r;
}

Tensor value_selecting_backward(const Tensor& grad, int64_t dim, const Tensor& indices, IntList sizes, bool keepdim) {
  if (!grad.defined()) return Tensor();
  const bool put_back = !keepdim && !sizes.empty();
  const Tensor g = put_back ? unsqueeze(grad, dim) : grad, i = put_back ? unsqueeze(indices, dim) : indices;
  return scatter(zeros(sizes, g.dtype(), std::nullopt, g.device()), dim, i, g);
}

Tensor var_backward(const Tensor& grad, const Tensor& self, OptionalDims dims, const std::optional<Scalar>& correction,
                    bool keepdim) {
  const uint64_t mask = mask_of(dims, self.dim());
  const double n = static_cast<double>(count_of(self.sizes(), mask)), c = correction ? correction->to_double() : 1.0;
  if (self.dim() == 0 && n - c <= 0) return grad * (self * std::nan(""));
  const Tensor g = unsqueeze_dims(grad, dims, self.dim(), keepdim);
  if (n - c <= 0) {
    const double factor = std::nan("");
    const double scale = n == c ? std::numeric_limits<double>::infinity() : factor;
    return mul(g, Scalar(scale)) * (self - mean(self, dims, true)) * 2;
  }
  return mul(g, Scalar(2.0 / (n - c))) * (self - mean(self, dims, true));
}
Tensor std_backward(const Tensor& result, const Tensor& grad, const Tensor& self, OptionalDims dims,
                    const std::optional<Scalar>& correction, bool keepdim) {
  return var_backward(masked_fill(grad / (result * 2), eq(result, 0), 0), self, dims, correction, keepdim);
}
Tensor var_mean_backward(const Tensor& grad_var, const Tensor& grad_mean, const Tensor& self, OptionalDims dims,
                         const std::optional<Scalar>& correction, bool keepdim) {
  Tensor r;
  if (grad_var.defined()) r = var_backward(grad_var, self, dims, correction, keepdim);
  if (grad_mean.defined()) {
    const Tensor g = mean_backward(grad_mean, self.sizes(), dims, keepdim);
    r = r.defined() ? r + g : g;
  }
  return r;
}
Tensor std_mean_backward(const Tensor& grad_std, const Tensor& grad_mean, const Tensor& std, const Tensor& self,
                         OptionalDims dims, const std::optional<Scalar>& correction, bool keepdim) {
  Tensor r;
  if (grad_std.defined()) r = std_backward(std, grad_std, self, dims, correction, keepdim);
  if (grad_mean.defined()) {
    const Tensor g = mean_backward(grad_mean, self.sizes(), dims, keepdim);
    r = r.defined() ? r + g : g;
  }
  return r;
}

Tensor logsumexp_backward(const Tensor& grad, const Tensor& self, const Tensor& result, IntList dims, bool keepdim) {
  const Tensor g = unsqueeze_dims(grad, dims, self.dim(), keepdim),
               r = unsqueeze_dims(result, dims, self.dim(), keepdim);
  return g * conj_of(exp(self - masked_fill(r, eq(r, -std::numeric_limits<double>::infinity()), 0)));
}

Tensor vector_norm_backward(const Tensor& grad, const Tensor& self, const Scalar& ord, const Tensor& norm,
                            OptionalDims dims, bool keepdim) {
  const double p = ord.to_double();
  const Tensor g = unsqueeze_dims(grad, dims, self.dim(), keepdim), n = unsqueeze_dims(norm, dims, self.dim(), keepdim);
  if (p == 0.0) return zeros_like(self);
  if (p == 1.0) return sgn(self) * g;
  if (p == 2.0) return masked_fill(self * (g / n), eq(n, 0), 0);
  if (std::isinf(p)) {
    const Tensor size = abs(self);
    const Tensor mask = eq(size, n);
    const Tensor shared = mask / sum(mask, dims, true);
    return sgn(self) * shared * g;
  }
  if (p < 1.0) {
    const Tensor direction = sgn(self) * masked_fill(pow(abs(self), Scalar(p - 1)), eq(self, 0), 0);
    return direction * g * pow(n, Scalar(1 - p));
  }
  if (p < 2.0) {
    const Tensor direction = sgn(self) * pow(abs(self), Scalar(p - 1));
    return masked_fill(direction * (g / pow(n, Scalar(p - 1))), eq(n, 0), 0);
  }
  // Where the norm is 0 the direction is, too: any other divisor will do, for second derivatives as well.
  const Tensor direction = self * pow(abs(self), Scalar(p - 2));
  return direction * (g / pow(masked_fill(n, eq(n, 0), 1), Scalar(p - 1)));
}

Tensor reduced_tangent(const Tensor& tangent, const Tensor& weights, OptionalDims dims, bool keepdim) {
  const Tensor products = tangent * conj_of(weights);
  return products.dim() == 0 ? products : sum(products, dims, keepdim);
}
Tensor reduced_tangent(const Tensor& tangent, const Tensor& weights, int64_t dim, bool keepdim) {
  return reduced_tangent(tangent, weights, OptionalDims(IntList(&dim, 1)), keepdim);
}

Tensor value_selecting_tangent(const Tensor& tangent, int64_t dim, const Tensor& indices, bool keepdim) {
  if (tangent.dim() == 0) return tangent;
  if (keepdim) return gather(tangent, dim, indices);
  return squeeze(gather(tangent, dim, unsqueeze(indices, wrap_dim(dim, tangent.dim()))), wrap_dim(dim, tangent.dim()));
}

std::array<Tensor, 2> aminmax_tangent(const Tensor& tangent, const Tensor& self, const Tensor& min, const Tensor& max,
                                      std::optional<int64_t> dim, bool keepdim) {
  OptionalDims dims;
  if (dim) dims = IntList(&*dim, 1);
  return {
      reduced_tangent(tangent, aminmax_backward(ones_like(min), Tensor(), self, min, max, dim, keepdim), dims, keepdim),
      reduced_tangent(tangent, aminmax_backward(Tensor(), ones_like(max), self, min, max, dim, keepdim), dims,
                      keepdim)};
}

Tensor cumsum_backward(const Tensor& grad, int64_t dim) { return grad.dim() == 0 ? grad : reversed_cumsum(grad, dim); }

Tensor cumprod_backward(const Tensor& grad, const Tensor& self, int64_t dim, const Tensor& result) {
  if (self.numel() <= 1 || self.dim() == 0) return clone(grad);
  const int64_t d = wrap_dim(dim, self.dim()), n = self.sizes()[d];
  if (n == 1) return clone(grad);
  if (!grad_mode_enabled() && may_look_at(self) && all(self).item<bool>())
    return reversed_cumsum(conj_of(result) * grad, d) / conj_of(self);
  // With zeros, or where gradients of this are wanted: d out[j] / d in[i] = prod of in[0..j] without in[i].
  std::vector<Tensor> parts;
  const Tensor one = ones_like(select(self, d, 0));
  Tensor before = one;
  for (int64_t i = 0; i < n; ++i) {
    Tensor rest = before, total;
    for (int64_t j = i; j < n; ++j) {
      if (j > i) rest = rest * select(self, d, j);
      const Tensor term = select(grad, d, j) * conj_of(rest);
      total = total.defined() ? total + term : term;
    }
    parts.push_back(total);
    before = before * select(self, d, i);
  }
  return stack(parts, d);
}

// sum over j >= i of g_j exp(x_i - y_j), in logarithms so that nothing overflows; positive and negative gradients
// apart.
namespace {
// The logarithms of positive and of negative numbers; elsewhere the lowest number: -inf would give nan in second
// derivatives (-inf minus -inf).
std::array<Tensor, 2> logs_by_sign(const Tensor& t) {
  const double lowest = t.dtype() == DType::kFloat16 ? -6e4 : t.dtype() == DType::kFloat64 ? -1e300 : -1e38;
  const Tensor size = log(abs(t)), floor = full_like(t, lowest);
  return {where(gt(t, 0), size, floor), where(lt(t, 0), size, floor)};
}
}  // namespace

Tensor logcumsumexp_backward(const Tensor& grad, const Tensor& self, const Tensor& result, int64_t dim) {
  if (grad.dim() == 0 || grad.numel() == 0) return grad;
  auto reverse = [dim](const Tensor& x) { return flip_along(logcumsumexp(flip_along(x, dim), dim), dim); };
  if (grad.is_complex()) return exp(reverse(log(grad) - conj_of(result)) + conj_of(self));
  const auto [above, below] = logs_by_sign(grad);
  return exp(reverse(above - result) + self) - exp(reverse(below - result) + self);
}

Tensor logcumsumexp_tangent(const Tensor& tangent, const Tensor& self, const Tensor& result, int64_t dim) {
  if (tangent.dim() == 0 || tangent.numel() == 0) return tangent;
  if (tangent.is_complex()) return exp(logcumsumexp(log(tangent) + self, dim) - result);
  const auto [above, below] = logs_by_sign(tangent);
  return exp(logcumsumexp(above + self, dim) - result) - exp(logcumsumexp(below + self, dim) - result);
}

Tensor cumextreme_backward(const Tensor& grad, const Tensor& self, const Tensor& indices, int64_t dim) {
  if (!grad.defined() || self.numel() == 0) return self.numel() == 0 ? zeros_like(self) : Tensor();
  if (self.dim() == 0) return grad;
  return scatter_add(zeros(self.sym_sizes(), grad.dtype(), std::nullopt, grad.device()), dim, indices, grad);
}

// With y = softmax(x) and gx = y (g - sum(g y)): the gradient of gx with respect to y.
Tensor softmax_double_backward(const Tensor& grad, const Tensor& grad_output, const Tensor& output, int64_t dim) {
  const IntVector d{dim};
  return grad_output * grad - sum(output * grad_output, d, true) * grad - grad_output * sum(grad * output, d, true);
}
// With y = log_softmax(x) and gx = g - exp(y) sum(g).
Tensor log_softmax_double_backward(const Tensor& grad, const Tensor& grad_output, const Tensor& output, int64_t dim) {
  return neg(grad * exp(output)) * sum(grad_output, IntVector{dim}, true);
}

}  // namespace tessera::autograd::formulas
