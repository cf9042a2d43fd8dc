#include "autograd/accumulate_grad.h"

#include <algorithm>

#include "autograd/variable.h"
#include "tensor/ops/api.h"

namespace tessera::autograd {

AccumulateGrad::AccumulateGrad(const Tensor& leaf) : Node(UINT64_MAX), variable_(leaf) { add_output(leaf); }

AccumulateGrad::~AccumulateGrad() {
  AutogradMeta* m = variable_.impl()->autograd_meta();
  RefCounted* self = this;
  if (m) m->grad_accumulator.compare_exchange_strong(self, nullptr);
}

Tensor add_gradients(const Tensor& a, const Tensor& b) { return tessera::add(a, b); }

namespace {
bool same_layout(const Tensor& a, const Tensor& b) {
  for (int64_t i = 0; i < a.dim(); ++i)
    if (a.sizes()[i] > 1 && a.strides()[i] != b.strides()[i]) return false;
  return true;
}

// The gradient as the leaf wants it: its strides if it is dense, else row-major; a copy unless nobody else can see it.
Tensor first_gradient(const Tensor& leaf, const Tensor& grad, bool may_steal) {
  if (grad.keys().has(DispatchKey::kPython)) [[unlikely]]
    return grad_mode_enabled() ? tessera::clone(grad) : detached(grad);
  const bool keeps_strides = leaf.is_non_overlapping_and_dense();
  const bool fits =
      keeps_strides ? same_layout(leaf, grad) && grad.is_non_overlapping_and_dense() : grad.is_contiguous();
  if (grad_mode_enabled()) return fits ? tessera::clone(grad) : tessera::clone(grad, MemoryFormat::kContiguous);
  if (fits && may_steal) return detached(grad);
  Tensor r = empty_tensor(grad.sizes(), keeps_strides ? leaf.strides() : IntList(), grad.dtype(), grad.device());
  tessera::copy_(r, grad);
  return r;
}
}  // namespace

variable_list AccumulateGrad::apply(variable_list&& grads) {
  if (grads.empty() || !grads[0].defined() || !variable_.requires_grad()) return {};
  Tensor grad = std::move(grads[0]);
  auto* hooks = dynamic_cast<LeafHooks*>(variable_.impl()->autograd_meta()->hooks.get());
  AutogradMeta& m = variable_.impl()->materialize_autograd_meta();
  if (!m.grad) {
    // One reference is ours: the engine has given its own away.
    m.grad = first_gradient(variable_, grad,
                            grad.impl()->use_count() <= 1 && grad.storage() && grad.storage()->use_count() <= 1)
                 .impl_ptr();
  } else if (grad_mode_enabled()) {
    m.grad = tessera::add(Tensor(m.grad), grad).impl_ptr();
  } else {
    tessera::add_(Tensor(m.grad), grad);
  }
  if (hooks) {
    const auto entries = hooks->post_accumulate.entries;  // a hook may remove itself
    for (const auto& e : entries) e.hook->call(variable_);
  }
  return {};
}

}  // namespace tessera::autograd
