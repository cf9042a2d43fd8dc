#include "python/bindings/convert/dlpack.h"

#include <cstdint>

#include "python/bindings/convert/storage.h"
#include "tensor/core/device_hooks.h"

namespace tessera::python {
namespace {

// The structures of the specification (https://dmlc.github.io/dlpack).
struct DLDevice {
  int32_t device_type;
  int32_t device_id;
};
struct DLDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor tensor;
  void* context;
  void (*deleter)(DLManagedTensor*);
};
struct DLVersion {
  uint32_t major, minor;
};
struct DLManagedTensorVersioned {
  DLVersion version;
  void* context;
  void (*deleter)(DLManagedTensorVersioned*);
  uint64_t flags;
  DLTensor tensor;
};
enum Code : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6 };
constexpr int kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3, kDLCUDAManaged = 13;

DLDataType code_of(DType t) {
  const auto bits = static_cast<uint8_t>(item_size(t) * 8);
  if (t == DType::kBool) return {kBool, 8, 1};
  if (t == DType::kBFloat16) return {kBfloat, bits, 1};
  if (is_float8(t)) {
    // Codes of DLPack 1.1: e4m3fn 10, e4m3fnuz 11, e5m2 12, e5m2fnuz 13, e8m0fnu 14.
    const uint8_t code = t == DType::kFloat8_e4m3fn     ? 10
                         : t == DType::kFloat8_e4m3fnuz ? 11
                         : t == DType::kFloat8_e5m2     ? 12
                         : t == DType::kFloat8_e5m2fnuz ? 13
                                                        : 14;
    return {code, 8, 1};
  }
  if (category_of(t) == Category::kQuantized || is_storage_only(t))
    throw BufferError("QUInt/QInt types are not supported by dlpack");
  if (is_complex(t)) return {kComplex, bits, 1};
  if (is_floating_point(t)) return {kFloat, bits, 1};
  return {dtype_info(t).is_signed ? kInt : kUInt, bits, 1};
}

DType dtype_of(const DLDataType& d) {
  if (d.lanes == 1)
    for (int i = 0; i < kNumDTypes; ++i) {
      const auto t = static_cast<DType>(i);
      if (category_of(t) == Category::kQuantized || is_storage_only(t)) continue;
      const DLDataType c = code_of(t);
      if (c.code == d.code && c.bits == d.bits) return t;
    }
  throw BufferError(
      str_cat("Unsupported DLPack data type: code ", int{d.code}, ", ", int{d.bits}, " bits, ", d.lanes, " lanes"));
}

template <class Managed>
struct Export {
  Managed managed;
  Tensor tensor;
  IntVector shape, strides;
  AddressHold hold;
};

template <class Managed>
Managed* export_tensor(const Tensor& t) {
  auto* e = new Export<Managed>{{},
                                t,
                                IntVector(t.sizes().begin(), t.sizes().end()),
                                IntVector(t.strides().begin(), t.strides().end()),
                                AddressHold(t.storage())};
  // A dimension of one element may be given any stride; consumers expect 1.
  for (size_t i = 0; i < e->shape.size(); ++i)
    if (e->shape[i] < 2) e->strides[i] = 1;
  const auto [type, id] = dlpack_device(t);
  e->managed.tensor = {
      t.data_ptr(),      {type, id}, static_cast<int32_t>(t.dim()), code_of(t.dtype()), e->shape.data(),
      e->strides.data(), 0};
  e->managed.context = e;
  e->managed.deleter = [](Managed* m) { delete static_cast<Export<Managed>*>(m->context); };
  return &e->managed;
}

template <class Managed>
void release_capsule(PyObject* capsule, const char* name) {
  if (!PyCapsule_IsValid(capsule, name)) return;  // consumed
  auto* m = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (m && m->deleter) m->deleter(m);
}

Device device_of(const DLDevice& d) {
  if (d.device_type == kDLCPU || d.device_type == kDLCUDAHost) return Device();
  if (d.device_type == kDLCUDA || d.device_type == kDLCUDAManaged)
    return complete_device(Device(DeviceType::kCUDA, d.device_id));
  throw BufferError(str_cat("Unsupported device_type: ", d.device_type));
}

