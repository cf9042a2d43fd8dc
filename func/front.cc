#include "func/front.h"

#include <algorithm>
#include <array>
#include <mutex>

#include "autograd/variable.h"
#include "func/arguments.h"
#include "func/functional.h"
#include "func/rules/batching.h"
#include "func/rules/plan.h"
#include "func/tape.h"
#include "func/view_call.h"
#include "func/wrapper.h"
#include "tensor/dispatch/runtime.h"
#include "tensor/ops/api.h"

namespace tessera::func {
namespace {

using Values = std::vector<Value>;

void call_again(const OpHeader& op, const Value* args, Value* rets) { op.info->adapter->call(op, nullptr, args, rets); }

// --- views of tracked tensors ---

// Makes a view again, from its base, by the operators that made it.
struct ViewOfCall final : public autograd::ViewFn {
  ViewOfCall(ViewCall c, const Tensor& of)
      : call(std::move(c)), shape(of.impl()->shape()), offset(of.storage_offset()) {}
  ViewCall call;
  Shape shape;  // of the tensor that was viewed
  int64_t offset;
  IntrusivePtr<RefCounted> before;  // how it came from the base, if it is a view itself
  size_t reshapes = 0;              // of a functional tensor, in place, until then
  Tensor replay(const Tensor& base) override {
    if (before) return call.again(static_cast<ViewFn&>(*before).replay(base));
    // The base may have got another shape since (transpose_). The strides of functional tensors say nothing.
    if (wrapper_at(base, kAtKey)) return call.again(before_reshapes(base, reshapes));
    const bool same =
        std::ranges::equal(base.sizes(), shape.sizes()) && std::ranges::equal(base.strides(), shape.strides());
    return call.again(same ? base : as_strided(base, to_vector(shape.sizes()), to_vector(shape.strides()), offset));
  }
};

}  // namespace

void mark_view(const Tensor& view, const Tensor& of, const OpHeader& op, const Value* args, size_t n, size_t output,
               bool is_list, size_t num_rets) {
  TensorImpl* impl = view.impl();
  const IntrusivePtr<TensorImpl> base = of.is_view() ? of.impl()->view_base() : of.impl_ptr();
  impl->set_own_version(base->own_version());
  const bool differentiable = *op.info->gradients() != 0;  // detach() and other dtypes are no views for autograd
  if (!differentiable || (!of.is_floating_point() && !of.is_complex())) return;
  impl->set_view_base(base, is_list                     ? ViewCreation::kMultiOutput
                            : thread_state.grad_enabled ? of.impl()->view_creation()
                                                        : ViewCreation::kNoGrad);
  auto replay = make_intrusive<ViewOfCall>(ViewCall(op, args, n, num_rets), of);
  replay->call.output = output;
  replay->call.is_list = is_list;
  if (wrapper_at(of, kAtKey)) replay->reshapes = functional_state(of).views;
  if (of.is_view() && of.impl()->autograd_meta()) replay->before = of.impl()->autograd_meta()->view_fn;
  impl->materialize_autograd_meta().view_fn = replay;
  impl->update_autograd_key();
}

void extend_view(const Tensor& t, const OpHeader& op, const Value* args, size_t n) {
  AutogradMeta* m = t.is_view() ? t.impl()->autograd_meta() : nullptr;
  if (!m || !m->view_fn) return;
  auto replay = make_intrusive<ViewOfCall>(ViewCall(op, args, n, 1), t);
  replay->before = m->view_fn;
  m->view_fn = replay;
}

namespace {

// --- grad and jvp: the level's own part is done, or there is none; outside of the level everything is a value ---

void run_below(const OpHeader& op, const Value* args, size_t n, Value* rets, size_t num_rets) {
  const int64_t id = top_level()->id;
  bool history = false;
  {
    Hidden hidden;
    const Values values = map_tensors(args, n, [&](const Tensor& t) {
      WrapperImpl* w = wrapper_at(t, id);
      return w ? w->value() : t;
    });
    call_again(op, values.data(), rets);
    history = hidden.level().history_outside;
    if (!history) {
      history = any_tensor(rets, num_rets, [](const Tensor& t) { return has_history(t); });
      if (!history && op.mutable_args)
        history = any_tensor(values.data(), n, [](const Tensor& t) { return has_history(t); });
      hidden.level().history_outside = history;
    }
  }
  if (op.mutable_args) {
    // What was written is the argument itself, with a new version.
    bool first = true;
    const OpHeader* twin = plan_of(op).functional;
    const bool reshapes = twin && twin->flags & kIsView;
    for (size_t i = 0; i < n; ++i) {
      if (!(op.mutable_args >> i & 1)) continue;
      any_tensor(args + i, 1, [&](const Tensor& t) {
        if (WrapperImpl* w = wrapper_at(t, id)) {
          w->refresh();
          if (&op == &op::detach_)
            autograd::detach_(t);
          else
            w->bump_version();
          if (reshapes) extend_view(t, *twin, args, n);
        }
        return false;
      });
      if (std::exchange(first, false) && num_rets > 0 && args[i].is_tensor())
        rets[0] = Value::of(Tensor(args[i].tensor()));
    }
    return;
  }
  const bool view = op.flags & kIsView;
  const Tensor* viewed =
      view && n > 0 && args[0].is_tensor() && wrapper_at(args[0].tensor(), id) ? &args[0].tensor() : nullptr;
  for (size_t i = 0; i < num_rets; ++i) {
    if (rets[i].is_tensor() && rets[i].tensor().defined()) {
      Tensor t = make_tracked(rets[i].tensor(), id);
      if (viewed) mark_view(t, *viewed, op, args, n, i, false, num_rets);
      rets[i] = Value::of(std::move(t));
    } else if (rets[i].is_tensor_list()) {
      std::vector<Tensor> list;
      for (const Tensor& t : rets[i].tensor_list()) {
        list.push_back(t.defined() ? make_tracked(t, id) : Tensor());
        if (viewed) mark_view(list.back(), *viewed, op, args, n, list.size() - 1, true, num_rets);
      }
      rets[i] = Value::of(std::move(list));
    }
  }
}

void back_mode(void*, const OpHeader& op, DispatchKeySet, const Value* args, size_t n, Value* rets, size_t num_rets) {
  run_below(op, args, n, rets, num_rets);
}

// The keys of the kernels that differentiate a call for its level: those of ordinary autograd, if a tensor of the level
// has a history there, and of forward mode, if one has a tangent. Empty: the call is for the values alone.
DispatchKeySet derivative_keys(const Value* args, size_t n, const Level& top) {
  const auto on = [](bool enabled, DispatchKeySet keys) {
    return enabled && !thread_state.inference_mode && !(thread_state.excluded & keys.bits());
  };
  const bool reverse = on(thread_state.grad_enabled, kAutogradKeys);
  const bool forward = top.tangents && on(thread_state.forward_grad_enabled, DispatchKey::kForward);
  DispatchKeySet keys;
  if (!reverse && !forward) return keys;
  const bool all_views = forward && top.tangents->watches_views();
  any_tensor(args, n, [&](const Tensor& t) {
    if (!wrapper_at(t, top.id)) return false;
    if (reverse && t.requires_grad()) keys |= autograd_key(t.device().type);
    if (forward && (autograd::may_have_tangent(t) || (all_views && t.is_view()))) keys |= DispatchKey::kForward;
    return keys.has_any(kAutogradKeys) == reverse && keys.has(DispatchKey::kForward) == forward;  // no more to learn
  });
  return keys;
}

[[noreturn]] void throw_captured(const OpHeader& op) {
  throw Error(str_cat(
      "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place operation (",
      op.name, op.overload[0] ? "." : "", op.overload,
      ") that would mutate a captured Tensor. This is not supported: make the tensor an argument of the "
      "function, or use the out-of-place operator."));
}

// Ordinary autograd, or forward mode, works on the wrappers; the kernel that it calls in the end is back_mode.
void run_differentiated(const OpHeader& op, const Value* args, size_t n, Value* rets, int64_t id,
                        DispatchKeySet derivative) {
  for (size_t i = 0; i < n; ++i)
    if (op.mutable_args >> i & 1)
      if (any_tensor(args + i, 1, [&](const Tensor& t) { return !wrapper_at(t, id); })) throw_captured(op);
  const auto foreign = [&](const Tensor& t) {
    if (wrapper_at(t, id)) return false;
    if (wrapper_of(t) || t.requires_grad() || t.keys().has_any(kAutogradKeys)) return true;
    return derivative.has(DispatchKey::kForward) && (autograd::may_have_tangent(t) || t.is_view());
  };
  const DispatchKeySet keys = derivative | DispatchKey::kFuncTorchDynamicLayerBackMode;
  if (!any_tensor(args, n, foreign)) {
    op.info->adapter->call(op, &keys, args, rets);
    return;
  }
  const Values values = map_tensors(args, n, [&](const Tensor& t) { return foreign(t) ? make_tracked(t, id) : t; });
  op.info->adapter->call(op, &keys, values.data(), rets);
}

// --- the innermost level takes the call ---

void run_at_top(const OpHeader& op, const Value* args, size_t n, Value* rets, size_t num_rets) {
  const Plan& plan = plan_of(op);
  const Level& top = *top_level();
  if (plan.composite && plan.family == Family::kDecompose && !(plan.foreign && top.kind == Kind::kVmap)) {
    const DispatchKeySet none;
    op.info->adapter->call(op, &none, args, rets);
    return;
  }
  if (top.kind == Kind::kVmap) {
    run_batched(op, plan, {args, n}, rets, num_rets);
    return;
  }
  if (plan.composite) {  // its batching rule is for vmap alone
    const DispatchKeySet none;
    op.info->adapter->call(op, &none, args, rets);
    return;
  }
  if (top.kind == Kind::kTape) return run_on_tape(op, args, n, rets, num_rets);
  if (top.kind == Kind::kFunctional) return run_functional(op, args, n, rets, num_rets);
  const DispatchKeySet derivative = derivative_keys(args, n, top);
  if (!derivative.empty())
    run_differentiated(op, args, n, rets, top.id, derivative);
  else
    run_below(op, args, n, rets, num_rets);
}

// Wrappers whose level has ended are what they wrap.
bool is_dead(const Tensor& t) {
  const WrapperImpl* w = wrapper_of(t);
  return w && !find_level(w->level());
}

void front_mode(void*, const OpHeader& op, DispatchKeySet, const Value* args, size_t n, Value* rets, size_t num_rets) {
  if (!any_tensor(args, n, is_dead)) {
    run_at_top(op, args, n, rets, num_rets);
    return;
  }
  const Values values = map_tensors(args, n, without_dead);
  run_at_top(op, values.data(), n, rets, num_rets);
}

// No level is left, but a wrapper is.
void dead_wrapper(void*, const OpHeader& op, DispatchKeySet, const Value* args, size_t n, Value* rets, size_t) {
  TESSERA_CHECK(any_tensor(args, n, is_dead), "a tensor of a function transform reached '", op.name,
                "' past its level; this is a bug");
  const Values values = map_tensors(args, n, without_dead);
  call_again(op, values.data(), rets);
}

RuntimeKernel boxed(BoxedKernel f) {
  RuntimeKernel k;
  k.boxed = make_intrusive<BoxedEntry>();
  k.boxed->kernel = f;
  return k;
}

}  // namespace
}  // namespace tessera::func

