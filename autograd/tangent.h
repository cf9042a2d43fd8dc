// The tangent of a tensor (forward mode): metadata at ExtraMeta::forward_grads, and the key kForward, which leads calls
// on the tensor to the kernels of forward mode. Tangents belong to a level and go when it ends.
#pragma once

#include <mutex>

#include "tensor/core/tensor.h"

namespace tessera::autograd {

struct TangentSlot;

// One nesting of forward mode. While it is open tensors may have tangents of it; close() takes them all away. Each
// transform that differentiates forward has a level of its own; the user's is forward_ad::enter_dual_level().
class TangentLevel final : public RefCounted {
 public:
  // of_transform: a level of //func, which leads the calls on its tensors to the kernels of forward mode itself.
  explicit TangentLevel(bool of_transform = false) : of_transform_(of_transform) {}
  ~TangentLevel() override { close(); }
  bool is_open() const { return open_; }
  void close();
  // A tensor got a tangent by a write, and views of it exist that nobody knows: from now on every call of this thread
  // looks for tangents, until the level ends.
  void watch_views();
  bool watches_views() const { return watching_; }

 private:
  friend struct TangentSlot;
  std::mutex mutex_;
  TangentSlot* first_ = nullptr;
  const bool of_transform_;
  bool open_ = true;
  bool watching_ = false;
};

// The tangent that t has, of an open level; undefined if none. A view has that part of its base's tangent.
Tensor tangent_of(const Tensor& t);
// The level of t's tangent; null if it has none.
IntrusivePtr<TangentLevel> tangent_level(const Tensor& t);
// Gives t a tangent (undefined: takes it away), whatever it had before. follows: the tangent's memory has the layout of
// t's and stands for it alone: tangents of views of t are views of it, and writes to t write to it.
void set_tangent(const Tensor& t, const Tensor& tangent, const IntrusivePtr<TangentLevel>& level, bool follows);
// Whether they are made of the same memory, also inside of function transforms.
bool same_memory(const Tensor& a, const Tensor& b);
// Whether writes to t write to its tangent: others must not share that.
bool tangent_follows(const Tensor& t);
// t's tangent, in memory that follows t's (a copy takes its place if need be).
Tensor following_tangent(const Tensor& t);
// What the kernels of in-place forms leave: t was overwritten, and `tangent` (of t's shape and dtype; undefined: zero)
// is the tangent of its new value. Writes through views reach the base's.
void write_tangent(const Tensor& t, const Tensor& tangent, const IntrusivePtr<TangentLevel>& level);
// Gives `to`, another tensor with the value of `from`, the same tangent.
void share_tangent(const Tensor& from, const Tensor& to);
inline bool may_have_tangent(const Tensor& t) { return t.keys().has(DispatchKey::kForward); }

}  // namespace tessera::autograd
