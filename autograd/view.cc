#include "autograd/view.h"

#include "autograd/variable.h"
#include "tensor/ops/api.h"

namespace tessera::autograd {
namespace {

// Gradient of as_strided from a base of a given geometry, for views whose history is made anew.
class AsStridedBackward final : public Node {
 public:
  AsStridedBackward() { frees_nothing(); }
  variable_list apply(variable_list&& grads) override {
    if (grads.empty() || !grads[0].defined()) return variable_list(1);
    return {tessera::as_strided_backward(grads[0], base_sizes, base_strides, base_offset, view_sizes, view_strides,
                                         view_offset)};
  }
  const char* name() const override { return "AsStridedBackward0"; }
  IntVector base_sizes, base_strides, view_sizes, view_strides;
  int64_t base_offset = 0, view_offset = 0;
};

}  // namespace

void regenerate_view_history(const Tensor& t, const Tensor& base) {
  AutogradMeta& m = t.impl()->materialize_autograd_meta();
  if (m.view_fn) {
    const NoGradGuard with_grad(true);
    const Tensor fresh = static_cast<ViewFn&>(*m.view_fn).replay(base);
    set_gradient_edge(t, gradient_edge(fresh));
    return;
  }
  auto node = make_intrusive<AsStridedBackward>();
  node->base_sizes = to_vector(base.sizes());
  node->base_strides = to_vector(base.strides());
  node->base_offset = base.storage_offset();
  node->view_sizes = to_vector(t.sizes());
  node->view_strides = to_vector(t.strides());
  node->view_offset = t.storage_offset();
  node->add_edge(gradient_edge(base));
  const uint32_t nr = node->add_output(t);
  set_gradient_edge(t, {node, nr});
}

CopySlices::CopySlices(const Tensor& base, const Tensor& view, IntrusivePtr<Node> write)
    : base_(base.impl()->shape()),
      view_(view.impl()->shape()),
      base_offset_(base.storage_offset()),
      view_offset_(view.storage_offset()),
      write_(std::move(write)) {
  if (AutogradMeta* m = view.impl()->autograd_meta()) view_fn_ = m->view_fn;
  // The first edge is the base before the write; the others are the write's other inputs.
  add_edge(gradient_edge(base));
  for (size_t i = 1; i < write_->edges().size(); ++i) add_edge(write_->edges()[i]);
}

variable_list CopySlices::apply(variable_list&& grads) {
  variable_list result(edges().size());
  if (grads.empty() || !grads[0].defined()) return result;
  TESSERA_CHECK(write_,
                "Trying to backward through the graph a second time (or directly access saved tensors after they have "
                "already been freed). Specify retain_graph=True if you need to.");
  const Tensor& grad = grads[0];
  // A writable copy in the base's own geometry.
  Tensor copy = tessera::new_empty_strided(grad, base_.sizes(), base_.strides());
  tessera::copy_(copy, grad);
  Tensor slice = view_fn_ ? static_cast<ViewFn&>(*view_fn_).replay(copy)
                          : tessera::as_strided(copy, view_.sizes(), view_.strides(), view_offset_ - base_offset_);
  variable_list in{tessera::clone(slice)};
  const variable_list out = write_->apply(std::move(in));
  for (size_t i = 0; i < out.size() && i < result.size(); ++i) {
    if (i == 0) {
      if (out[0].defined())
        tessera::copy_(slice, out[0]);
      else
        tessera::zero_(slice);
      result[0] = copy;
    } else {
      result[i] = out[i];
    }
  }
  if (out.empty()) {
    tessera::zero_(slice);
    result[0] = copy;
  }
  return result;
}

void CopySlices::release_variables() {
  // Second derivatives may have led to the write itself, which then frees what it saved when it has run.
  write_.reset();
}

}  // namespace tessera::autograd
