#include "tensor/core/tensor.h"

#include <cmath>
#include <cstring>

#include "tensor/core/device_hooks.h"
#include "tensor/core/transforms.h"
#include "tensor/core/visit.h"

namespace tessera {

void Tensor::not_in_host_memory() const {
  TESSERA_CHECK(!is_meta(), "Cannot access data pointer of Tensor that doesn't have storage: it is on the meta device");
  internal::raise<Error>("the elements of a tensor on ", device().str(),
                         " can't be read from the host; copy it to the CPU first");
}

int64_t Tensor::size(int64_t d) const { return sizes()[wrap_dim(d, dim(), false)]; }
int64_t Tensor::stride(int64_t d) const { return strides()[wrap_dim(d, dim(), false)]; }

bool Tensor::is_contiguous(MemoryFormat f) const {
  if (f == MemoryFormat::kContiguous || f == MemoryFormat::kPreserve) return is_contiguous();
  const int64_t rank = f == MemoryFormat::kChannelsLast ? 4 : 5;
  if (dim() != rank) return false;
  int64_t expected = 1;
  for (int64_t step = 0; step < rank; ++step) {
    const int64_t d = step == 0 ? 1 : step < rank - 1 ? rank - step : 0;  // C, W, H(, D), N
    if (sizes()[d] != 1) {
      if (strides()[d] != expected) return false;
      expected *= sizes()[d];
    }
  }
  return true;
}

MemoryFormat Tensor::suggest_memory_format() const {
  const int64_t rank = dim();
  if (rank != 4 && rank != 5) return MemoryFormat::kContiguous;
  // Channels last when the strides fall in the order N, (D,) H, W, C and a plain contiguous reading is not the better
  // one.
  const MemoryFormat f = rank == 4 ? MemoryFormat::kChannelsLast : MemoryFormat::kChannelsLast3d;
  if (strides()[1] == 0) return MemoryFormat::kContiguous;
  int64_t min = 0;
  for (int64_t step = 0; step < rank; ++step) {
    const int64_t d = step == 0 ? 1 : step < rank - 1 ? rank - step : 0;
    if (sizes()[d] == 0 || strides()[d] < min) return MemoryFormat::kContiguous;
    if (d == 0 && min == strides()[1]) return MemoryFormat::kContiguous;
    min = strides()[d];
    if (sizes()[d] > 1) min *= sizes()[d];
  }
  return f;
}

bool Tensor::is_non_overlapping_and_dense() const {
  if (is_contiguous()) return true;
  const int64_t n = dim();
  int64_t order[64];
  for (int64_t i = 0; i < n; ++i) {  // insertion sort by stride; size-1 dimensions last
    int64_t j = i;
    auto key = [&](int64_t d) { return sizes()[d] < 2 ? INT64_MAX : strides()[d]; };
    while (j > 0 && key(order[j - 1]) > key(i)) {
      order[j] = order[j - 1];
      --j;
    }
    order[j] = i;
  }
  int64_t expected = 1;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t d = order[i];
    if (sizes()[d] < 2) return true;
    if (strides()[d] != expected) return false;
    expected *= sizes()[d];
  }
  return true;
}

const Tensor& Tensor::requires_grad_(bool b) const {
  if (b) {
    TESSERA_CHECK(is_floating_point() || is_complex(), "only Tensors of floating point dtype can require gradients");
    TESSERA_CHECK(!is_inference() || inference_mode_enabled(),
                  "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.");
  } else {
    TESSERA_CHECK(is_leaf(),
                  "you can only change requires_grad flags of leaf variables. If you want to use a computed variable "
                  "in a subgraph that doesn't require "
                  "differentiation use var_no_grad = var.detach().");
  }
  if (is_leaf()) impl_->set_requires_grad(b);
  return *this;
}