// For C++ code that reads a number (declared, weak, in tensor/core/tensor.cc).
namespace tessera::internal {
Scalar item_in_transform(const Tensor& t) {
  Value args[] = {lend(t)}, result;
  op::_local_scalar_dense.info->adapter->call(op::_local_scalar_dense, nullptr, args, &result);
  return result.scalar();
}
const Tensor& value_in_transform(const Tensor& t) { return static_cast<func::WrapperImpl*>(t.impl())->value(); }
bool has_batches_of(const Tensor& t, const Tensor& other) {
  const auto batched_at = [&](int64_t level) {
    for (func::WrapperImpl* w = func::wrapper_of(t); w; w = func::wrapper_of(w->value()))
      if (w->is_batched() && w->level() == level) return true;
    return false;
  };
  for (func::WrapperImpl* w = func::wrapper_of(other); w; w = func::wrapper_of(w->value()))
    if (w->is_batched() && !batched_at(w->level())) return false;
  return true;
}
}  // namespace tessera::internal

namespace tessera::func {

void register_kernels() {
  // Not std::call_once: its thread-local variables would have to lie in the static block, where there may be no room
  // for the C++ library's.
  [[maybe_unused]] static const auto* const kept = new std::array<Registration, 4>{
      register_fallback(DispatchKey::kFuncTorchDynamicLayerFrontMode, boxed(front_mode)),
      register_fallback(DispatchKey::kFuncTorchDynamicLayerBackMode, boxed(back_mode)),
      register_fallback(DispatchKey::kFuncTorchBatched, boxed(dead_wrapper)),
      register_fallback(DispatchKey::kFuncTorchGradWrapper, boxed(dead_wrapper))};
}

}  // namespace tessera::func
