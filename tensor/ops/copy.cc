// Copies, conversions, numbers out of tensors, sizes in place.
#include <algorithm>

#include "tensor/core/warning.h"
#include "tensor/engine/device.h"
#include "tensor/engine/pointwise.h"
#include "tensor/ops/api.h"
#include "tensor/ops/create_extra.h"
#include "tensor/ops/create_kernels.h"
#include "tensor/ops/inference_writes.h"
#include "tensor/ops/pointwise.h"
#include "tensor/ops/promotion.h"

namespace tessera {
namespace kernels {
namespace {

// dst = src, broadcast and converted, lazy bits resolved on the way; both on one device.
void copy_elements(const Tensor& dst, const Tensor& src) {
  if (dst.is_meta() || dst.numel() == 0) return;
  const bool conj = dst.is_conj() != src.is_conj(), neg = dst.is_neg() != src.is_neg();
  const auto run = TESSERA_ON(dst.device(), copy_strided);
  if (dst.is_contiguous() && src.is_contiguous() && std::ranges::equal(dst.sizes(), src.sizes())) {
    const int64_t n = dst.numel(), to = dst.item_size(), from = src.item_size();
    return run({&n, 1}, {dst.data_ptr(), dst.dtype(), &to}, {src.data_ptr(), src.dtype(), &from}, conj, neg);
  }
  int64_t to_strides[64], from_strides[64];
  pointwise::broadcast_strides(dst, dst.sizes(), to_strides);
  pointwise::broadcast_strides(src, dst.sizes(), from_strides);
  run(dst.sizes(), {dst.data_ptr(), dst.dtype(), to_strides}, {src.data_ptr(), src.dtype(), from_strides}, conj, neg);
}

// The elements of t one behind the other, as they lie in memory, with no lazy bits.
bool is_plain(const Tensor& t) { return t.is_non_overlapping_and_dense() && !t.is_conj() && !t.is_neg(); }

// Between devices: dense blocks of bytes of one dtype travel; layouts and dtypes are changed before on the source's
// device, or behind on the target's.
void copy_between_devices(const Tensor& dst, const Tensor& src, bool non_blocking) {
  if (dst.numel() == 0) return;
  const bool same = std::ranges::equal(dst.sizes(), src.sizes()) && dst.dtype() == src.dtype() &&
                    std::ranges::equal(dst.strides(), src.strides());
  if (same && is_plain(dst) && is_plain(src)) {
    const Device busy = dst.is_cpu() ? src.device() : dst.device();
    const DeviceTable& e = DeviceTable::of(busy.type);
    TESSERA_CHECK(e.transfer, "copy_ between ", src.device().str(), " and ", dst.device().str(),
                  " needs the library of that device");
    e.select(busy);
    e.transfer(dst.data_ptr(), dst.device(), src.data_ptr(), src.device(), static_cast<size_t>(dst.nbytes()),
               non_blocking);
    return;
  }
  // Converted where fewer bytes travel for it.
  const DType t = dst.item_size() < src.item_size() ? dst.dtype() : src.dtype();
  const Tensor packed = empty_tensor(src.sizes(), {}, t, src.device());
  copy_elements(packed, src);
  const Tensor arrived = empty_tensor(src.sizes(), {}, t, dst.device());
  copy_between_devices(arrived, packed, false);
  copy_elements(dst, arrived);
}

IntVector copy_strides(const Tensor& self, std::optional<MemoryFormat> format) {
  switch (format.value_or(MemoryFormat::kPreserve)) {
    case MemoryFormat::kPreserve:
      return self.is_contiguous() ? (self.numel() ? IntVector() : IntVector()) : preserved_strides(self);
    case MemoryFormat::kChannelsLast:
      TESSERA_CHECK(self.dim() == 4, "required rank 4 tensor to use channels_last format");
      return channels_last_strides(self.sizes());
    case MemoryFormat::kChannelsLast3d:
      TESSERA_CHECK(self.dim() == 5, "required rank 5 tensor to use channels_last_3d format");
      return channels_last_strides(self.sizes());
    default:
      return {};
  }
}

void warn_of_lost_parts(DType from, DType to) {
  if (is_complex(from) && !is_complex(to) && to != DType::kBool) [[unlikely]]
    warn_once("Casting complex values to real discards the imaginary part");
}

}  // namespace

const Tensor& copy__kernel(const Tensor& self, const Tensor& src, bool non_blocking) {
  if (self.is_same(src)) return self;
  const IntVector shape = infer_broadcast(self.sizes(), src.sizes());
  TESSERA_CHECK(std::ranges::equal(shape, self.sizes()), "output with shape ", shape_string(self.sizes()),
                " doesn't match the broadcast shape ", shape_string(shape));
  check_overlap_before_write(self);
  if (self.is_meta()) return self;
  warn_of_lost_parts(src.dtype(), self.dtype());
  TESSERA_CHECK_NOT_IMPLEMENTED(!src.is_meta(), "Cannot copy out of meta tensor; no data!");
  if (self.device() != src.device()) {
    copy_between_devices(self, src, non_blocking);
    check_inference_write(self);
    return self;
  }
  const Sharing sharing = memory_sharing(self, src);
  if (sharing == Sharing::kFull && self.dtype() == src.dtype() && self.is_conj() == src.is_conj() &&
      self.is_neg() == src.is_neg() && std::ranges::equal(self.sizes(), src.sizes()))
    return self;
  if (sharing != Sharing::kNone) {
    const Tensor aside = empty_tensor(src.sizes(), {}, src.dtype(), src.device());
    copy_elements(aside, src);
    copy_elements(self, aside);
  } else {
    copy_elements(self, src);
  }
  check_inference_write(self);
  return self;
}

Tensor clone_kernel(const Tensor& self, std::optional<MemoryFormat> format) {
  const Tensor r = empty_tensor(self.sizes(), copy_strides(self, format), self.dtype(), self.device());
  copy_elements(r, self);
  return r;
}

Tensor _to_copy_kernel(const Tensor& self, std::optional<DType> dtype, std::optional<Layout>,
                       std::optional<Device> device, std::optional<bool>, bool non_blocking,
                       std::optional<MemoryFormat> format) {
  const Device d = factory_device(device ? device : self.device());
  TESSERA_CHECK_NOT_IMPLEMENTED(!self.is_meta() || d.is_meta(), "Cannot copy out of meta tensor; no data!");
  const Tensor r = empty_tensor(self.sizes(), copy_strides(self, format), dtype.value_or(self.dtype()), d);
  if (d.is_meta()) return r;
  warn_of_lost_parts(self.dtype(), r.dtype());
  if (d == self.device())
    copy_elements(r, self);
  else if ((d.is_cpu() || d.is_cuda()) && (self.is_cpu() || self.is_cuda()))
    copy_between_devices(r, self, non_blocking);
  else
    copy_(r, self);
  return r;
}

// Where a tensor goes; one that Python looks after (fake, wrapped) need not find the device there.
Device destination(const Tensor& self, Device d) {
  if (!self.keys().has(DispatchKey::kPython)) return factory_device(d);
  if (d.is_cpu()) return Device();
  return d.is_meta() || d.has_index() ? d : Device(d.type, 0);
}

Tensor to_impl(const Tensor& self, std::optional<DType> dtype, std::optional<Device> device, bool non_blocking,
               bool copy, std::optional<MemoryFormat> format) {
  const DType t = dtype.value_or(self.dtype());
  const Device d = device ? destination(self, *device) : self.device();
  const MemoryFormat f = format.value_or(MemoryFormat::kPreserve);
  if (!copy && t == self.dtype() && d == self.device() && (f == MemoryFormat::kPreserve || self.is_contiguous(f)))
    return self;
  return _to_copy(self, t, std::nullopt, d, std::nullopt, non_blocking, f);
}

Tensor contiguous_composite(const Tensor& self, MemoryFormat format) {
  TESSERA_CHECK(format != MemoryFormat::kPreserve, "preserve memory format is unsupported by the contiguous operator");
  return self.is_contiguous(format) ? self : clone(self, format);
}

OutputSpec complex_meta(const Tensor& re, const Tensor& im) {
  auto ok = [](DType t) { return t == DType::kFloat16 || t == DType::kFloat32 || t == DType::kFloat64; };
  TESSERA_CHECK(ok(re.dtype()) && ok(im.dtype()), "Expected both inputs to be Half, Float or Double tensors but got ",
                type_name_of(re.dtype()), " and ", type_name_of(im.dtype()));
  TESSERA_CHECK(re.dtype() == im.dtype(), "Expected object of scalar type ", type_name_of(re.dtype()),
                " but got scalar type ", type_name_of(im.dtype()), " for second argument");
  OutputSpec s(infer_broadcast(re.sizes(), im.sizes()), to_complex(re.dtype()), common_device({&re, &im}));
  s.strides = pointwise::result_strides({&re, &im}, s.sizes);
  return s;
}
Tensor polar_impl(const Tensor& abs, const Tensor& angle) {
  complex_meta(abs, angle);  // one real dtype
  return make_complex(mul(abs, cos(angle)), mul(abs, sin(angle)));
}
void complex_kernel(const Tensor& re, const Tensor& im, const Tensor& out) {
  const Tensor parts = _view_as_real_physical(out);
  copy_elements(select(parts, -1, 0), expand(re, out.sizes()));
  copy_elements(select(parts, -1, 1), expand(im, out.sizes()));
}

Scalar _local_scalar_dense_kernel(const Tensor& self) { return self.item_scalar(); }
Scalar item_number(const Tensor& self) {
  TESSERA_CHECK(self.numel() == 1, "a Tensor with ", self.numel(), " elements cannot be converted to Scalar");
  TESSERA_CHECK(!self.is_meta(), "Tensor.item() cannot be called on meta tensors");
  return _local_scalar_dense(self);
}

bool equal_kernel(const Tensor& self, const Tensor& other) {
  TESSERA_CHECK(self.device() == other.device(),
                "Expected all tensors to be on the same device, but found at least two devices, ", self.device().str(),
                " and ", other.device().str(), "!");
  if (!std::ranges::equal(self.sizes(), other.sizes())) return false;
  return all(eq(self, other)).item<bool>();
}

Tensor isclose_composite(const Tensor& self, const Tensor& other, double rtol, double atol, bool equal_nan) {
  TESSERA_CHECK(self.dtype() == other.dtype(), type_name_of(self.dtype()), " did not match ",
                type_name_of(other.dtype()));
  TESSERA_CHECK(rtol >= 0, "rtol must be greater than or equal to zero, but got ", rtol);
  TESSERA_CHECK(atol >= 0, "atol must be greater than or equal to zero, but got ", atol);
  Tensor close = eq(self, other);
  const bool inexact = self.is_floating_point() || self.is_complex();
  if (equal_nan && inexact) close = logical_or(close, logical_and(ne(self, self), ne(other, other)));
  if (rtol == 0 && atol == 0) return close;
  const Tensor a = inexact ? self : to(self, default_dtype()), b = inexact ? other : to(other, default_dtype());
  const Tensor allowed = add(abs(mul(b, rtol)), atol);
  const Tensor difference = abs(sub(a, b));
  return logical_or(close, logical_and(isfinite(difference), le(difference, allowed)));
}

bool is_nonzero_composite(const Tensor& self) {
  TESSERA_CHECK(self.numel() != 0, "Boolean value of Tensor with no values is ambiguous");
  TESSERA_CHECK(self.numel() == 1, "Boolean value of Tensor with more than one value is ambiguous");
  return _local_scalar_dense(self).to_bool();
}

// create.cc: what deterministic programs find in memory behind these bytes.
void fill_new_memory(const Tensor& t, int64_t known_bytes);

const Tensor& resize__kernel(const Tensor& self, SymIntList size, std::optional<MemoryFormat> format) {
  TESSERA_CHECK(!self.requires_grad(), "cannot resize variables that require grad");
  TESSERA_CHECK(format != MemoryFormat::kPreserve,
                "Unsupported memory format Preserve: resize_ takes contiguous_format, channels_last or "
                "channels_last_3d");
  const IntList sizes = size.ints();
  if (!std::ranges::equal(self.sizes(), sizes)) {
    const auto known = static_cast<int64_t>(self.storage()->nbytes());
    resize_tensor(self, sizes);
    fill_new_memory(self, known);
  }
  if (format)
    self.impl()->set_sizes_and_strides(
        sizes, *format == MemoryFormat::kContiguous ? contiguous_strides(sizes) : channels_last_strides(sizes));
  return self;
}

const Tensor& set__source_Storage_storage_offset_kernel(const Tensor& self, Storage source, SymInt storage_offset,
                                                        SymIntList size, SymIntList stride) {
  const IntVector strides =
      stride.empty() && !size.empty() ? contiguous_strides(size.ints()) : to_vector(stride.ints());
  const Tensor fresh =
      tensor_from_storage(std::move(source), size.ints(), strides, storage_offset.guard_int(), self.dtype());
  self.impl()->mutable_storage() = fresh.storage();
  self.impl()->set_sizes_and_strides(fresh.sizes(), fresh.strides());
  self.impl()->set_storage_offset(fresh.storage_offset());
  return self;
}
const Tensor& set__source_Tensor_kernel(const Tensor& self, const Tensor& source) {
  TESSERA_CHECK(self.dtype() == source.dtype(), "Could not set tensor of type ", name_of(source.dtype()),
                " to a tensor of type ", name_of(self.dtype()));
  self.impl()->mutable_storage() = source.storage();
  self.impl()->set_sizes_and_strides(source.sizes(), source.strides());
  self.impl()->set_storage_offset(source.storage_offset());
  return self;
}
const Tensor& set__kernel(const Tensor& self) {
  const int64_t zero[1] = {0};
  self.impl()->mutable_storage() = StorageImpl::allocate(0, self.device());
  self.impl()->set_storage_offset(0);
  self.impl()->set_sizes_contiguous(zero);
  return self;
}

}  // namespace kernels

namespace internal {
Tensor materialize_bits(const Tensor& t) { return clone(t); }
void write_back(const Tensor& original, const Tensor& resolved) { copy_(original, resolved); }
}  // namespace internal

Tensor Tensor::operator[](int64_t i) const { return select(0, i); }

}  // namespace tessera