namespace internal {
[[gnu::weak]] Scalar item_in_python(const Tensor& t);  // of the binding: tensors that Python looks after
}
Scalar Tensor::item_scalar() const {
  if (keys().has_any(kTransformedKeys | DispatchKey::kFunctionalize) && &internal::item_in_transform)
    return internal::item_in_transform(*this);
  if (keys().has(DispatchKey::kPython) && &internal::item_in_python &&
      !(thread_state.excluded & DispatchKeySet(DispatchKey::kPython).bits()))
    return internal::item_in_python(*this);
  TESSERA_CHECK(numel() == 1, "a Tensor with ", numel(), " elements cannot be converted to Scalar");
  TESSERA_CHECK(!is_meta(), "Tensor.item() cannot be called on meta tensors");
  TESSERA_CHECK(data_ptr(), "Cannot access data pointer of Tensor that doesn't have storage");
  alignas(16) char element[16];
  const void* at = data_ptr();
  if (!is_cpu()) {
    auto* read = device_hooks(device().type).read;
    TESSERA_CHECK(read, "item() of a tensor on ", device().str(), " goes through the operator aten::item");
    read(element, at, device(), static_cast<size_t>(item_size()));
    at = element;
  }
  Scalar s = load_scalar(dtype(), at);
  if (is_conj()) s = s.conj();
  return is_neg() ? -s : s;
}
template <>
double Tensor::item<double>() const {
  return item_scalar().to_double();
}
template <>
float Tensor::item<float>() const {
  return static_cast<float>(item_scalar().to_double());
}
template <>
int64_t Tensor::item<int64_t>() const {
  return item_scalar().to_int();
}
template <>
bool Tensor::item<bool>() const {
  return item_scalar().to_bool();
}
template <>
std::complex<double> Tensor::item<std::complex<double>>() const {
  return item_scalar().to_complex();
}

Tensor empty_kernel(IntList sizes, DType dtype) {
  auto impl = make_tensor_impl(nullptr, dtype, Device(), DispatchKey::kCPU);
  impl->set_sizes_contiguous(sizes);
  int64_t bytes;
  TESSERA_CHECK(!__builtin_mul_overflow(impl->numel(), item_size(dtype), &bytes),
                "Storage size calculation overflowed with sizes=", shape_string(sizes));
  impl->mutable_storage() = StorageImpl::allocate(static_cast<size_t>(bytes));
  if (inference_mode_enabled()) impl->set_inference(true);
  return Tensor(std::move(impl));
}

Tensor empty_tensor(IntList sizes, IntList strides, DType dtype, Device device) {
  if (device.is_cpu() && strides.empty()) return empty_kernel(sizes, dtype);
  if (!device.has_index() && !device.is_cpu() && !device.is_meta()) device = complete_device(device);
  auto impl = make_tensor_impl(nullptr, dtype, device, backend_key(device.type));
  int64_t span;
  if (strides.empty()) {
    impl->set_sizes_contiguous(sizes);
    span = impl->numel();
  } else {
    TESSERA_CHECK(sizes.size() == strides.size(), "mismatch in length of strides and shape: ", strides.size(), " and ",
                  sizes.size());
    const int64_t n = checked_numel(sizes);
    span = n == 0 ? 0 : 1;
    for (size_t i = 0; i < sizes.size() && n != 0; ++i) {
      int64_t reach;
      TESSERA_CHECK(strides[i] >= 0, "as_strided: Negative strides are not supported at the moment, got strides: ",
                    shape_string(strides));
      TESSERA_CHECK(
          !__builtin_mul_overflow(sizes[i] - 1, strides[i], &reach) && !__builtin_add_overflow(span, reach, &span),
          "Storage size calculation overflowed with sizes=", shape_string(sizes),
          " and strides=", shape_string(strides));
    }
    impl->set_sizes_and_strides(sizes, strides);
  }
  int64_t bytes;
  TESSERA_CHECK(!__builtin_mul_overflow(span, item_size(dtype), &bytes),
                "Storage size calculation overflowed with sizes=", shape_string(sizes));
  impl->mutable_storage() = StorageImpl::allocate(static_cast<size_t>(bytes), device);
  if (inference_mode_enabled()) impl->set_inference(true);
  return Tensor(std::move(impl));
}
Tensor empty_from(const OutputSpec& spec) { return empty_tensor(spec.sizes, spec.strides, spec.dtype, spec.device); }

