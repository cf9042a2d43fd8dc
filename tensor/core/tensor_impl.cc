#include "tensor/core/tensor_impl.h"

#include <algorithm>

#include "tensor/core/error.h"
#include "tensor/core/free_list.h"
#include "tensor/core/transforms.h"

namespace tessera {

void (*TensorImpl::release_pyobject)(void*) = nullptr;
// Set by the binding: whether a program holds the owned Python object, too (a weak reference gave it back). It owns the
// tensor from then on.
extern bool (*outlived_by_pyobject)(TensorImpl*);
bool (*outlived_by_pyobject)(TensorImpl*) = nullptr;

AutogradMeta::~AutogradMeta() = default;

TensorImpl::TensorImpl(Storage storage, DType dtype, Device device, DispatchKeySet keys)
    : storage_(std::move(storage)), keys_(keys), dtype_(dtype), device_(device) {
  contiguous_ = true;
}

TensorImpl::~TensorImpl() {
  if (owns_pyobject && release_pyobject) release_pyobject(pyobject.load(std::memory_order_relaxed));
  delete autograd_meta();
}

void TensorImpl::dispose() {
  if (owns_pyobject && outlived_by_pyobject && outlived_by_pyobject(this)) return;
  // Subclasses have another size: they go back to the heap.
  if (typeid(*this) != typeid(TensorImpl)) {
    delete this;
    return;
  }
  this->~TensorImpl();
  FreeList<TensorImpl>::give(this);
}

IntrusivePtr<TensorImpl> make_tensor_impl(Storage storage, DType dtype, Device device, DispatchKeySet keys) {
  return IntrusivePtr<TensorImpl>::adopt(new (FreeList<TensorImpl>::take())
                                             TensorImpl(std::move(storage), dtype, device, keys));
}

void TensorImpl::check_fits_storage() const {
  TESSERA_CHECK(layout_ == Layout::kStrided,
                "Cannot access data pointer of Tensor that doesn't have storage: a tensor of layout ",
                layout_name(layout_), " keeps its elements in members; use .values() or .to_dense()");
  TESSERA_CHECK(!is_transformed(keys_),
                "Cannot access data pointer of Tensor that doesn't have storage: it is inside of a function transform "
                "(vmap, grad, jvp ...), where data can be reached by operators alone, not by .numpy(), .tolist() or "
                ".data_ptr(). Return it from the transformed function and read it outside.");
  if (numel_ == 0 || device_.is_meta()) return;
  TESSERA_CHECK(!storage_->device().is_meta(),
                "Cannot access data pointer of Tensor that doesn't have storage: it is a fake one, of which only the "
                "metadata is known");
  TESSERA_CHECK(!keys_.has(DispatchKey::kPython) || storage_->data(),
                "Cannot access data pointer of Tensor that doesn't have storage");
  int64_t last = offset_;
  for (int i = 0; i < dim(); ++i) last += (sizes()[static_cast<size_t>(i)] - 1) * strides()[static_cast<size_t>(i)];
  const int64_t needed = (last + 1) * item_size(dtype_);
  TESSERA_CHECK(needed <= static_cast<int64_t>(storage_->nbytes()), "the tensor's storage was resized to ",
                storage_->nbytes(), " bytes, but its sizes, strides and offset ", offset_, " need ", needed,
                " bytes; resize the storage back, or give the tensor a smaller shape (resize_, set_)");
}

// Shape counts dimensions in a byte, sets of dimensions are the bits of a word, and engines keep what they know of each
// in arrays.
static void check_rank(size_t dims) {
  constexpr size_t kMaxDims = 64;
  TESSERA_CHECK(dims <= kMaxDims, "only tensors with up to ", kMaxDims, " dims are supported, got sizes of ", dims);
}

void TensorImpl::set_sizes_and_strides(IntList sizes, IntList strides) {
  check_rank(sizes.size());
  TESSERA_CHECK(sizes.size() == strides.size(), "mismatch in length of strides and shape: ", strides.size(), " and ",
                sizes.size());
  int64_t signs = 0;
  for (int64_t size : sizes) signs |= size;
  TESSERA_CHECK(signs >= 0, "Trying to create tensor with negative dimension: sizes must not be negative");
  shape_.assign(sizes, strides);
  refresh_shape();
}

void TensorImpl::refresh_shape() {
  const int64_t* sizes = shape_.sizes_data();
  const int64_t* strides = shape_.strides_data();
  uint64_t n = 1, expected = 1;  // they may run over where a later size is 0
  bool contiguous = true;
  for (int i = shape_.dim() - 1; i >= 0; --i) {
    n *= static_cast<uint64_t>(sizes[i]);
    if (sizes[i] != 1) {
      contiguous = contiguous && static_cast<uint64_t>(strides[i]) == expected;
      expected *= static_cast<uint64_t>(sizes[i]);
    }
  }
  numel_ = static_cast<int64_t>(n);
  contiguous_ = contiguous || n == 0;
}

void TensorImpl::set_sizes_contiguous(IntList sizes) {
  const int dim = static_cast<int>(sizes.size());
  IntVector copy;
  if (dim != shape_.dim()) {
    check_rank(sizes.size());
    const auto at = reinterpret_cast<uintptr_t>(sizes.data()), own = reinterpret_cast<uintptr_t>(this);
    if (shape_.dim() > Shape::kInline || at - own < sizeof *this) {  // sizes may lie in this shape
      copy.assign(sizes.begin(), sizes.end());
      sizes = copy;
    }
    shape_.resize(dim);
  }
  const int64_t* in = sizes.data();
  int64_t* out = shape_.sizes_data();
  int64_t* strides = shape_.strides_data();
  int64_t n = 1, stride = 1;
  for (int i = dim - 1; i >= 0; --i) {
    const int64_t size = in[i];
    TESSERA_CHECK(size >= 0, "Trying to create tensor with negative dimension ", size, ": ",
                  "sizes must not be negative");
    out[i] = size;
    strides[i] = stride;
    TESSERA_CHECK(!__builtin_mul_overflow(stride, size > 1 ? size : 1, &stride), "Stride calculation overflowed");
    n = size == 0 ? 0 : n * size;  // at most as large as `stride`
  }
  numel_ = n;
  contiguous_ = true;
}

void TensorImpl::set_shape_of(const TensorImpl& other) {
  shape_ = other.shape_;
  numel_ = other.numel_;
  contiguous_ = other.contiguous_;
}

// Two threads may come at once, by a view that both ask for its history: one of them makes it.
AutogradMeta& TensorImpl::make_autograd_meta() {
  auto fresh = std::make_unique<AutogradMeta>();
  AutogradMeta* there = nullptr;
  if (autograd_.compare_exchange_strong(there, fresh.get(), std::memory_order_acq_rel)) there = fresh.release();
  return *there;
}

void TensorImpl::update_autograd_key() {
  const DispatchKey key = autograd_key(device_.type);
  const bool wanted = base_ || requires_grad();
  if (keys_.has(key) != wanted) set_key(key, wanted);  // a view's is never written, so that others may read it
}

void TensorImpl::set_requires_grad(bool b) {
  if (!b && !autograd_meta()) return;
  materialize_autograd_meta().requires_grad = b;
  update_autograd_key();
}

IntrusivePtr<TensorImpl> TensorImpl::shallow_copy(bool shares_version) const {
  auto r =
      make_tensor_impl(storage_, dtype_, device_, keys_ - kAutogradKeys - DispatchKey::kForward - DispatchKey::kNamed);
  r->shape_ = shape_;
  r->numel_ = numel_;
  r->contiguous_ = contiguous_;
  r->offset_ = offset_;
  r->layout_ = layout_;
  if (shares_version) {
    r->own_version_ = own_version_;
    r->inference_ = inference_;
  } else {
    r->own_version_ = make_intrusive<VersionCounter>();
  }
  if (extra_) {
    r->extra_ = std::make_unique<ExtraMeta>(*extra_);
    r->extra_->forward_grads = {};
    r->extra_->names.clear();
  }
  return r;
}

void TensorImpl::take_contents_of(const TensorImpl& other) {
  const DispatchKeySet autograd = keys_ & kAutogradKeys;
  storage_ = other.storage_;
  keys_ = (other.keys_ - kAutogradKeys - DispatchKey::kForward - DispatchKey::kNamed) | autograd;
  if (extra_) {  // the tangent and the names were of other contents
    extra_->forward_grads = {};
    extra_->names.clear();
  }
  dtype_ = other.dtype_;
  device_ = other.device_;
  layout_ = other.layout_;
  offset_ = other.offset_;
  if (extra_ || (other.extra_ && other.extra_->backend_meta))
    materialize_extra().backend_meta = other.extra_ ? other.extra_->backend_meta : nullptr;
  set_shape_of(other);
  own_version_ = make_intrusive<VersionCounter>();
  update_autograd_key();
}

DispatchKey backend_key(DeviceType t, Layout layout) {
  const bool sparse = layout == Layout::kSparseCoo;
  const bool compressed = layout >= Layout::kSparseCsr && layout <= Layout::kSparseBsc;
  switch (t) {
    case DeviceType::kCPU:
      return sparse ? DispatchKey::kSparseCPU : compressed ? DispatchKey::kSparseCsrCPU : DispatchKey::kCPU;
    case DeviceType::kCUDA:
      return sparse ? DispatchKey::kSparseCUDA : compressed ? DispatchKey::kSparseCsrCUDA : DispatchKey::kCUDA;
    case DeviceType::kMeta:
      return sparse ? DispatchKey::kSparseMeta : compressed ? DispatchKey::kSparseCsrMeta : DispatchKey::kMeta;
    case DeviceType::kMPS:
      return DispatchKey::kMPS;
    case DeviceType::kXPU:
      return DispatchKey::kXPU;
    case DeviceType::kHPU:
      return DispatchKey::kHPU;
    case DeviceType::kMTIA:
      return DispatchKey::kMTIA;
    case DeviceType::kXLA:
      return DispatchKey::kXLA;
    case DeviceType::kPrivateUse1:
      return DispatchKey::kPrivateUse1;
    default:
      throw Error(str_cat("tensors on device type ", device_type_name(t),
                          " are not supported by this build; use cpu, cuda or meta"));
  }
}

DispatchKey autograd_key(DeviceType t) {
  switch (t) {
    case DeviceType::kCPU:
      return DispatchKey::kAutogradCPU;
    case DeviceType::kCUDA:
      return DispatchKey::kAutogradCUDA;
    case DeviceType::kMeta:
      return DispatchKey::kAutogradMeta;
    case DeviceType::kPrivateUse1:
      return DispatchKey::kAutogradPrivateUse1;
    case DeviceType::kMPS:
      return DispatchKey::kAutogradMPS;
    case DeviceType::kXPU:
      return DispatchKey::kAutogradXPU;
    default:
      return DispatchKey::kAutogradOther;
  }
}

}  // namespace tessera
