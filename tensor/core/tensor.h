// The tensor handle: a counted reference to a TensorImpl, with everything that needs no operator. The methods that are
// operators (add, view, sum ...) are declared by a generated file and defined inline by the operators' headers.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "tensor/core/error.h"
#include "tensor/core/generator/generator.h"
#include "tensor/core/list_defaults.h"
#include "tensor/core/scalar.h"
#include "tensor/core/tensor_impl.h"

namespace tessera {

class Tensor;
using TensorList = std::span<const Tensor>;

// dtype, device, layout ... of a tensor to be made; empty fields mean the defaults.
struct TensorOptions {
  std::optional<DType> dtype;
  std::optional<Layout> layout;
  std::optional<Device> device;
  std::optional<bool> pin_memory;
  std::optional<bool> requires_grad;
  TensorOptions() = default;
  TensorOptions(DType t) : dtype(t) {}
  TensorOptions(DType t, Device d) : dtype(t), device(d) {}
};

class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(IntrusivePtr<TensorImpl> impl) : impl_(std::move(impl)) {}

  bool defined() const { return static_cast<bool>(impl_); }
  TensorImpl* impl() const { return impl_.get(); }
  const IntrusivePtr<TensorImpl>& impl_ptr() const { return impl_; }
  TensorImpl* leak() { return impl_.leak(); }
  bool is_same(const Tensor& o) const { return impl_ == o.impl_; }
  void reset() { impl_.reset(); }

  int64_t dim() const { return impl_->dim(); }
  IntList sizes() const { return impl_->sizes(); }
  IntList strides() const { return impl_->strides(); }
  SymIntList sym_sizes() const { return impl_->sizes(); }
  SymIntList sym_strides() const { return impl_->strides(); }
  int64_t size(int64_t d) const;  // negative d counts from the end; IndexError
  int64_t stride(int64_t d) const;
  SymInt sym_size(int64_t d) const { return size(d); }
  int64_t numel() const { return impl_->numel(); }
  SymInt sym_numel() const { return numel(); }
  int64_t storage_offset() const { return impl_->storage_offset(); }
  const Storage& storage() const { return impl_->storage(); }
  DType dtype() const { return impl_->dtype(); }
  Device device() const { return impl_->device(); }
  Layout layout() const { return impl_->layout(); }
  DispatchKeySet keys() const { return impl_->keys(); }
  TensorOptions options() const {
    TensorOptions o;
    o.dtype = dtype();
    o.device = device();
    o.layout = layout();
    return o;
  }
  int64_t item_size() const { return tessera::item_size(dtype()); }
  int64_t nbytes() const { return numel() * item_size(); }
  bool is_contiguous() const { return impl_->is_contiguous(); }
  bool is_contiguous(MemoryFormat f) const;
  // No two indices share an element and there are no gaps: some permutation of the dimensions is contiguous.
  bool is_non_overlapping_and_dense() const;
  MemoryFormat suggest_memory_format() const;
  bool is_complex() const { return tessera::is_complex(dtype()); }
  bool is_floating_point() const { return tessera::is_floating_point(dtype()); }
  bool is_meta() const { return device().is_meta(); }
  bool is_cpu() const { return device().is_cpu(); }
  bool is_cuda() const { return device().is_cuda(); }
  bool is_conj() const { return impl_->is_conj(); }
  bool is_neg() const { return impl_->is_neg(); }
  bool is_inference() const { return impl_->is_inference(); }
  bool is_view() const { return static_cast<bool>(impl_->view_base()); }
  Tensor view_base() const { return Tensor(impl_->view_base()); }
  uint32_t version() const { return impl_->version(); }
  void bump_version() const { impl_->bump_version(); }

  // Where the elements are, in the memory of whatever device they are on; null without a storage.
  void* data_ptr() const { return impl_->data(); }
  template <class T>
  T* data_ptr() const {
    return reinterpret_cast<T*>(impl_->data());
  }
  // The elements, for code that reads or writes them itself. Error if they are not in host memory (another device,
  // Meta).
  template <class T>
  T* data() const {
    if (!is_cpu()) [[unlikely]]
      not_in_host_memory();
    return reinterpret_cast<T*>(impl_->data());
  }

