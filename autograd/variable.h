// The autograd side of a tensor: its history, its accumulator, its hooks.
#pragma once

#include "autograd/node.h"

namespace tessera::autograd {

// The node that made t, or null for a leaf. For a view whose base has been written to, the history is made anew first.
IntrusivePtr<Node> grad_fn(const Tensor& t);
// The node that adds to a leaf's grad; made at first use, kept by the graphs that need it.
IntrusivePtr<Node> grad_accumulator(const Tensor& t);
// Where the gradient of t flows to: (grad_fn, output_nr), or (accumulator, 0), or nothing if t does not require grad.
Edge gradient_edge(const Tensor& t);
// Sets grad_fn and output_nr; t requires grad from now on.
void set_gradient_edge(const Tensor& t, Edge e);

// A tensor that shares data and version with t and has no history. Not a view for autograd.
Tensor detached(const Tensor& t);
// Cuts t off its history in place. Error on views.
void detach_(const Tensor& t);

// Returns an id for remove_hook. Error unless t requires grad.
uint64_t add_hook(const Tensor& t, IntrusivePtr<TensorHook> hook);
uint64_t add_post_accumulate_hook(const Tensor& t, IntrusivePtr<PostAccumulateHook> hook);
void retain_grad(const Tensor& t);
bool retains_grad(const Tensor& t);
// A tensor that retains its gradient keeps the newest one: its hook moves from the old node to the new.
void move_retain_hooks(const Tensor& t, Node* old, const IntrusivePtr<Node>& fresh, uint32_t old_nr, uint32_t new_nr);

// As `t.data = other`: same type of tensor, new contents, no version change.
void set_data(const Tensor& t, const Tensor& other);

// The user assigns .grad. Error when shape, dtype or device do not fit.
void assign_grad(const Tensor& t, const Tensor& grad);

// How a view inside of transforms, where strides say nothing of memory, is made from its base.
struct ViewFn : public RefCounted {
  virtual Tensor replay(const Tensor& base) = 0;
};

}  // namespace tessera::autograd
