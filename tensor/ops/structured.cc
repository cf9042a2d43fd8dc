#include "tensor/ops/structured.h"

#include <algorithm>

#include "tensor/dispatch/op.h"
#include "tensor/ops/promotion.h"

namespace tessera {
namespace op {
extern constinit Op<const Tensor&(const Tensor&, const Tensor&, bool)> copy_;   // of the op table beside this file
extern constinit Op<Tensor(const Tensor&, std::optional<MemoryFormat>)> clone;
}
namespace structured {
namespace {

void check_device(const Tensor& out, Device device) {
  TESSERA_CHECK(out.device() == device, "Expected out tensor to have device ", device.str(), ", but got ", out.device().str(), " instead");
}

void check_same_shape(const Tensor& self, IntList sizes) {
  TESSERA_CHECK(std::ranges::equal(self.sizes(), sizes), "output with shape ", shape_string(self.sizes()), " doesn't match the broadcast shape ", shape_string(sizes));
}

}  // namespace

bool computes(CallContext ctx, const Tensor& result) {
  if (result.is_meta()) return false;
  TESSERA_CHECK(!ctx.keys.has(DispatchKey::kMeta), "Expected all tensors to be on the same device, but found at least two devices, ", result.device().str(), " and meta!");
  return true;
}

OutGuard::OutGuard(const Tensor& out, const OutputSpec& spec) : out_(out), spec_(spec), temporary_(out.dtype() != spec.dtype) {
  check_device(out, spec.device);
  check_can_cast(spec.dtype, out.dtype());
  if (std::ranges::equal(out.sizes(), spec.sizes)) check_no_internal_overlap(out);
}

void OutGuard::reads(const Tensor& input) { temporary_ = temporary_ || (input.defined() && memory_sharing(out_, input) != Sharing::kNone); }
void OutGuard::reads(TensorList inputs) { for (const Tensor& t : inputs) reads(t); }
void OutGuard::reads(const std::optional<TensorList>& inputs) { if (inputs) reads(*inputs); }

void OutGuard::requires_dtype() {
  TESSERA_CHECK(out_.dtype() == spec_.dtype, "Expected out tensor to have dtype ", name_of(spec_.dtype), ", but got ", name_of(out_.dtype()), " instead");
}

void check_apart(const Tensor& out, const Tensor& input) {
  TESSERA_CHECK(!input.defined() || memory_sharing(out, input) == Sharing::kNone, "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
                "location. Please clone() the tensor before performing the operation.");
}
void check_apart(const Tensor& out, TensorList inputs) { for (const Tensor& t : inputs) check_apart(out, t); }

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
  if (temporary_ && target_.defined()) op::copy_.call(out_, target_, false);
  else out_.bump_version();
}

InplaceGuard::InplaceGuard(const Tensor& self, const OutputSpec& spec, bool safe) : self_(self) {
  check_same_shape(self, spec.sizes);
  check_can_cast(spec.dtype, self.dtype());
  check_no_internal_overlap(self);
  target_ = safe && self.dtype() == spec.dtype ? self : empty_from(spec);
}

void InplaceGuard::finish() {
  if (target_.is_same(self_)) self_.bump_version();
  else op::copy_.call(self_, target_, false);
}

Tensor copy_before_write(const Tensor& self) { return grad_mode_enabled() ? op::clone.call(self, std::nullopt) : self; }

void store_inplace(const Tensor& self, const Tensor& value) {
  check_same_shape(self, value.sizes());
  check_can_cast(value.dtype(), self.dtype());
  op::copy_.call(self, value, false);
}

void store_out(const Tensor& out, const Tensor& value) {
  check_device(out, value.device());
  check_can_cast(value.dtype(), out.dtype());
  resize_output(out, value.sizes(), value.is_contiguous() ? IntVector() : preserved_strides(value));
  op::copy_.call(out, value, false);
}

std::vector<Tensor> multi_output_views(std::vector<Tensor> views) {
  const ViewCreation creation = inference_mode_enabled() ? ViewCreation::kInferenceMode : grad_mode_enabled() ? ViewCreation::kMultiOutput : ViewCreation::kNoGrad;
  for (const Tensor& v : views)
    if (v.is_view()) v.impl()->set_view_creation(creation);
  return views;
}

}  // namespace structured
}  // namespace tessera
