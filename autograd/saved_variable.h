// A tensor that a node keeps for backward: it notices in-place changes, holds no reference cycle for the node's own
// outputs, and can be packed by hooks.
#pragma once

#include "autograd/node.h"

namespace tessera::autograd {

class TangentLevel;

// saved_tensors_hooks: pack gives an opaque object when a tensor is saved, unpack makes a tensor of it.
struct PackHooks : public RefCounted {
  virtual IntrusivePtr<RefCounted> pack(const Tensor& t) = 0;
  virtual Tensor unpack(const IntrusivePtr<RefCounted>& packed) = 0;
};
// Thread-local stack of hooks; the innermost wins.
void push_pack_hooks(IntrusivePtr<PackHooks> hooks);
void pop_pack_hooks();
IntrusivePtr<PackHooks> current_pack_hooks();
// While a message is set, saving under hooks raises it (disable_saved_tensors_hooks).
void disable_pack_hooks(std::string message);
void enable_pack_hooks();
const std::string* pack_hooks_disabled_message();

class SavedVariable {
 public:
  SavedVariable() = default;
  // is_output: t is a result of the node that saves it.
  SavedVariable(const Tensor& t, bool is_output, bool is_inplace_on_view = false);

  // The tensor as it was, with its history. owner: the saving node (outputs get it as their history). Errors: freed,
  // modified in place since.
  Tensor unpack(Node* owner) const;
  void reset();
  // Forward mode: if this is that output of its node, what unpack() gives has this tangent from now on.
  void give_tangent(const Tensor& output, const Tensor& tangent, const IntrusivePtr<TangentLevel>& level) const;
  // For _raw_saved_*: hooks on one value. Error if it has some already, or was freed.
  void register_hooks(IntrusivePtr<PackHooks> hooks);

  // What the hooks made of it; null without hooks.
  RefCounted* packed() const;
  PackHooks* hooks() const { return hooks_.get(); }

 private:
  void pack(const Tensor& shown);
  void keep_tangent(const Tensor& tangent, const IntrusivePtr<TangentLevel>& level) const;

  Tensor data_;                 // the tensor itself, or a detached twin (an output); under hooks a leaf alone
  IntrusivePtr<Node> grad_fn_;  // of what was packed, unless it is the owner's output
  IntrusivePtr<PackHooks> hooks_;
  mutable IntrusivePtr<RefCounted> packed_;  // a PackedDual if the tensor has a tangent
  uint32_t version_ = 0;
  uint32_t output_nr_ = 0;
  bool defined_ = false;
  bool is_output_ = false;
  bool requires_grad_ = false;
  bool is_leaf_ = false;
  bool reset_ = false;
};

}  // namespace tessera::autograd
