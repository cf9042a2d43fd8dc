// What a tensor is: a strided window on a storage, plus the metadata that autograd, dispatch and Python hang on it.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tensor/core/device.h"
#include "tensor/core/dispatch_key.h"
#include "tensor/core/dtype.h"
#include "tensor/core/intrusive.h"
#include "tensor/core/storage.h"
#include "tensor/core/symint.h"

namespace tessera {

class TensorImpl;

// Sizes and strides in one place: up to five dimensions inline, more on the heap.
class Shape {
 public:
  static constexpr int kInline = 5;
  Shape() = default;
  Shape(const Shape& o) { assign(o.sizes(), o.strides()); }
  Shape& operator=(const Shape& o) {
    if (this != &o) assign(o.sizes(), o.strides());
    return *this;
  }
  ~Shape() {
    if (dim_ > kInline) delete[] heap_;
  }
  int dim() const { return dim_; }
  const int64_t* sizes_data() const { return dim_ > kInline ? heap_ : inline_; }
  const int64_t* strides_data() const { return dim_ > kInline ? heap_ + dim_ : inline_ + kInline; }
  int64_t* sizes_data() { return dim_ > kInline ? heap_ : inline_; }
  int64_t* strides_data() { return dim_ > kInline ? heap_ + dim_ : inline_ + kInline; }
  IntList sizes() const { return {sizes_data(), static_cast<size_t>(dim_)}; }
  IntList strides() const { return {strides_data(), static_cast<size_t>(dim_)}; }
  void resize(int dim) {
    if (dim == dim_) return;
    if (dim_ > kInline) delete[] heap_;
    dim_ = static_cast<uint8_t>(dim);
    if (dim > kInline) heap_ = new int64_t[2 * dim];
  }
  void assign(IntList sizes, IntList strides) {  // the lists must not lie inside this object when the rank changes
    resize(static_cast<int>(sizes.size()));
    if (dim_) {
      std::memmove(sizes_data(), sizes.data(), sizes.size() * sizeof(int64_t));
      std::memmove(strides_data(), strides.data(), strides.size() * sizeof(int64_t));
    }
  }

 private:
  uint8_t dim_ = 0;
  union {
    int64_t inline_[2 * kInline];
    int64_t* heap_;
  };
};

// How a view came to be; decides what an in-place write to it may do.
enum class ViewCreation : uint8_t { kDefault, kNoGrad, kMultiOutput, kInferenceMode, kInCustomFunction };

// Autograd's part of a tensor. Nodes are opaque here: the autograd library knows their type.
//
// The history of a view whose base was written to is made anew by whoever asks for it first, while other threads may be
// looking at the same view: they ask has_history whether there is one, and take it itself by autograd::grad_fn().
struct AutogradMeta {
  IntrusivePtr<TensorImpl> grad;
  IntrusivePtr<RefCounted> grad_fn;                    // autograd::Node; set and reset by the functions below
  std::atomic<RefCounted*> grad_accumulator{nullptr};  // weak; the node clears it when it dies
  IntrusivePtr<RefCounted> hooks;                      // autograd::TensorHooks
  IntrusivePtr<RefCounted> view_fn;                    // autograd::ViewFn, for views that as_strided can't replay
  std::atomic<uint32_t> output_nr{0};
  std::atomic<uint32_t> view_version{0};  // version at which grad_fn of a view was computed
  std::atomic<bool> has_history{false};   // grad_fn is set
  bool requires_grad = false;             // leaf flag
  bool retains_grad = false;
  std::string name;
  ~AutogradMeta();

  void set_grad_fn(IntrusivePtr<RefCounted> node, uint32_t number) {
    output_nr.store(number, std::memory_order_relaxed);
    grad_fn = std::move(node);
    has_history.store(static_cast<bool>(grad_fn), std::memory_order_relaxed);
  }
  void reset_grad_fn() { set_grad_fn(nullptr, 0); }
};

// Rare metadata: one pointer in the tensor, null for nearly all.
struct ExtraMeta {
  std::vector<std::string> names;           // named dimensions
  IntrusivePtr<RefCounted> symbolic_shape;  // sizes with symbols
  IntrusivePtr<RefCounted> quantizer;
  IntrusivePtr<RefCounted> forward_grads;  // the tangent of forward mode: autograd/tangent.h
  IntrusivePtr<RefCounted> backend_meta;   // sparse members, nested sizes, functional wrapper, pending collective
};

class TensorImpl : public RefCounted {
 public:
  TensorImpl(Storage storage, DType dtype, Device device, DispatchKeySet keys);
  ~TensorImpl() override;

  const Storage& storage() const { return storage_; }
  Storage& mutable_storage() { return storage_; }
  DispatchKeySet keys() const { return keys_; }
  void set_keys(DispatchKeySet k) { keys_ = k; }
  DType dtype() const { return dtype_; }
  void set_dtype(DType t) { dtype_ = t; }
  Device device() const { return device_; }
  void set_device(Device d) { device_ = d; }
  Layout layout() const { return layout_; }
  void set_layout(Layout l) { layout_ = l; }
  int dim() const { return shape_.dim(); }
  IntList sizes() const { return shape_.sizes(); }
  IntList strides() const { return shape_.strides(); }
  int64_t numel() const { return numel_; }
  int64_t storage_offset() const { return offset_; }
  void set_storage_offset(int64_t o) { offset_ = o; }
  bool is_contiguous() const { return contiguous_; }
  const Shape& shape() const { return shape_; }