  bool requires_grad() const { return impl_->requires_grad(); }
  bool is_leaf() const {
    auto* m = impl_->autograd_meta();
    return !m || !m->has_history.load(std::memory_order_relaxed);
  }
  // Leaves of floating or complex dtype only: Error otherwise. Returns *this.
  const Tensor& requires_grad_(bool b = true) const;
  Tensor grad() const {
    auto* m = impl_->autograd_meta();
    return m ? Tensor(m->grad) : Tensor();
  }
  void set_grad(const Tensor& g) const { impl_->materialize_autograd_meta().grad = g.impl_ptr(); }
  uint32_t output_nr() const {
    auto* m = impl_->autograd_meta();
    return m ? m->output_nr.load(std::memory_order_relaxed) : 0;
  }
  // With the autograd library linked: see autograd/autograd.h.
  void backward(const Tensor& gradient = Tensor(), std::optional<bool> retain_graph = std::nullopt,
                bool create_graph = false) const;

  template <class T>
  T item() const;  // one element; Error otherwise
  Scalar item_scalar() const;

  Tensor operator-() const;
  Tensor operator[](int64_t i) const;  // select(0, i)

#include "tensor/ops/tensor_methods.inc"

 private:
  [[noreturn]] void not_in_host_memory() const;

  IntrusivePtr<TensorImpl> impl_;
};

// The metadata that structured operators compute before any work is done.
struct OutputSpec {
  IntVector sizes;
  IntVector strides;  // empty: row-major
  DType dtype = DType::kFloat32;
  Device device;
  OutputSpec() = default;
  OutputSpec(IntList s, DType t, Device d) : sizes(s.begin(), s.end()), dtype(t), device(d) {}
  OutputSpec(IntVector s, IntVector st, DType t, Device d)
      : sizes(std::move(s)), strides(std::move(st)), dtype(t), device(d) {}
  OutputSpec(const Tensor& like, IntList s) : OutputSpec(s, like.dtype(), like.device()) {}
};

// Low-level makers, below dispatch. Sizes are checked (negative, overflow).
Tensor empty_kernel(IntList sizes, DType dtype);  // row-major
Tensor empty_tensor(IntList sizes, IntList strides, DType dtype,
                    Device device);  // strides empty: row-major. CPU and Meta here; others through device_hooks.h
Tensor empty_from(const OutputSpec& spec);
// A window on t's storage; sizes, strides, offset are trusted. Tracks the view (base, version); no autograd history.
Tensor make_view(const Tensor& t, IntList sizes, IntList strides, int64_t offset);
Tensor make_view(const Tensor& t, IntList sizes, IntList strides, int64_t offset, DType dtype);
Tensor tensor_from_storage(Storage storage, IntList sizes, IntList strides, int64_t offset,
                           DType dtype);  // CPU; bounds-checked: Error
// A 0-dim CPU tensor.
Tensor scalar_to_tensor(const Scalar& s, DType dtype, Device device = Device());
// The same, flagged as a Python number: it takes part in promotion with its category alone. dtype: bool, int64, float64
// or complex128 (full precision is kept until the compute dtype is known).
Tensor wrapped_number(const Scalar& s);

// dim in [-ndim, ndim) -> [0, ndim); 0-dim tensors behave as 1-dim where wrap_scalar. IndexError "Dimension out of
// range (expected to be in range of [-2, 1], but got 5)".
int64_t wrap_dim(int64_t dim, int64_t ndim, bool wrap_scalar = true);
IntVector contiguous_strides(IntList sizes);
IntVector channels_last_strides(IntList sizes);  // 4-d and 5-d
int64_t checked_numel(IntList sizes);            // Error on negative sizes and overflow
IntVector infer_broadcast(
    IntList a,
    IntList b);  // Error: "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 0"
IntVector infer_size(IntList shape,
                     int64_t numel);  // resolves one -1; Error "shape '[3, -1]' is invalid for input of size 10"
std::optional<IntVector> compute_view_strides(IntList old_sizes, IntList old_strides, IntList new_sizes);
// Strides of a fresh result that keeps t's dimension order (dense, t's permutation), for preserve_format; contiguous if
// t is not dense.
IntVector preserved_strides(const Tensor& t);
enum class Overlap { kNo, kYes, kTooHard };
Overlap internal_overlap(const Tensor& t);  // two indices, one address
enum class Sharing { kNone, kFull, kPartial };
Sharing memory_sharing(const Tensor& a, const Tensor& b);
std::string shape_string(IntList sizes);  // "[2, 3]"

}  // namespace tessera