template <class Managed>
Tensor import_tensor(Managed* m) {
  const DLTensor& d = m->tensor;
  const Device device = device_of(d.device);
  const DType dtype = dtype_of(d.dtype);
  const IntVector sizes(d.shape, d.shape + d.ndim);
  const IntVector strides = d.strides ? IntVector(d.strides, d.strides + d.ndim) : contiguous_strides(sizes);
  int64_t last = 0;
  const int64_t n = checked_numel(sizes);
  for (size_t i = 0; i < sizes.size(); ++i) {
    TESSERA_CHECK_VALUE(strides[i] >= 0 || sizes[i] < 2, "tensors with negative strides are not supported");
    last += (sizes[i] - 1) * strides[i];
  }
  const size_t nbytes = n ? static_cast<size_t>((last + 1) * item_size(dtype)) : 0;
  Storage s = StorageImpl::wrap(
      static_cast<char*>(d.data) + d.byte_offset, nbytes, device,
      [](void*, void* context, size_t) {
        auto* managed = static_cast<Managed*>(context);
        if (managed->deleter)
          with_python([&] { managed->deleter(managed); });  // the producer may release Python objects
      },
      m);
  return tensor_from_storage(std::move(s), sizes, strides, 0, dtype);
}

template <class Managed>
Tensor consume(PyObject* capsule, const char* name, const char* used_name) {
  auto* m = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (!m) throw ErrorAlreadySet();
  Tensor t = import_tensor(m);
  check(PyCapsule_SetName(capsule, used_name));
  PyCapsule_SetDestructor(capsule, nullptr);
  return t;
}

}  // namespace

std::pair<int, int> dlpack_device(const Tensor& t) {
  if (t.is_cpu()) return {kDLCPU, 0};
  if (t.is_cuda()) return {kDLCUDA, t.device().index < 0 ? 0 : t.device().index};
  throw ValueError(str_cat("Unknown device type ", device_type_name(t.device().type), " for Dlpack"));
}

PyObject* to_dlpack(const Tensor& t, bool versioned) {
  TESSERA_CHECK_AS(BufferError, !t.requires_grad(), "Can't export tensors that require gradient, use tensor.detach()");
  TESSERA_CHECK_AS(BufferError, t.numel() == 0 || t.data_ptr(), "Can't export tensors that have no data");
  TESSERA_CHECK_AS(BufferError, !t.is_conj(), "Can't export tensors with the conjugate bit set");
  TESSERA_CHECK_AS(BufferError, !t.is_neg(), "Can't export tensors with the negative bit set");
  TESSERA_CHECK_AS(BufferError, t.layout() == Layout::kStrided,
                   "Can't export tensors with layout other than torch.strided");
  if (!versioned)
    return check(PyCapsule_New(export_tensor<DLManagedTensor>(t), "dltensor",
                               [](PyObject* c) { release_capsule<DLManagedTensor>(c, "dltensor"); }));
  auto* m = export_tensor<DLManagedTensorVersioned>(t);
  m->version = {1, 1};
  m->flags = 0;
  return check(PyCapsule_New(m, "dltensor_versioned",
                             [](PyObject* c) { release_capsule<DLManagedTensorVersioned>(c, "dltensor_versioned"); }));
}

Tensor from_dlpack(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    const auto* m = static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
    if (m->version.major > 1)
      throw BufferError(str_cat("Unsupported DLPack version: ", m->version.major, ".", m->version.minor));
    return consume<DLManagedTensorVersioned>(capsule, "dltensor_versioned", "used_dltensor_versioned");
  }
  TESSERA_CHECK(PyCapsule_IsValid(capsule, "dltensor"),
                "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only once, so "
                "you might have already constructed a tensor from it once.");
  return consume<DLManagedTensor>(capsule, "dltensor", "used_dltensor");
}

}  // namespace tessera::python
