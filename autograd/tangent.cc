#include "autograd/tangent.h"

#include <algorithm>
#include <vector>

#include "autograd/variable.h"
#include "autograd/view.h"
#include "tensor/core/transforms.h"
#include "tensor/ops/api.h"

namespace tessera::autograd {

// One for each tensor that has, or had, a tangent; in the list of its level.
struct TangentSlot final : public RefCounted {
  TangentSlot(TensorImpl* t, IntrusivePtr<TangentLevel> l) : owner(t), level(std::move(l)) {
    std::lock_guard lock(level->mutex_);
    next = level->first_;
    if (next) next->previous = this;
    level->first_ = this;
  }
  ~TangentSlot() override {
    std::lock_guard lock(level->mutex_);
    if (next) next->previous = previous;
    if (previous)
      previous->next = next;
    else if (level->first_ == this)
      level->first_ = next;
  }
  TensorImpl* owner;  // holds this slot
  IntrusivePtr<TangentLevel> level;
  Tensor tangent;
  bool follows = false;
  bool written = false;  // it came with a write: views made before it have none yet
  TangentSlot *next = nullptr, *previous = nullptr;
};

void TangentLevel::close() {
  std::vector<Tensor> dropped;  // destroyed without the lock: they may have tangents themselves
  {
    std::lock_guard lock(mutex_);
    if (!open_) return;
    open_ = false;
    for (TangentSlot* s = first_; s; s = s->next) {
      dropped.push_back(std::move(s->tangent));
      s->tangent = Tensor();
      s->owner->set_key(DispatchKey::kForward, false);
    }
  }
  if (watching_ && !of_transform_) thread_state.included &= ~DispatchKeySet(DispatchKey::kForward).bits();
}

void TangentLevel::watch_views() {
  watching_ = true;
  if (!of_transform_) thread_state.included |= DispatchKeySet(DispatchKey::kForward).bits();
}

namespace {

TangentSlot* slot_of(const Tensor& t) {
  if (!t.defined() || !may_have_tangent(t)) return nullptr;
  ExtraMeta* extra = t.impl()->extra();
  auto* slot = extra ? static_cast<TangentSlot*>(extra->forward_grads.get()) : nullptr;
  return slot && slot->tangent.defined() ? slot : nullptr;
}

bool same_layout(const Tensor& a, const Tensor& b) {
  return std::ranges::equal(a.sizes(), b.sizes()) && std::ranges::equal(a.strides(), b.strides());
}

// The part of its base's tangent that belongs to the view t.
Tensor view_of_tangent(const Tensor& base, const Tensor& tangent, const Tensor& t) {
  if (const AutogradMeta* m = t.impl()->autograd_meta(); m && m->view_fn)
    return static_cast<ViewFn&>(*m->view_fn).replay(tangent);
  return ViewGeometry(t, base).of(tangent);
}

// The slot of t, or after making it that of the view of its base's tangent.
TangentSlot* find_slot(const Tensor& t) {
  if (TangentSlot* s = slot_of(t)) return s;
  if (!t.defined() || !t.is_view() || t.is_inference()) return nullptr;
  const Tensor base = t.view_base();
  TangentSlot* of_base = slot_of(base);
  if (!of_base || !of_base->written) return nullptr;
  const IntrusivePtr<TangentLevel> level = of_base->level;
  set_tangent(t, view_of_tangent(base, following_tangent(base), t), level, true);
  return slot_of(t);
}

// Memory for `tangent` as that of t, in t's layout. Inside of transforms with room for every element of the batches
// that one of them has: a number of either, added, has them; its value is nobody's.
Tensor memory_for(const Tensor& t, const Tensor& tangent) {
  if (!inside_transform()) return empty_tensor(t.sizes(), t.strides(), t.dtype(), t.device());
  const Tensor of_both = tessera::add(tessera::new_empty(t, IntVector{}), tessera::new_empty(tangent, IntVector{}));
  return tessera::new_empty_strided(of_both, to_vector(t.sizes()), to_vector(t.strides()));
}

// Nobody else has this tensor or its memory.
bool is_alone(const Tensor& t) {
  const Tensor* at = &t;
  for (; at->impl()->use_count() == 1 && is_transformed(*at);) at = &internal::value_in_transform(*at);
  return at->impl()->use_count() == 1 && at->storage()->use_count() == 1;
}

}  // namespace

Tensor tangent_of(const Tensor& t) {
  const TangentSlot* s = find_slot(t);
  return s ? s->tangent : Tensor();
}

IntrusivePtr<TangentLevel> tangent_level(const Tensor& t) {
  const TangentSlot* s = find_slot(t);
  return s ? s->level : nullptr;
}

bool same_memory(const Tensor& a, const Tensor& b) {
  return tensor_with_memory(a).storage().get() == tensor_with_memory(b).storage().get();
}

bool tangent_follows(const Tensor& t) {
  const TangentSlot* s = find_slot(t);
  return s && s->follows;
}

void set_tangent(const Tensor& t, const Tensor& tangent, const IntrusivePtr<TangentLevel>& level, bool follows) {
  TensorImpl& impl = *t.impl();
  if (!tangent.defined() || !level || !level->is_open()) {
    if (impl.extra()) impl.extra()->forward_grads = {};
    impl.set_key(DispatchKey::kForward, false);
    return;
  }
  auto slot = make_intrusive<TangentSlot>(&impl, level);
  slot->tangent = tangent;
  slot->follows = follows;
  impl.materialize_extra().forward_grads = slot;
  impl.set_key(DispatchKey::kForward, true);
}

Tensor following_tangent(const Tensor& t) {
  TangentSlot* s = find_slot(t);
  if (!s) return Tensor();
  if (s->follows) return s->tangent;
  if (!is_alone(s->tangent) || !same_layout(s->tangent, t) || !has_batches_of(s->tangent, t)) {
    const Tensor copy = memory_for(t, s->tangent);
    tessera::copy_(copy, s->tangent);
    s->tangent = copy;
  }
  s->follows = true;
  return s->tangent;
}

void write_tangent(const Tensor& t, const Tensor& tangent, const IntrusivePtr<TangentLevel>& level) {
  if (TangentSlot* s = find_slot(t)) {
    if (tangent.defined() && tangent.is_same(s->tangent)) return;
    if (!s->follows) {
      const bool written = s->written;
      set_tangent(t, tangent, level ? level : IntrusivePtr<TangentLevel>(s->level), false);
      if (TangentSlot* now = slot_of(t)) now->written = written;
    } else if (tangent.defined())
      tessera::copy_(s->tangent, tangent);
    else
      tessera::zero_(s->tangent);
    return;
  }
  if (!tangent.defined()) return;
  const bool shared = t.impl()->storage()->use_count() > (t.is_view() ? 2 : 1);
  if (t.is_view() && !t.is_inference()) {
    const Tensor base = t.view_base(), of_base = memory_for(base, tangent);
    tessera::zero_(of_base);
    set_tangent(base, of_base, level, true);
    slot_of(base)->written = true;
    const Tensor part = view_of_tangent(base, of_base, t);
    tessera::copy_(part, tangent);
    set_tangent(t, part, level, true);
  } else {
    set_tangent(t, tangent, level, false);
    slot_of(t)->written = true;
  }
  if (shared) level->watch_views();
}

void share_tangent(const Tensor& from, const Tensor& to) {
  if (const TangentSlot* s = slot_of(from)) set_tangent(to, s->tangent, s->level, false);
}

}  // namespace tessera::autograd