  // Sets sizes and strides (elements) and everything that follows from them. No checks: callers have done them.
  void set_sizes_and_strides(IntList sizes, IntList strides);
  // Row-major strides. Throws Error when the number of elements overflows.
  void set_sizes_contiguous(IntList sizes);
  void set_shape_of(const TensorImpl& other);
  void set_sizes_0d() {
    shape_.resize(0);
    numel_ = 1;
    contiguous_ = true;
  }

  // Null without a storage. Error if the storage was made too small for this tensor.
  char* data() const {
    if (!storage_) return nullptr;
    if (storage_->was_shrunk()) [[unlikely]]
      check_fits_storage();
    return static_cast<char*>(storage_->data()) + offset_ * item_size(dtype_);
  }

  bool is_wrapped_number() const { return wrapped_number_; }
  void set_wrapped_number(bool b) { wrapped_number_ = b; }
  bool is_conj() const { return keys_.has(DispatchKey::kConjugate); }
  bool is_neg() const { return keys_.has(DispatchKey::kNegative); }
  void set_conj(bool b) { set_key(DispatchKey::kConjugate, b); }
  void set_neg(bool b) { set_key(DispatchKey::kNegative, b); }
  bool is_inference() const { return inference_; }
  void set_inference(bool b) { inference_ = b; }
  void set_key(DispatchKey k, bool on) { keys_ = on ? keys_ | DispatchKeySet(k) : keys_ - DispatchKeySet(k); }

  // In-place writes so far. Inference tensors have no counter.
  uint32_t version() const {
    return (own_version_ ? own_version_->value : storage_->version()).load(std::memory_order_relaxed);
  }
  void bump_version() {
    if (!inference_ && (own_version_ || storage_))
      (own_version_ ? own_version_->value : storage_->version()).fetch_add(1, std::memory_order_relaxed);
  }
  bool has_version() const { return !inference_ && (own_version_ || storage_); }
  const IntrusivePtr<VersionCounter>& own_version() const { return own_version_; }
  void set_own_version(IntrusivePtr<VersionCounter> v) { own_version_ = std::move(v); }

  // The tensor that this one is a view of (never itself a view), or null.
  const IntrusivePtr<TensorImpl>& view_base() const { return base_; }
  ViewCreation view_creation() const { return view_creation_; }
  void set_view_base(IntrusivePtr<TensorImpl> base, ViewCreation c) {
    base_ = std::move(base);
    view_creation_ = c;
  }
  void set_view_creation(ViewCreation c) { view_creation_ = c; }

  AutogradMeta* autograd_meta() const { return autograd_.load(std::memory_order_acquire); }
  AutogradMeta& materialize_autograd_meta() {
    AutogradMeta* m = autograd_meta();
    return m ? *m : make_autograd_meta();
  }
  // A view requires grad when its base has come to do so, too.
  bool requires_grad() const {
    const AutogradMeta* m = autograd_meta();
    return (m && (m->requires_grad || m->has_history.load(std::memory_order_relaxed))) ||
           (base_ && base_->requires_grad());
  }
  // Keeps the autograd key in step with requires_grad(); call after changing the meta. Views always carry the key:
  // their base may get a history without their knowing.
  void update_autograd_key();
  void set_requires_grad(bool b);  // leaf flag only; the checked form is Tensor::requires_grad_

  ExtraMeta* extra() const { return extra_.get(); }
  ExtraMeta& materialize_extra() {
    if (!extra_) extra_ = std::make_unique<ExtraMeta>();
    return *extra_;
  }

  // A new impl with the same storage, shape, dtype, device and layout, no autograd, no Python object. shares_version:
  // views and detach(); else a counter of its own.
  virtual IntrusivePtr<TensorImpl> shallow_copy(bool shares_version) const;
  // Becomes what other is (storage, shape, dtype ...), keeping identity, autograd meta and Python object: `.data =
  // other`.
  virtual void take_contents_of(const TensorImpl& other);

  // The Python object of this tensor (weak) or, when owns_pyobject, the reference that keeps it alive with us.
  std::atomic<void*> pyobject{nullptr};
  bool owns_pyobject = false;
  // Set by the binding: releases the owned Python object from a destructor that may run on any thread.
  static void (*release_pyobject)(void* pyobject);

 protected:
  void dispose() override;  // to the thread's free list

 private:
  AutogradMeta& make_autograd_meta();
  void refresh_shape();
  void check_fits_storage() const;

  Storage storage_;
  DispatchKeySet keys_;
  int64_t numel_ = 0;
  int64_t offset_ = 0;
  std::atomic<AutogradMeta*> autograd_{nullptr};
  IntrusivePtr<TensorImpl> base_;
  IntrusivePtr<VersionCounter> own_version_;
  std::unique_ptr<ExtraMeta> extra_;
  DType dtype_;
  Device device_;
  Layout layout_ = Layout::kStrided;
  ViewCreation view_creation_ = ViewCreation::kDefault;
  bool contiguous_ : 1 = true;
  bool wrapped_number_ : 1 = false;
  bool inference_ : 1 = false;
  Shape shape_;
};

// From the thread's free list.
IntrusivePtr<TensorImpl> make_tensor_impl(Storage storage, DType dtype, Device device, DispatchKeySet keys);

// The backend key of strided tensors on a device, and the autograd key beside it.
DispatchKey backend_key(DeviceType t, Layout layout = Layout::kStrided);
DispatchKey autograd_key(DeviceType t);

}  // namespace tessera