namespace {
IntrusivePtr<TensorImpl> start_view(const Tensor& t, DType dtype) {
  TensorImpl& src = *t.impl();
  auto v = make_tensor_impl(src.storage(), dtype, src.device(), src.keys() - kAutogradKeys - DispatchKey::kNamed);
  v->set_own_version(src.own_version());
  v->set_inference(src.is_inference());
  const auto& base = src.view_base();
  if (src.is_inference()) return v;
  v->set_key(autograd_key(src.device().type), true);
  const bool inference = inference_mode_enabled();
  v->set_view_base(base ? base : t.impl_ptr(), inference              ? ViewCreation::kInferenceMode
                                               : !grad_mode_enabled() ? ViewCreation::kNoGrad
                                               : base                 ? src.view_creation()
                                                                      : ViewCreation::kDefault);
  // Recorded by nobody, but a tensor of the kind that it is a view of.
  if (inference && src.requires_grad() && (is_complex(dtype) || is_floating_point(dtype))) v->set_requires_grad(true);
  return v;
}
}  // namespace

Tensor make_view(const Tensor& t, IntList sizes, IntList strides, int64_t offset) {
  return make_view(t, sizes, strides, offset, t.dtype());
}

Tensor make_view(const Tensor& t, IntList sizes, IntList strides, int64_t offset, DType dtype) {
  auto v = start_view(t, dtype);
  v->set_sizes_and_strides(sizes, strides);
  v->set_storage_offset(offset);
  v->set_layout(t.layout());
  return Tensor(std::move(v));
}

Tensor tensor_from_storage(Storage storage, IntList sizes, IntList strides, int64_t offset, DType dtype) {
  TESSERA_CHECK(sizes.size() == strides.size(), "mismatch in length of strides and shape: ", strides.size(), " and ",
                sizes.size());
  TESSERA_CHECK(offset >= 0, "storage offset must not be negative, got ", offset);
  const int64_t n = checked_numel(sizes);
  int64_t last = offset;
  for (size_t i = 0; i < sizes.size() && n != 0; ++i) {
    int64_t reach;
    TESSERA_CHECK(strides[i] >= 0,
                  "as_strided: Negative strides are not supported at the moment, got strides: ", shape_string(strides));
    TESSERA_CHECK(
        !__builtin_mul_overflow(sizes[i] - 1, strides[i], &reach) && !__builtin_add_overflow(last, reach, &last),
        "storage size calculation overflowed with sizes=", shape_string(sizes), " and strides=", shape_string(strides));
  }
  int64_t bytes = 0, end;
  TESSERA_CHECK(
      n == 0 || (!__builtin_add_overflow(last, 1, &end) && !__builtin_mul_overflow(end, item_size(dtype), &bytes) &&
                 static_cast<size_t>(bytes) <= storage->nbytes()),
      "setStorage: sizes ", shape_string(sizes), ", strides ", shape_string(strides), ", storage offset ", offset,
      ", and itemsize ", item_size(dtype), " requiring a storage size of ", bytes,
      " are out of bounds for storage of size ", storage->nbytes());
  const Device device = storage->device();
  auto impl = make_tensor_impl(std::move(storage), dtype, device, backend_key(device.type));
  impl->set_sizes_and_strides(sizes, strides);
  impl->set_storage_offset(offset);
  return Tensor(std::move(impl));
}

Tensor scalar_to_tensor(const Scalar& s, DType dtype, Device device) {
  auto impl = make_tensor_impl(nullptr, dtype, device, backend_key(device.type));
  impl->set_sizes_0d();
  if (device.is_cpu()) {
    impl->mutable_storage() = StorageImpl::allocate(static_cast<size_t>(item_size(dtype)));
    store_scalar(s, dtype, impl->data());
  } else {
    TESSERA_CHECK(device.is_meta(), "scalar_to_tensor makes CPU and meta tensors; copy to ", device.str(),
                  " afterwards");
    impl->mutable_storage() = StorageImpl::without_data(device, static_cast<size_t>(item_size(dtype)));
  }
  if (inference_mode_enabled()) impl->set_inference(true);
  return Tensor(std::move(impl));
}

Tensor wrapped_number(const Scalar& s) {
  const DType t = s.is_floating_point() ? DType::kFloat64 : s.is_complex() ? DType::kComplex128 : s.raw_dtype();
  Tensor r = scalar_to_tensor(s, t);
  r.impl()->set_wrapped_number(true);
  return r;
}

}  // namespace tessera
