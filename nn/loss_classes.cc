// Losses whose targets are classes.
#include "nn/loss_extra.h"
#include "nn/loss_kernels.h"
#include "nn/nn_ops.h"
#include "nn/cpu/loss.h"
#include "nn/engine/loss.h"
#include "tensor/core/transforms.h"
#include "tensor/ops/api.h"
#include "tensor/ops/plain.h"
#include "tensor/ops/result_memory.h"

namespace tessera::kernels {
namespace {

// (batch, classes, inner) of an input (C), (N, C) or (N, C, H, W).
struct ClassShape {
  int64_t batch = 1, classes = 1, inner = 1;
};
ClassShape class_shape(const Tensor& self) {
  ClassShape s;
  if (self.dim() == 1) {
    s.classes = self.sizes()[0];
    return s;
  }
  s.batch = self.sizes()[0];
  s.classes = self.sizes()[1];
  for (int64_t d = 2; d < self.dim(); ++d) s.inner *= self.sizes()[d];
  return s;
}

void check_nll(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t reduction) {
  TESSERA_CHECK_VALUE(reduction >= 0 && reduction <= 2, reduction,
                      " is not a valid value for reduction: 0 (none), 1 (mean) or 2 (sum)");
  TESSERA_CHECK_NOT_IMPLEMENTED(self.is_floating_point(), "\"nll_loss_out_frame\" not implemented for '",
                                type_name_of(self.dtype()), "'");
  TESSERA_CHECK(target.dtype() == DType::kInt64 || target.dtype() == DType::kUInt8,
                "expected scalar type Long but found ", type_name_of(target.dtype()));
  const int64_t classes = class_shape(self).classes;
  if (!weight.defined()) return;
  TESSERA_CHECK(weight.dim() == 1 && weight.numel() == classes, "weight tensor should be defined either for all ",
                classes, " classes or no classes but got weight tensor of shape: ", shape_string(weight.sizes()));
  TESSERA_CHECK(weight.dtype() == self.dtype(), "expected scalar type ", type_name_of(self.dtype()), " but found ",
                type_name_of(weight.dtype()));
}
void check_shapes(const Tensor& self, const Tensor& target) {
  TESSERA_CHECK(self.dim() == 1 || self.dim() == 2, "input tensor should be 1D or 2D");
  TESSERA_CHECK(target.dim() <= 1, "0D or 1D target tensor expected, multi-target not supported");
  const bool fits = self.dim() == 1 ? target.numel() == 1 : target.dim() == 1 && self.sizes()[0] == target.sizes()[0];
  TESSERA_CHECK(fits, "size mismatch (got input: ", shape_string(self.sizes()),
                ", target: ", shape_string(target.sizes()), ")");
}
void check_shapes_2d(const Tensor& self, const Tensor& target) {
  TESSERA_CHECK(target.dim() == 3,
                "only batches of spatial targets supported (3D tensors) but got targets of dimension: ", target.dim());
  TESSERA_CHECK(self.dim() == 4,
                "only batches of spatial inputs supported (4D tensors), but got input of dimension: ", self.dim());
  TESSERA_CHECK(self.sizes()[0] == target.sizes()[0] && self.sizes()[2] == target.sizes()[1] &&
                    self.sizes()[3] == target.sizes()[2],
                "size mismatch (got input: ", shape_string(self.sizes()), " , target: ", shape_string(target.sizes()),
                ")");
}
std::array<OutputSpec, 2> nll_specs(const Tensor& self, const Tensor& target, int64_t reduction) {
  return {OutputSpec(self, reduction == 0 ? target.sizes() : IntList()), OutputSpec(self, IntList())};
}
OutputSpec nll_backward_spec(const Tensor& grad_output, const Tensor& self, const Tensor& target, int64_t reduction) {
  if (reduction == 0) {
    TESSERA_CHECK(to_vector(grad_output.sizes()) == to_vector(target.sizes()), "Expected a gradient of shape ",
                  shape_string(target.sizes()), " but got ", shape_string(grad_output.sizes()));
  } else {
    TESSERA_CHECK(grad_output.numel() == 1,
                  "Expected a single element grad_output tensor, but got: ", shape_string(grad_output.sizes()));
  }
  TESSERA_CHECK(grad_output.dtype() == self.dtype(), "expected scalar type ", type_name_of(self.dtype()), " but found ",
                type_name_of(grad_output.dtype()));
  return OutputSpec(self, self.sizes());
}

// The tensors as the raw kernels want them.
struct NllOperands {
  Tensor target, weight;
  NllOperands(const Tensor& t, const Tensor& w)
      : target(contiguous(to(t, DType::kInt64))), weight(w.defined() ? contiguous(w) : w) {}
  const void* weights() const { return weight.defined() ? weight.data_ptr() : nullptr; }
};

}  // namespace

std::array<OutputSpec, 2> nll_loss_meta(const Tensor& self, const Tensor& target, const Tensor& weight,
                                        int64_t reduction, SymInt) {
  check_shapes(self, target);
  check_nll(self, target, weight, reduction);
  return nll_specs(self, target, reduction);
}
std::array<OutputSpec, 2> nll_loss2d_meta(const Tensor& self, const Tensor& target, const Tensor& weight,
                                          int64_t reduction, SymInt) {
  check_shapes_2d(self, target);
  check_nll(self, target, weight, reduction);
  return nll_specs(self, target, reduction);
}
void nll_forward(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t reduction, SymInt ignore_index,
                 const Tensor& output, const Tensor& total_weight) {
  const NllOperands in(target, weight);
  const Tensor x = contiguous(self);
  const ResultMemory y(output);
  const ClassShape s = class_shape(self);
  TESSERA_ON(self.device(), nll_loss_forward)
  (self.dtype(), s.batch, s.classes, s.inner, x.data_ptr(), in.target.data_ptr<int64_t>(), in.weights(),
   static_cast<cpu::LossReduction>(reduction), ignore_index.guard_int(), y.data(), total_weight.data_ptr());
  y.finish();
}

// With smoothed targets, for any number of dimensions.
std::array<OutputSpec, 2> _smoothed_nll_loss_meta(const Tensor& self, const Tensor& target, const Tensor& weight,
                                                  int64_t reduction, SymInt, double) {
  check_nll(self, target, weight, reduction);
  const ClassShape s = class_shape(self);
  TESSERA_CHECK(target.numel() == s.batch * s.inner, "size mismatch (got input: ", shape_string(self.sizes()),
                ", target: ", shape_string(target.sizes()), ")");
  return nll_specs(self, target, reduction);
}
// What each element of self counts in the loss: its class's part of the smoothing, and the rest at the target.
Tensor smoothed_shares(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t ignore_index,
                       double smoothing) {
  const int64_t dim = self.dim() > 1 ? 1 : 0;
  const Tensor ignored = eq(target, ignore_index), index = unsqueeze(masked_fill(target, ignored, 0), dim);
  IntVector shape(static_cast<size_t>(self.dim()), 1);
  shape[static_cast<size_t>(dim)] = self.size(dim);
  const Tensor weights = weight.defined() ? expand(reshape(weight, shape), self.sizes()) : ones_like(self);
  const Tensor spread = mul(weights, Scalar(smoothing / static_cast<double>(self.size(dim))));
  const Tensor own = mul(gather(weights, dim, index), Scalar(1 - smoothing));
  return masked_fill(scatter_add(spread, dim, index, own), unsqueeze(ignored, dim), 0);
}
void _smoothed_nll_loss_kernel(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t reduction,
                               SymInt ignore_index, double smoothing, const Tensor& output,
                               const Tensor& total_weight) {
  const auto forward = nn::LossEngines::of(self.device().type).smoothed_loss_forward;
  if (!forward) {
    const int64_t dim = self.dim() > 1 ? 1 : 0, ignore = ignore_index.guard_int();
    const Tensor shares = smoothed_shares(self, target, weight, ignore, smoothing);
    const Tensor each = neg(sum(mul(masked_fill(self, eq(shares, 0), 0), shares), IntList(&dim, 1), false));
    // Without smoothing what a target counts is its weight.
    const Tensor total =
        reduction == 1 ? sum(smoothed_shares(self, target, weight, ignore, 0)) : zeros_like(total_weight);
    copy__kernel(total_weight, total, false);
    copy__kernel(output, reduction == 0 ? each : reduction == 1 ? div(sum(each), total) : sum(each), false);
    return;
  }
  const NllOperands in(target, weight);
  const Tensor x = contiguous(self);
  const ResultMemory y(output);
  const ClassShape s = class_shape(self);
  internal::select_device(self.device(), "smoothed_loss_forward");
  forward(self.dtype(), s.batch, s.classes, s.inner, x.data_ptr(), in.target.data_ptr<int64_t>(), in.weights(),
          static_cast<cpu::LossReduction>(reduction), ignore_index.guard_int(), smoothing, y.data(),
          total_weight.data_ptr());
  y.finish();
}
Tensor smoothed_loss_gradient(const Tensor& grad, const Tensor& self, const Tensor& target, const Tensor& weight,
                              int64_t reduction, int64_t ignore_index, double smoothing, const Tensor& total_weight) {
  const auto backward = nn::LossEngines::of(self.device().type).smoothed_loss_backward;
  if (!backward || !plain_on_device({&self, &grad, &target, &weight, &total_weight})) return {};
  const NllOperands in(target, weight);
  const Tensor g = contiguous(grad), y = empty_from(OutputSpec(self, self.sizes()));
  const ClassShape s = class_shape(self);
  internal::select_device(self.device(), "smoothed_loss_backward");
  backward(self.dtype(), s.batch, s.classes, s.inner, g.data_ptr(), in.target.data_ptr<int64_t>(), in.weights(),
           static_cast<cpu::LossReduction>(reduction), ignore_index, smoothing, total_weight.data_ptr(), y.data_ptr());
  return y;
}

OutputSpec nll_loss_backward_meta(const Tensor& grad_output, const Tensor& self, const Tensor& target,
                                  const Tensor& weight, int64_t reduction, SymInt, const Tensor&) {
  check_shapes(self, target);
  check_nll(self, target, weight, reduction);
  return nll_backward_spec(grad_output, self, target, reduction);
}
OutputSpec nll_loss2d_backward_meta(const Tensor& grad_output, const Tensor& self, const Tensor& target,
                                    const Tensor& weight, int64_t reduction, SymInt, const Tensor&) {
  check_shapes_2d(self, target);
  check_nll(self, target, weight, reduction);
  return nll_backward_spec(grad_output, self, target, reduction);
}
void nll_backward(const Tensor& grad_output, const Tensor& self, const Tensor& target, const Tensor& weight,
                  int64_t reduction, SymInt ignore_index, const Tensor& total_weight, const Tensor& out) {
  const NllOperands in(target, weight);
  const Tensor g = contiguous(grad_output);
  const ResultMemory y(out);
  const ClassShape s = class_shape(self);
  TESSERA_ON(self.device(), nll_loss_backward)
  (self.dtype(), s.batch, s.classes, s.inner, g.data_ptr(), in.target.data_ptr<int64_t>(), in.weights(),
   static_cast<cpu::LossReduction>(reduction), ignore_index.guard_int(), total_weight.data_ptr(), y.data());
  y.finish();
}

Tensor nll_loss_nd_composite(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t reduction,
                             SymInt ignore_index) {
  TESSERA_CHECK_VALUE(self.dim() >= 1, "Expected 1 or more dimensions (got ", self.dim(), ")");
  if (self.dim() > 1) {
    TESSERA_CHECK_VALUE(target.dim() >= 1 && self.sizes()[0] == target.sizes()[0], "Expected input batch_size (",
                        self.sizes()[0], ") to match target batch_size (", target.dim() ? target.sizes()[0] : 0, ").");
  }
  if (self.dim() <= 2) return nll_loss(self, target, weight, reduction, ignore_index);
  if (self.dim() == 4) return nll_loss2d(self, target, weight, reduction, ignore_index);
  const int64_t n = self.sizes()[0], c = self.sizes()[1];
  IntVector wanted = to_vector(self.sizes());
  wanted.erase(wanted.begin() + 1);
  TESSERA_CHECK(to_vector(target.sizes()) == wanted, "Expected target size ", shape_string(wanted), ", got ",
                shape_string(target.sizes()));
  const int64_t inner = checked_numel(IntList(wanted).subspan(1));
  const Tensor loss =
      nll_loss2d(reshape(self, {n, c, 1, inner}), reshape(target, {n, 1, inner}), weight, reduction, ignore_index);
  return reduction == 0 ? reshape(loss, IntList(wanted)) : loss;
}

// --- cross entropy ---

namespace {

// One weight a class, in a shape that broadcasts with the input.
Tensor class_weights(const Tensor& weight, const Tensor& input, int64_t class_dim) {
  const int64_t classes = input.sizes()[class_dim];
  TESSERA_CHECK(weight.dim() == 1 && weight.numel() == classes,
                "cross_entropy: weight tensor should be defined either for all ", classes,
                " classes or no classes but got weight tensor of shape: ", shape_string(weight.sizes()));
  IntVector shape(static_cast<size_t>(input.dim()), 1);
  shape[class_dim] = classes;
  return reshape(weight, IntList(shape));
}
Tensor class_sum(const Tensor& t, int64_t class_dim) {
  const int64_t dims[1] = {class_dim};
  return neg(sum(t, IntList(dims), false, std::nullopt));
}

Tensor with_probabilities(const Tensor& self, const Tensor& target0, const Tensor& weight, int64_t reduction,
                          double smoothing, int64_t class_dim) {
  const int64_t classes = self.sizes()[class_dim];
  const Tensor input = log_softmax(self, class_dim, std::nullopt);
  const Tensor target = smoothing > 0
                            ? add(mul(target0, Scalar(1 - smoothing)), Scalar(smoothing / static_cast<double>(classes)))
                            : target0;
  Tensor each = mul(input, target);
  if (weight.defined()) each = mul(each, class_weights(weight, input, class_dim));
  if (reduction == 0) return class_sum(each, class_dim);
  const Tensor total = neg(sum(each));
  return reduction == 2 ? total : div(total, Scalar(static_cast<double>(input.numel()) / static_cast<double>(classes)));
}

Tensor with_smoothing(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t reduction,
                      int64_t ignore_index, double smoothing, int64_t class_dim) {
  const int64_t classes = self.sizes()[class_dim];
  const Tensor input = log_softmax(self, class_dim, std::nullopt);
  const Tensor loss = nll_loss_nd(input, target, weight, reduction, ignore_index);
  const Tensor ignored = eq(target, ignore_index);
  Tensor smooth = class_sum(weight.defined() ? mul(input, class_weights(weight, input, class_dim)) : input, class_dim);
  smooth = masked_fill(smooth, ignored, 0);
  if (reduction != 0) {
    smooth = sum(smooth);
    if (reduction == 1) {
      // Over what counts in the other term as well: the weights of the targets.
      const Tensor counted = logical_not(ignored);
      const Tensor weights =
          weight.defined()
              ? mul(index_select(weight, 0, reshape(masked_fill(target, ignored, 0), {-1})), reshape(counted, {-1}))
              : counted;
      smooth = div(smooth, sum(weights));
    }
  }
  return add(mul(loss, Scalar(1 - smoothing)), mul(smooth, Scalar(smoothing / static_cast<double>(classes))));
}

// Whether the device has that as one operator, and the shapes are those of a batch (others get their errors elsewhere).
bool smooths_at_once(const Tensor& self, const Tensor& target, const Tensor& weight) {
  if (!plain_on_device({&self, &target, &weight}) || !nn::LossEngines::of(self.device().type).smoothed_loss_forward)
    return false;
  if (weight.defined() && (weight.dtype() != self.dtype() || (weight.requires_grad() && grad_mode_enabled())))
    return false;
  IntVector sizes = to_vector(self.sizes());
  sizes.erase(sizes.begin() + (self.dim() > 1));
  return self.numel() > 0 && target.dtype() == DType::kInt64 && to_vector(target.sizes()) == sizes;
}

}  // namespace

Tensor cross_entropy_loss_composite(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t reduction,
                                    SymInt ignore_index, double label_smoothing) {
  TESSERA_CHECK(label_smoothing >= 0 && label_smoothing <= 1,
                "label_smoothing must be between 0.0 and 1.0. Got: ", label_smoothing);
  TESSERA_CHECK_VALUE(reduction >= 0 && reduction <= 2, reduction,
                      " is not a valid value for reduction: 0 (none), 1 (mean) or 2 (sum)");
  TESSERA_CHECK_VALUE(self.dim() >= 1, "Expected 1 or more dimensions (got ", self.dim(), ")");
  const int64_t class_dim = self.dim() == 1 ? 0 : 1;
  if (to_vector(self.sizes()) == to_vector(target.sizes())) {
    TESSERA_CHECK(target.is_floating_point(), "Expected floating point type for target with class probabilities, got ",
                  type_name_of(target.dtype()));
    TESSERA_CHECK(ignore_index.guard_int() < 0, "ignore_index is not supported for floating point target");
    return with_probabilities(self, target, weight, reduction, label_smoothing, class_dim);
  }
  if (label_smoothing > 0 && smooths_at_once(self, target, weight))
    return std::get<0>(_smoothed_nll_loss(log_softmax(self, class_dim, std::nullopt), target, weight, reduction,
                                          ignore_index, label_smoothing));
  if (label_smoothing > 0)
    return with_smoothing(self, target, weight, reduction, ignore_index.guard_int(), label_smoothing, class_dim);
  return nll_loss_nd(log_softmax(self, class_dim, std::nullopt), target, weight, reduction, ignore_index);
}

// --- margins between classes ---

namespace {
// Input and target as rows.
std::pair<Tensor, Tensor> class_rows(const Tensor& self, const Tensor& target, bool targets_per_class) {
  TESSERA_CHECK(
      (self.dim() == 2 && self.sizes()[1] != 0) || (self.dim() == 1 && self.numel() != 0) || self.dim() == 0,
      "Expected non-empty vector or matrix with optional 0-dim batch size, but got: ", shape_string(self.sizes()));
  const Tensor x = self.dim() == 2 ? self : reshape(self, {1, -1});
  if (targets_per_class) {
    TESSERA_CHECK(to_vector(target.sizes()) == to_vector(self.sizes()),
                  "inconsistent target size: ", shape_string(target.sizes()),
                  " for input of size: ", shape_string(self.sizes()));
    return {x, reshape(target, x.sizes())};
  }
  TESSERA_CHECK(target.dim() <= 1 && target.numel() == x.sizes()[0], "inconsistent target size, expected ",
                x.sizes()[0], " but got ", shape_string(target.sizes()));
  return {x, reshape(target, {-1})};
}
void check_range(const Tensor& target, int64_t low, int64_t classes) {
  TESSERA_CHECK(target.dtype() == DType::kInt64, "expected scalar type Long but found ", type_name_of(target.dtype()));
  // Inside of a function transform there may be many of them, too: gather refuses what is out of range.
  TESSERA_CHECK(values_unknown(target) || target.numel() == 0 || is_transformed(target) || is_observed() ||
                    item(all(logical_and(ge(target, low), lt(target, classes)))).to_bool(),
                "target out of range: expected values of [", low, ", ", classes, ")");
}
}  // namespace

Tensor multi_margin_loss_composite(const Tensor& self, const Tensor& target, const Scalar& p, const Scalar& margin,
                                   const Tensor& weight, int64_t reduction) {
  TESSERA_CHECK_VALUE(p.equals(1) || p.equals(2), "only p == 1 and p == 2 supported, got ", p.to_double());
  const auto [x, t] = class_rows(self, target, false);
  const int64_t classes = x.sizes()[1];
  check_range(t, 0, classes);
  const Tensor index = unsqueeze(t, 1);
  Tensor each = clamp_min(add(sub(x, gather(x, 1, index)), margin), 0);
  if (p.equals(2)) each = mul(each, each);
  if (weight.defined()) {
    TESSERA_CHECK(weight.dim() <= 1 && weight.numel() == classes, "inconsistent weight size, expected ", classes,
                  " but got ", shape_string(weight.sizes()));
    each = mul(each, unsqueeze(index_select(weight, 0, t), 1));
  }
  const int64_t dims[1] = {1};
  const Tensor loss = div(sum(scatter(each, 1, index, Scalar(0)), IntList(dims), false, std::nullopt),
                          Scalar(static_cast<double>(classes)));
  return reduced(reduction == 0 && target.dim() == 0 ? squeeze(loss, 0) : loss, reduction);
}

Tensor multilabel_margin_loss_composite(const Tensor& self, const Tensor& target, int64_t reduction) {
  const auto [x, t] = class_rows(self, target, true);
  const int64_t classes = x.sizes()[1];
  check_range(t, -1, classes);
  const Tensor counts = eq(cumsum(lt(t, 0), 1, std::nullopt), 0), index = masked_fill(t, logical_not(counts), 0);
  const Tensor is_target = gt(scatter_add(zeros_like(index), 1, index, to(counts, DType::kInt64)), 0);
  const Tensor other = logical_not(is_target), pairs = logical_and(unsqueeze(counts, 2), unsqueeze(other, 1));
  const Tensor each = clamp_min(rsub(sub(unsqueeze(gather(x, 1, index), 2), unsqueeze(x, 1)), 1), 0);
  const int64_t dims[2] = {1, 2};
  const Tensor loss = div(sum(masked_fill(each, logical_not(pairs), 0), IntList(dims), false, std::nullopt),
                          Scalar(static_cast<double>(classes)));
  return reduced(self.dim() == 2 ? loss : squeeze(loss, 0), reduction);
}

}  // namespace tessera::kernels
