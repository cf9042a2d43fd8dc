#include "autograd/saved_variable.h"

#include "autograd/engine.h"
#include "autograd/tangent.h"

#include "autograd/variable.h"
#include "tensor/core/dispatch_key.h"

namespace tessera::autograd {
namespace {
struct HookStack {
  std::vector<IntrusivePtr<PackHooks>> stack;
  std::string disabled;
  bool is_disabled = false;
};
HookStack& hook_stack() {
  static thread_local HookStack s;
  return s;
}
thread_local constinit bool t_has_hooks = false;

// What a pack hook made of a tensor with a tangent.
struct PackedDual final : public RefCounted {
  IntrusivePtr<RefCounted> packed;
  Tensor tangent;
  IntrusivePtr<TangentLevel> level;
};

constexpr const char* kFreed =
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed). Saved intermediate values of the graph are freed when you "
    "call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second "
    "time or if you need to access saved tensors after calling backward.";
}  // namespace

void push_pack_hooks(IntrusivePtr<PackHooks> hooks) {
  HookStack& s = hook_stack();
  TESSERA_CHECK(!s.is_disabled, s.disabled);
  s.stack.push_back(std::move(hooks));
  t_has_hooks = true;
}
void pop_pack_hooks() {
  hook_stack().stack.pop_back();
  t_has_hooks = !hook_stack().stack.empty();
}
IntrusivePtr<PackHooks> current_pack_hooks() { return t_has_hooks ? hook_stack().stack.back() : nullptr; }
void disable_pack_hooks(std::string message) {
  HookStack& s = hook_stack();
  TESSERA_CHECK(s.stack.empty(), message);
  s.disabled = std::move(message);
  s.is_disabled = true;
}
void enable_pack_hooks() { hook_stack().is_disabled = false; }
const std::string* pack_hooks_disabled_message() { return hook_stack().is_disabled ? &hook_stack().disabled : nullptr; }

SavedVariable::SavedVariable(const Tensor& t, bool is_output, bool is_inplace_on_view) {
  if (!t.defined()) return;
  TESSERA_CHECK(!t.is_inference(),
                "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode "
                "in computation tracked by autograd. To work around "
                "this, you can make a clone to get a normal tensor and use it in autograd, or use `torch.no_grad()` "
                "instead of `torch.inference_mode()`.");
  defined_ = true;
  is_output_ = is_output && !t.is_leaf();
  requires_grad_ = t.requires_grad();
  is_leaf_ = t.is_leaf();
  version_ = t.impl()->has_version() ? t.version() : 0;
  output_nr_ = t.output_nr();
  // Hooks are for tensors of the program, not for the 2 of x * 2.
  if (t_has_hooks && !is_inplace_on_view && !t.impl()->is_wrapped_number()) {
    hooks_ = current_pack_hooks();
    pack(is_output_ ? detached(t) : t);
    if (!is_output_ && may_have_tangent(t)) keep_tangent(tangent_of(t), tangent_level(t));
    return;
  }
  // An output must not hold its own node: a twin without history stands for it.
  data_ = is_output_ ? detached(t) : t;
}

// What the hook gives is kept, and of the tensor only what it takes to give it its place in the graph again: a leaf
// that wants a gradient, or the node that made it.
void SavedVariable::pack(const Tensor& shown) {
  if (!is_output_ && !is_leaf_ && !grad_fn_) grad_fn_ = autograd::grad_fn(shown);
  {
    NoGradGuard no_grad;
    const uint32_t before = shown.version();
    packed_ = hooks_->pack(shown);
    TESSERA_CHECK(shown.version() == before,
                  "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook "
                  "can not be modified by in-place operations as this can lead to unexpected side-effects.");
  }
  if (!is_leaf_ || !requires_grad_)
    data_.reset();
  else if (!data_.defined())
    data_ = shown;
}

void SavedVariable::keep_tangent(const Tensor& tangent, const IntrusivePtr<TangentLevel>& level) const {
  auto dual = make_intrusive<PackedDual>();
  dual->packed = packed_;
  dual->tangent = tangent;
  dual->level = level;
  packed_ = dual;
}

