// Function transforms (//func: vmap, grad, jvp ...) as the libraries below them see them: whether a tensor or a call is
// inside of one.
#pragma once

#include "tensor/core/tensor.h"

namespace tessera {

// A tensor with one of these stands for a value of the levels outside. It has no memory, and its value may differ
// across a batch: nothing may be decided by it.
inline constexpr DispatchKeySet kTransformedKeys =
    DispatchKeySet(DispatchKey::kFuncTorchBatched) | DispatchKey::kFuncTorchGradWrapper;
inline bool is_transformed(DispatchKeySet keys) { return keys.has_any(kTransformedKeys); }
inline bool is_transformed(const Tensor& t) { return t.defined() && is_transformed(t.keys()); }

// This thread is inside of a transform: any call's tensors may be transformed, and what it makes may have to be.
inline bool inside_transform() {
  return DispatchKeySet::from_bits(thread_state.included).has(DispatchKey::kFuncTorchDynamicLayerFrontMode);
}

// Defined by //func, which makes such tensors; null in programs without it.
namespace internal {
[[gnu::weak]] Scalar item_in_transform(const Tensor& t);
[[gnu::weak]] const Tensor& value_in_transform(const Tensor& t);  // one level further out
[[gnu::weak]] bool has_batches_of(const Tensor& t, const Tensor& other);
}  // namespace internal

// Nothing is known of the values: a meta tensor, or a fake one, whose storage is a meta tensor's. Checks of values are
// left out.
inline bool values_unknown(const Tensor& t) { return t.is_meta() || (t.storage() && t.storage()->device().is_meta()); }

// For code that reads numbers: what a transformed tensor stands for, as long as that is one value. (Reading one with a
// batch is an Error.)
inline const Tensor& with_one_value(const Tensor& t) {
  const Tensor* r = &t;
  while (is_transformed(*r) && !r->keys().has(DispatchKey::kFuncTorchBatched) && &internal::value_in_transform)
    r = &internal::value_in_transform(*r);
  return *r;
}

// t has a batch wherever `other` has one: the values of `other` can be written to it.
inline bool has_batches_of(const Tensor& t, const Tensor& other) {
  return !is_transformed(other) || !&internal::has_batches_of || internal::has_batches_of(t, other);
}

// The tensor whose memory a transformed one stands for; others as they are.
inline const Tensor& tensor_with_memory(const Tensor& t) {
  const Tensor* r = &t;
  while (is_transformed(*r) && &internal::value_in_transform) r = &internal::value_in_transform(*r);
  return *r;
}

}  // namespace tessera
