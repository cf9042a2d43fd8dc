#include "autograd/accumulate_grad.h"

#include <algorithm>

#include "autograd/engine.h"
#include "autograd/variable.h"
#include "tensor/core/transforms.h"
#include "tensor/ops/api.h"

namespace tessera::autograd {

namespace {
struct alignas(64) Stripe {
  std::mutex mutex;
};
constexpr size_t kStripes = 64;
// A lock for each leaf would cost memory in every tensor; leaves share these.
std::mutex& stripe(Stripe (&stripes)[kStripes], const TensorImpl* t) {
  return stripes[(reinterpret_cast<uintptr_t>(t) >> 6) * 0x9e3779b97f4a7c15ull >> 58].mutex;
}
Stripe g_lazy[kStripes], g_sums[kStripes];
}  // namespace

std::mutex& leaf_mutex(const TensorImpl* t) { return stripe(g_lazy, t); }

AccumulateGrad::AccumulateGrad(const Tensor& leaf) : Node(UINT64_MAX), variable_(leaf) {
  frees_nothing();
  add_output(leaf);
}
AccumulateGrad::~AccumulateGrad() = default;

IntrusivePtr<Node> AccumulateGrad::shared_from(AutogradMeta& meta) {
  auto* known = static_cast<AccumulateGrad*>(meta.grad_accumulator.load(std::memory_order_acquire));
  if (!known) return nullptr;
  known->retain();
  if (known->use_count() > 1) return IntrusivePtr<Node>::adopt(known);
  known->refused_ = true;  // it is on its way to dispose(), which waits for the lock
  meta.grad_accumulator.store(nullptr, std::memory_order_release);
  return nullptr;
}

// The last reference is given back in one of two ways: the count falls to zero, or a sole owner leaves it at one. A
// count above that means that shared_from lent the node to somebody in between.
void AccumulateGrad::dispose() {
  bool last;
  {
    std::lock_guard lock(leaf_mutex(variable_.impl()));
    last = refused_ || use_count() <= 1;
    RefCounted* self = this;
    AutogradMeta* m = variable_.impl()->autograd_meta();
    if (last && m) m->grad_accumulator.compare_exchange_strong(self, nullptr);
  }
  last ? Node::dispose() : release();
}

namespace {
LeafWithGradDtype* own_dtype(const Tensor& leaf) {
  AutogradMeta* m = leaf.impl()->autograd_meta();
  return m && m->hooks ? dynamic_cast<LeafWithGradDtype*>(m->hooks.get()) : nullptr;
}
}  // namespace

std::optional<DType> grad_dtype(const Tensor& t) {
  TESSERA_CHECK(!grad_fn(t), "grad_dtype can only be accessed on leaf tensors.");
  const LeafWithGradDtype* own = own_dtype(t);
  return own ? own->grad_dtype : t.dtype();
}

void set_grad_dtype(const Tensor& t, std::optional<DType> dtype) {
  TESSERA_CHECK(!grad_fn(t), "grad_dtype can only be set on leaf tensors.");
  const Tensor grad = t.grad();
  TESSERA_CHECK(!dtype || !grad.defined() || grad.dtype() == *dtype, "Cannot set grad_dtype to '",
                name_of(dtype.value_or(t.dtype())), "' because there is already a gradient with dtype '",
                name_of(grad.defined() ? grad.dtype() : t.dtype()),
                "'. Please clear the gradient (.grad = None) before changing grad_dtype, or ensure the new grad_dtype "
                "matches the existing gradient's dtype.");
  LeafWithGradDtype* own = own_dtype(t);
  if (!own) {
    AutogradMeta& m = t.impl()->materialize_autograd_meta();
    const auto made = make_intrusive<LeafWithGradDtype>();
    if (auto* known = dynamic_cast<LeafHooks*>(m.hooks.get())) {
      made->pre = std::move(known->pre);
      made->post_accumulate = std::move(known->post_accumulate);
    }
    own = made.get();
    m.hooks = made;
  }
  own->grad_dtype = dtype;
}

DType wanted_grad_dtype(const Node& to, DType own, DType arriving) {
  if (to.sequence_nr() != UINT64_MAX) return own;
  const auto* accumulator = dynamic_cast<const AccumulateGrad*>(&to);
  const LeafWithGradDtype* set = accumulator ? own_dtype(accumulator->variable()) : nullptr;
  return set ? set->grad_dtype.value_or(arriving) : own;
}

// A sparse tensor is added to a dense one, not the other way round.
Tensor add_gradients(const Tensor& a, const Tensor& b) {
  return a.layout() != Layout::kStrided && b.layout() == Layout::kStrided ? tessera::add(b, a) : tessera::add(a, b);
}

namespace {
bool same_layout(const Tensor& a, const Tensor& b) {
  for (int64_t i = 0; i < a.dim(); ++i)
    if (a.sizes()[i] > 1 && a.strides()[i] != b.strides()[i]) return false;
  return true;
}

// The gradient as the leaf wants it: its strides if it is dense, else row-major; a copy unless nobody else can see it.
Tensor first_gradient(const Tensor& leaf, const Tensor& grad, bool may_steal) {
  constexpr DispatchKeySet wrapped = DispatchKeySet(DispatchKey::kPython) | kTransformedKeys;
  if (grad.keys().has_any(wrapped)) [[unlikely]]
    return grad_mode_enabled() ? tessera::clone(grad) : detached(grad);
  if (grad.layout() != Layout::kStrided)
    return grad_mode_enabled() || grad.impl()->use_count() > 1 ? tessera::clone(grad) : detached(grad);
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

void AccumulateGrad::add(AutogradMeta& m, Tensor&& grad) const {
  if (!m.grad) {
    // One reference is ours: the engine has given its own away.
    m.grad = first_gradient(variable_, grad,
                            grad.impl()->use_count() <= 1 && grad.storage() && grad.storage()->use_count() <= 1)
                 .impl_ptr();
  } else if (grad_mode_enabled() || Tensor(m.grad).layout() != Layout::kStrided) {
    m.grad = add_gradients(Tensor(m.grad), grad).impl_ptr();
  } else {
    tessera::add_(Tensor(m.grad), grad);
  }
}

variable_list AccumulateGrad::apply(variable_list&& grads) {
  if (grads.empty() || !grads[0].defined() || !variable_.requires_grad()) return {};
  TESSERA_CHECK(
      !retired_,
      "Trying to execute AccumulateGrad node that was poisoned by swap_tensors: a leaf of this "
      "graph was exchanged for another tensor since the forward pass. Swap tensors, or change the device or "
      "dtype of a module under set_swap_module_params_on_conversion(True), before forward or after backward.");
  AutogradMeta& m = variable_.impl()->materialize_autograd_meta();
  auto* hooks = dynamic_cast<LeafHooks*>(m.hooks.get());
  if (grads[0].keys().has(DispatchKey::kPython)) [[unlikely]] {
    add(m, std::move(grads[0]));  // code of a subclass may do anything, and runs one thread at a time as it is
  } else {
    const std::unique_lock lock = lock_without_host(stripe(g_sums, variable_.impl()));
    add(m, std::move(grads[0]));
  }
  if (hooks) {
    const auto entries = hooks->post_accumulate.entries;  // a hook may remove itself
    for (const auto& e : entries) e.hook->call(variable_);
  }
  return {};
}

}  // namespace tessera::autograd
