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

// Numbers of a complex dtype lie as pairs of real ones: offsets and strides of such a view count in other units.
bool pairs_differ(DType a, DType b) { return is_complex(a) != is_complex(b); }

}  // namespace

ViewGeometry::ViewGeometry(const Tensor& view, const Tensor& base)
    : sizes(to_vector(view.sizes())),
      strides(to_vector(view.strides())),
      offset(view.storage_offset()),
      dtype(view.dtype()),
      conjugate(view.is_conj() != base.is_conj()),
      negative(view.is_neg() != base.is_neg()) {
  if (!pairs_differ(dtype, base.dtype())) {
    offset -= base.storage_offset();
  } else if (is_complex(base.dtype())) {
    offset -= 2 * base.storage_offset();
  } else {
    offset = 2 * offset - base.storage_offset();
  }
}

Tensor ViewGeometry::of(const Tensor& base) const {
  Tensor r;
  if (!pairs_differ(dtype, base.dtype())) {
    r = tessera::as_strided(base, sizes, strides, offset + base.storage_offset());
  } else if (is_complex(base.dtype())) {
    const Tensor real = tessera::view_as_real(base);
    r = tessera::as_strided(real, sizes, strides, offset + real.storage_offset());
  } else {
    IntVector pairs = sizes, steps = strides;
    for (int64_t& s : steps) s *= 2;
    pairs.push_back(2);
    steps.push_back(1);
    r = tessera::view_as_complex(tessera::as_strided(base, pairs, steps, offset + base.storage_offset()));
  }
  if (conjugate) r = tessera::_conj(r);
  return negative ? tessera::_neg_view(r) : r;
}

bool ViewGeometry::is_strided(const Tensor& base) const { return dtype == base.dtype() && !conjugate && !negative; }

void regenerate_view_history(const Tensor& t, const Tensor& base) {
  AutogradMeta& m = t.impl()->materialize_autograd_meta();
  const ViewGeometry geometry(t, base);
  if (m.view_fn || !geometry.is_strided(base)) {
    const NoGradGuard with_grad(true);
    const Tensor fresh = m.view_fn ? static_cast<ViewFn&>(*m.view_fn).replay(base) : geometry.of(base);
    // (Not gradient_edge(): a view that nothing was recorded of would be renewed in turn.)
    AutogradMeta* made = fresh.impl()->autograd_meta();
    set_gradient_edge(t,
                      made && made->grad_fn
                          ? Edge{IntrusivePtr<Node>::share(static_cast<Node*>(made->grad_fn.get())), fresh.output_nr()}
                          : Edge{});
    return;
  }
  auto node = make_intrusive<AsStridedBackward>();
  node->base_sizes = to_vector(base.sizes());
  node->base_strides = to_vector(base.strides());
  node->base_offset = base.storage_offset();
  node->view_sizes = geometry.sizes;
  node->view_strides = geometry.strides;
  node->view_offset = t.storage_offset();
  node->add_edge(gradient_edge(base));
  const uint32_t nr = node->add_output(t);
  set_gradient_edge(t, {node, nr});
}

CopySlices::CopySlices(const Tensor& base, const Tensor& view, IntrusivePtr<Node> write)
    : base_(base.impl()->shape()), view_(view, base), write_(std::move(write)) {
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
  Tensor slice = view_fn_ ? static_cast<ViewFn&>(*view_fn_).replay(copy) : view_.of(copy);
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
