#include "tensor/ops/structured.h"

#include <algorithm>
#include <string_view>

#include "tensor/dispatch/op.h"
#include "tensor/ops/inference_writes.h"

namespace tessera {
namespace op {
extern constinit Op<const Tensor&(const Tensor&, const Tensor&, bool)> copy_;  // of the op table beside this file
extern constinit Op<Tensor(const Tensor&, std::optional<MemoryFormat>)> clone;
}  // namespace op
namespace structured {
namespace {

void check_same_shape(const Tensor& self, IntList sizes) {
  TESSERA_CHECK(std::ranges::equal(self.sizes(), sizes), "output with shape ", shape_string(self.sizes()),
                " doesn't match the broadcast shape ", shape_string(sizes));
}

}  // namespace

bool computes(CallContext ctx, const Tensor& result) {
  if (result.is_meta()) return false;
  TESSERA_CHECK(!ctx.keys.has(DispatchKey::kMeta),
                "Expected all tensors to be on the same device, but found at least two devices, ",
                result.device().str(), " and meta!");
  // Two kinds of memory: no kernel reads both. (_ctc_loss takes lengths from the host.)
  if (ctx.keys.has(DispatchKey::kCUDA) && ctx.keys.has(DispatchKey::kCPU) &&
      std::string_view(ctx.op->name) != "aten::_ctc_loss")
    throw Error(str_cat("Expected all tensors to be on the same device, but found at least two devices, ",
                        result.is_cpu() ? "cpu and cuda" : result.device().str() + " and cpu", "! (of ", ctx.op->name,
                        ")"));
  return true;
}

OutGuard::OutGuard(const Tensor& out, const OutputSpec& spec, OutDtype accepted)
    : out_(out), spec_(spec), temporary_(out.dtype() != spec.dtype) {
  check_out_device(out, spec.device);
  check_out_dtype(out, spec.dtype, accepted);
  if (std::ranges::equal(out.sizes(), spec.sizes)) check_overlap_before_write(out);
}

void OutGuard::reads(const Tensor& input) { temporary_ = temporary_ || writes_over(out_, spec_.sizes, input); }
void OutGuard::reads(TensorList inputs) {
  for (const Tensor& t : inputs) reads(t);
}
void OutGuard::reads(const std::optional<TensorList>& inputs) {
  if (inputs) reads(*inputs);
}

void check_apart(const Tensor& out, const Tensor& input) {
  TESSERA_CHECK(
      !input.defined() || memory_sharing(out, input) == Sharing::kNone,
      "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
      "location. Please clone() the tensor before performing the operation.");
}
void check_apart(const Tensor& out, TensorList inputs) {
  for (const Tensor& t : inputs) check_apart(out, t);
}

const Tensor& OutGuard::tensor() {
  if (temporary_) {
    target_ = empty_from(spec_);
  } else {
    resize_output(out_, spec_.sizes, spec_.strides);
    target_ = out_;
  }
  return target_;
}

void OutGuard::finish() {
  if (!target_.defined() || temporary_) resize_output(out_, spec_.sizes, spec_.strides);
  if (temporary_ && target_.defined()) {
    op::copy_.call(out_, target_, false);
  } else {
    check_inference_write(out_);
    out_.bump_version();
  }
}

InplaceGuard::InplaceGuard(const Tensor& self, const OutputSpec& spec, bool safe) : self_(self), spec_(spec) {
  check_same_shape(self, spec.sizes);
  check_can_cast(spec.dtype, self.dtype());
  check_overlap_before_write(self);
  target_ = safe && self.dtype() == spec.dtype ? self : empty_from(spec);
}

void InplaceGuard::reads(const Tensor& input) {
  if (target_.is_same(self_) && writes_over(self_, self_.sizes(), input)) target_ = empty_from(spec_);
}
void InplaceGuard::reads(TensorList inputs) {
  for (const Tensor& t : inputs) reads(t);
}
void InplaceGuard::reads(const std::optional<TensorList>& inputs) {
  if (inputs) reads(*inputs);
}

void InplaceGuard::finish() {
  if (target_.is_same(self_)) {
    check_inference_write(self_);
    self_.bump_version();
  } else {
    op::copy_.call(self_, target_, false);
  }
}

void check_factory_out(const char* name, const Tensor& out) {
  TESSERA_CHECK(!grad_mode_enabled() || !out.requires_grad(), name,
                "(): functions with out=... arguments don't support automatic differentiation, but one of the "
                "arguments requires grad.");
}

Tensor copy_before_write(const Tensor& self) { return grad_mode_enabled() ? op::clone.call(self, std::nullopt) : self; }

void store_inplace(const Tensor& self, const Tensor& value) {
  check_same_shape(self, value.sizes());
  check_can_cast(value.dtype(), self.dtype());
  op::copy_.call(self, value, false);
}

void check_out(const Tensor& out, const Tensor& value, OutDtype accepted) {
  check_out_device(out, value.device());
  check_out_dtype(out, value.dtype(), accepted);
  if (std::ranges::equal(out.sizes(), value.sizes())) check_overlap_before_write(out);
}

void store_out(const Tensor& out, const Tensor& result, OutDtype accepted) {
  check_out(out, result, accepted);
  // A result may be a view of an input, and so of what is written.
  const Tensor value =
      !out.is_same(result) && writes_over(out, result.sizes(), result) ? op::clone.call(result, std::nullopt) : result;
  resize_output(out, value.sizes(), value.is_contiguous() ? IntVector() : preserved_strides(value));
  op::copy_.call(out, value, false);
}

std::vector<Tensor> multi_output_views(std::vector<Tensor> views) {
  const ViewCreation creation = inference_mode_enabled() ? ViewCreation::kInferenceMode
                                : grad_mode_enabled()    ? ViewCreation::kMultiOutput
                                                         : ViewCreation::kNoGrad;
  for (const Tensor& v : views)
    if (v.is_view()) v.impl()->set_view_creation(creation);
  return views;
}

}  // namespace structured
}  // namespace tessera
