// A tensor as a level sees it: a value of the levels outside, with the part that the level adds. For vmap that is the
// dimension of the batch, which the level's function does not see; for grad a history (AutogradMeta), for jvp a
// tangent.
#pragma once

#include <vector>

#include "func/levels.h"
#include "tensor/core/transforms.h"

namespace tessera::func {

class WrapperImpl final : public TensorImpl {
 public:
  WrapperImpl(Tensor value, int64_t level, int64_t batch_dim, DispatchKeySet keys);
  const Tensor& value() const { return value_; }
  int64_t level() const { return level_; }
  int64_t batch_dim() const { return batch_dim_; }  // of value(); -1 for grad and jvp
  bool is_batched() const { return batch_dim_ >= 0; }
  // Of functionalize: its part in the memory that it stands for.
  const IntrusivePtr<RefCounted>& part() const { return part_; }
  void set_part(IntrusivePtr<RefCounted> part) { part_ = std::move(part); }
  // Of a tape: which of its tensors this is. Of functionalize: the generation of its memory that the value is of.
  int64_t number() const { return number_; }
  void set_number(int64_t number) { number_ = number; }
  // Another value for the same tensor (t.transpose_()).
  void set_value(Tensor value, int64_t batch_dim);
  // The value was changed in place: its shape may be another one.
  void refresh();

  IntrusivePtr<TensorImpl> shallow_copy(bool shares_version) const override;
  void take_contents_of(const TensorImpl& other) override;

 private:
  Tensor value_;
  int64_t level_;
  int64_t batch_dim_;
  int64_t number_ = -1;
  IntrusivePtr<RefCounted> part_;
};

// Null for ordinary tensors.
inline WrapperImpl* wrapper_of(const Tensor& t) {
  return is_transformed(t) ? static_cast<WrapperImpl*>(t.impl()) : nullptr;
}
// The level of tensors that are functional below autograd, at key Functionalize: of no transform, and it never ends.
inline constexpr int64_t kAtKey = 0;
// The wrapper that `level` made, or null.
inline WrapperImpl* wrapper_at(const Tensor& t, int64_t level) {
  if (level == kAtKey)
    return t.defined() && t.keys().has(DispatchKey::kFunctionalize) ? static_cast<WrapperImpl*>(t.impl()) : nullptr;
  WrapperImpl* w = wrapper_of(t);
  return w && w->level() == level ? w : nullptr;
}

Tensor make_batched(const Tensor& value, int64_t batch_dim, int64_t level);
Tensor make_tracked(const Tensor& value, int64_t level);
// Without the wrappers of levels that have ended.
Tensor without_dead(const Tensor& t);
// Through all wrappers.
Tensor innermost(const Tensor& t);
// True if the tensor, or what it wraps, has a history.
bool has_history(const Tensor& t);
// The same of tangents.
bool has_tangent(const Tensor& t);

}  // namespace tessera::func
