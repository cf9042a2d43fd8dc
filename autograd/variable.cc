#include "autograd/variable.h"

#include <algorithm>
#include <mutex>

#include "autograd/accumulate_grad.h"
#include "autograd/engine.h"
#include "autograd/view.h"
#include "tensor/ops/api.h"

namespace tessera::autograd {
namespace {
LeafHooks& leaf_hooks(const Tensor& t) {
  AutogradMeta& m = t.impl()->materialize_autograd_meta();
  // What is there may be of the time when t was a result that retained its gradient.
  if (!dynamic_cast<LeafHooks*>(m.hooks.get())) m.hooks = make_intrusive<LeafHooks>();
  return static_cast<LeafHooks&>(*m.hooks);
}
}  // namespace

namespace {
// The history of a view of a base that was written to since. Whoever comes second waits, and finds it made.
void renew_view_history(const Tensor& t, const Tensor& base, uint32_t version) {
  static constinit std::mutex mutex;
  IntrusivePtr<RefCounted> before;  // goes when the lock has: what it holds may run any code
  const std::unique_lock lock = lock_without_host(mutex);
  AutogradMeta& m = t.impl()->materialize_autograd_meta();
  if (m.view_version.load(std::memory_order_relaxed) == version) return;
  before = m.grad_fn;
  const uint32_t nr = t.output_nr();
  regenerate_view_history(t, base);
  if (m.retains_grad)
    move_retain_hooks(t, static_cast<Node*>(before.get()),
                      IntrusivePtr<Node>::share(static_cast<Node*>(m.grad_fn.get())), nr, t.output_nr());
}
}  // namespace

IntrusivePtr<Node> grad_fn(const Tensor& t) {
  AutogradMeta* m = t.impl()->autograd_meta();
  if (t.is_view() && !t.is_inference()) {
    const Tensor base = t.view_base();
    // The base got a history, or a newer one, after this view's was made.
    const uint32_t now = t.version();
    if ((!m || m->view_version.load(std::memory_order_acquire) != now) && base.requires_grad() && !base.is_leaf()) {
      renew_view_history(t, base, now);
      m = t.impl()->autograd_meta();
    }
  }
  if (!m || !m->grad_fn) return nullptr;
  return IntrusivePtr<Node>::share(static_cast<Node*>(m->grad_fn.get()));
}

IntrusivePtr<Node> grad_accumulator(const Tensor& t) {
  std::lock_guard lock(leaf_mutex(t.impl()));
  AutogradMeta& m = t.impl()->materialize_autograd_meta();
  if (IntrusivePtr<Node> known = AccumulateGrad::shared_from(m)) return known;
  auto fresh = make_intrusive<AccumulateGrad>(t);
  m.grad_accumulator.store(fresh.get(), std::memory_order_release);
  return fresh;
}

Edge gradient_edge(const Tensor& t) {
  if (!t.defined() || !t.requires_grad()) return {};
  if (IntrusivePtr<Node> fn = grad_fn(t)) return {std::move(fn), t.output_nr()};
  return {grad_accumulator(t), 0};
}

void set_gradient_edge(const Tensor& t, Edge e) {
  AutogradMeta& m = t.impl()->materialize_autograd_meta();
  m.set_grad_fn(std::move(e.node), e.input_nr);
  m.view_version.store(t.impl()->has_version() ? t.version() : 0, std::memory_order_release);
  t.impl()->update_autograd_key();
}

Tensor detached(const Tensor& t) {
  if (t.keys().has(DispatchKey::kPython))
      [[unlikely]] {  // a subclass with a dispatch of its own: it makes its twin itself
    ExcludeKeys below(kAutogradKeys);
    return tessera::detach(t);
  }
  return Tensor(t.impl()->shallow_copy(/*shares_version=*/true));
}

void detach_(const Tensor& t) {
  TESSERA_CHECK(
      !t.is_view(),
      "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for training, "
      "and gradient_as_bucket_view is "
      "set as True, gradients are views of DDP buckets, and hence detach_() cannot be called on these gradients.");
  if (AutogradMeta* m = t.impl()->autograd_meta()) {
    if (m->retains_grad) m->hooks.reset();  // a leaf's hooks are of another kind
    m->retains_grad = false;
    m->reset_grad_fn();
    m->requires_grad = false;
  }
  t.impl()->update_autograd_key();
}

uint64_t add_hook(const Tensor& t, IntrusivePtr<TensorHook> hook) {
  TESSERA_CHECK(t.requires_grad(), "cannot register a hook on a tensor that doesn't require gradient");
  const uint64_t id = next_hook_id();
  if (IntrusivePtr<Node> fn = grad_fn(t))
    fn->hooks().tensor.entries.push_back({id, t.output_nr(), std::move(hook)});
  else
    leaf_hooks(t).pre.entries.push_back({id, 0, std::move(hook)});
  return id;
}

uint64_t add_post_accumulate_hook(const Tensor& t, IntrusivePtr<PostAccumulateHook> hook) {
  TESSERA_CHECK(t.requires_grad(), "cannot register a hook on a tensor that doesn't require gradient");
  TESSERA_CHECK(t.is_leaf(), "post accumulate grad hooks cannot be registered on non-leaf tensors");
  const uint64_t id = next_hook_id();
  leaf_hooks(t).post_accumulate.entries.push_back({id, 0, std::move(hook)});
  return id;
}

namespace {
// Keeps the gradient that reaches a non-leaf, after all its hooks.
struct RetainGrad final : public TensorHook {
  explicit RetainGrad(TensorImpl* t) : target(t) {}
  TensorImpl* target;  // weak: the hook goes when the tensor does (its meta owns the flag), and a node never outlives
                       // what it would write to without being told
  Tensor call(const Tensor& grad) override {
    AutogradMeta* m = target ? target->autograd_meta() : nullptr;
    if (!m || !grad.defined()) return Tensor();
    if (!m->grad)
      m->grad = grad.impl_ptr();
    else
      m->grad = add_gradients(Tensor(m->grad), grad).impl_ptr();
    return Tensor();
  }
};
// Held by the tensor: tells the hook that the tensor is gone.
struct RetainGuard final : public RefCounted {
  IntrusivePtr<RetainGrad> hook;
  ~RetainGuard() override { hook->target = nullptr; }
};
}  // namespace

void retain_grad(const Tensor& t) {
  TESSERA_CHECK(t.requires_grad(), "can't retain_grad on Tensor that has requires_grad=False");
  if (t.is_leaf()) return;
  AutogradMeta& m = t.impl()->materialize_autograd_meta();
  if (m.retains_grad) return;
  auto hook = make_intrusive<RetainGrad>(t.impl());
  auto guard = make_intrusive<RetainGuard>();
  guard->hook = hook;
  grad_fn(t)->hooks().retain_grad.entries.push_back({next_hook_id(), t.output_nr(), hook});
  m.hooks = guard;
  m.retains_grad = true;
}
bool retains_grad(const Tensor& t) {
  return !t.is_leaf() && t.impl()->autograd_meta() && t.impl()->autograd_meta()->retains_grad;
}

void set_data(const Tensor& t, const Tensor& other) {
  TESSERA_CHECK(other.defined(), "cannot set .data to None");
  TESSERA_CHECK(t.layout() == other.layout(),
                "Attempted to set .data of a tensor to one of an incompatible tensor type: their layouts differ");
  TESSERA_CHECK(!t.requires_grad() || other.is_floating_point() || other.is_complex(),
                "data set to a tensor that requires gradients must be floating point or complex dtype");
  if (AutogradMeta* m = t.impl()->autograd_meta()) {
    // An accumulator made for the old form would bring gradients to it: the next graph makes a new one.
    const bool changed =
        other.dtype() != t.dtype() || !(other.device() == t.device()) || !std::ranges::equal(other.sizes(), t.sizes());
    if (changed) m->grad_accumulator.store(nullptr);
  }
  // The version does not move: `.data` assignments are invisible to autograd. A counter of its own stays the one that
  // its views have, too.
  IntrusivePtr<VersionCounter> own = t.impl()->own_version();
  if (!own) {
    own = make_intrusive<VersionCounter>();
    own->value = t.impl()->has_version() ? t.version() : 0;
  }
  t.impl()->take_contents_of(*other.impl());
  t.impl()->set_own_version(own);
}

void assign_grad(const Tensor& t, const Tensor& grad) {
  if (grad.defined()) {
    TESSERA_CHECK(!grad.is_same(t), "can't assign Variable as its own grad");
    const DType wanted = grad_fn(t) ? t.dtype() : grad_dtype(t).value_or(grad.dtype());
    TESSERA_CHECK(grad.dtype() == wanted, "attempting to assign a gradient with dtype '", name_of(grad.dtype()),
                  "' to a tensor with grad_dtype '", name_of(wanted),
                  "'. The gradient must match the tensor's grad_dtype (defaults to the tensor's dtype). You can set "
                  "the tensor's grad_dtype attribute with a specific dtype, or None to allow any dtype.");
    TESSERA_CHECK(grad.device().type == t.device().type, "attempting to assign a gradient with device type '",
                  device_type_name(grad.device().type), "' to a tensor with device type '",
                  device_type_name(t.device().type),
                  "'. Please ensure that the gradient and the tensor are on the same device");
    TESSERA_CHECK(std::ranges::equal(grad.sizes(), t.sizes()), "attempting to assign a gradient of size '",
                  shape_string(grad.sizes()), "' to a tensor of size '", shape_string(t.sizes()),
                  "'. Please ensure that the gradient and the tensor are the same size");
  }
  t.set_grad(grad);
}

}  // namespace tessera::autograd
