// Functions as hooks, for programs in C++. Each registration gives an id to take the hook off by.
#pragma once

#include <functional>
#include <utility>

#include "autograd/saved_variable.h"
#include "autograd/variable.h"

namespace tessera::autograd {

namespace hooks {
template <class Base, class Result, class... Args>
struct Calling final : Base {
  explicit Calling(std::function<Result(Args...)> g) : f(std::move(g)) {}
  Result call(Args... args) override { return f(std::forward<Args>(args)...); }
  std::function<Result(Args...)> f;
};
using OnTensor = Calling<TensorHook, Tensor, const Tensor&>;
using OnLeaf = Calling<PostAccumulateHook, void, const Tensor&>;
using BeforeNode = Calling<NodePreHook, variable_list, variable_list&&>;
using AfterNode = Calling<NodePostHook, variable_list, variable_list&&, const variable_list&>;

struct Packing final : PackHooks {
  IntrusivePtr<RefCounted> pack(const Tensor& t) override { return pack_f(t); }
  Tensor unpack(const IntrusivePtr<RefCounted>& packed) override { return unpack_f(packed); }
  std::function<IntrusivePtr<RefCounted>(const Tensor&)> pack_f;
  std::function<Tensor(const IntrusivePtr<RefCounted>&)> unpack_f;
};
}  // namespace hooks

// On the gradient of t: what f returns goes on in its place, unless it is undefined. Error unless t requires grad.
inline uint64_t register_hook(const Tensor& t, std::function<Tensor(const Tensor&)> f) {
  return add_hook(t, make_intrusive<hooks::OnTensor>(std::move(f)));
}
// After the gradient was added to that of a leaf.
inline uint64_t register_post_accumulate_grad_hook(const Tensor& leaf, std::function<void(const Tensor&)> f) {
  return add_post_accumulate_hook(leaf, make_intrusive<hooks::OnLeaf>(std::move(f)));
}
// Of either kind. Nothing happens if there is no such hook.
inline void remove_hook(const Tensor& t, uint64_t id) {
  if (const IntrusivePtr<Node> node = grad_fn(t)) {
    if (NodeHooks* h = node->hooks_or_null()) h->tensor.remove(id);
    return;
  }
  AutogradMeta* m = t.impl()->autograd_meta();
  if (auto* h = m ? dynamic_cast<LeafHooks*>(m->hooks.get()) : nullptr) {
    h->pre.remove(id);
    h->post_accumulate.remove(id);
  }
}
// Before a node runs, on the gradients of its outputs; after it, on those of its inputs (and given the others).
inline uint64_t register_pre_hook(Node& node, std::function<variable_list(variable_list&&)> f) {
  const uint64_t id = next_hook_id();
  node.hooks().pre.entries.push_back({id, 0, make_intrusive<hooks::BeforeNode>(std::move(f))});
  return id;
}
inline uint64_t register_post_hook(Node& node, std::function<variable_list(variable_list&&, const variable_list&)> f) {
  const uint64_t id = next_hook_id();
  node.hooks().post.entries.push_back({id, 0, make_intrusive<hooks::AfterNode>(std::move(f))});
  return id;
}

// While it lives, what this thread saves for backward goes through two functions.
class SavedTensorsHooks {
 public:
  SavedTensorsHooks(std::function<IntrusivePtr<RefCounted>(const Tensor&)> pack,
                    std::function<Tensor(const IntrusivePtr<RefCounted>&)> unpack) {
    auto hooks = make_intrusive<hooks::Packing>();
    hooks->pack_f = std::move(pack);
    hooks->unpack_f = std::move(unpack);
    push_pack_hooks(std::move(hooks));
  }
  ~SavedTensorsHooks() { pop_pack_hooks(); }
  SavedTensorsHooks(const SavedTensorsHooks&) = delete;
};

}  // namespace tessera::autograd