void SavedVariable::give_tangent(const Tensor& output, const Tensor& tangent,
                                 const IntrusivePtr<TangentLevel>& level) const {
  if (!is_output_ || output_nr_ != output.output_nr()) return;
  if (hooks_)
    keep_tangent(tangent, level);
  else if (data_.defined())
    set_tangent(data_, tangent, level, false);
}

RefCounted* SavedVariable::packed() const {
  const auto* dual = dynamic_cast<const PackedDual*>(packed_.get());
  return dual ? dual->packed.get() : packed_.get();
}

void SavedVariable::reset() {
  data_.reset();
  grad_fn_.reset();
  packed_.reset();
  hooks_.reset();
  reset_ = true;
}

Tensor SavedVariable::unpack(Node* owner) const {
  if (!defined_ && !reset_) return Tensor();
  TESSERA_CHECK(!reset_, kFreed);
  Tensor base = data_;
  if (hooks_) {
    Tensor t;
    const auto* dual = dynamic_cast<const PackedDual*>(packed_.get());
    {
      NoGradGuard no_grad;
      t = hooks_->unpack(dual ? dual->packed : packed_);
    }
    TESSERA_CHECK_TYPE(t.defined(), "Output of saved tensor unpack_hook expected to be a Tensor but got None");
    if (is_leaf_ && data_.defined() && data_.is_same(t)) return t;
    base = t;
    Tensor r = detached(base);
    if (dual) set_tangent(r, dual->tangent, dual->level, false);
    if (!requires_grad_) return r;
    if (is_leaf_) {
      if (data_.defined())
        set_gradient_edge(r, {grad_accumulator(data_), 0});
      else
        r.impl()->set_requires_grad(true);
      return r;
    }
    set_gradient_edge(r, {grad_fn_ ? grad_fn_ : IntrusivePtr<Node>::share(owner), output_nr_});
    return r;
  }
  const uint32_t now = base.impl()->has_version() ? base.version() : 0;
  if (now != version_) {
    std::string message =
        "one of the variables needed for gradient computation has been modified by an inplace operation: [" +
        std::string("torch.") + type_name_of(base.dtype()) + "Tensor " + shape_string(base.sizes()) + "]";
    if (is_output_ && owner)
      message += str_cat(", which is output ", output_nr_, " of ", owner->name(), ",");
    else if (const IntrusivePtr<Node> fn = base.is_leaf() ? nullptr : autograd::grad_fn(base))
      message += str_cat(", which is output ", output_nr_, " of ", fn->name(), ",");
    message += str_cat(
        " is at version ", now, "; expected version ", version_, " instead. Hint: ",
        anomaly_mode().enabled
            ? "the traceback shown with this error is of the operation that saved the tensor; it was changed there or "
              "later."
            : "enable anomaly detection to find the operation that failed to compute its gradient, with "
              "torch.autograd.set_detect_anomaly(True).");
    throw Error(message);
  }
  if (!is_output_) {
    TESSERA_CHECK(is_leaf_ || !requires_grad_ || base.requires_grad(),
                  "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_(). This is not "
                  "supported, please use out-of-place `.detach()` instead");
    return base;
  }
  TESSERA_CHECK(owner, "No grad_fn for non-leaf saved tensor");
  Tensor r = detached(base);
  share_tangent(base, r);
  set_gradient_edge(r, {IntrusivePtr<Node>::share(owner), output_nr_});
  return r;
}

void SavedVariable::register_hooks(IntrusivePtr<PackHooks> hooks) {
  TESSERA_CHECK(!reset_,
                "Calling register_hooks on a saved tensor after it has been freed. Saved intermediate values of the "
                "graph are freed when you call .backward() or autograd.grad(): register the hooks before.");
  TESSERA_CHECK(defined_, "Calling register_hooks on a saved tensor with value None is forbidden");
  TESSERA_CHECK(!hooks_,
                "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of "
                "hooks is allowed at a time.");
  hooks_ = std::move(hooks);
  try {
    if (!is_output_ && !is_leaf_) grad_fn_ = autograd::grad_fn(data_);
    const Tensor was = data_;
    pack(detached(was));
    if (may_have_tangent(was)) keep_tangent(tangent_of(was), tangent_level(was));
  } catch (...) {
    hooks_.reset();  // as it was before
    packed_.reset();
    throw;
  }
}

}  // namespace tessera::autograd
