// How a tensor is to be made: element type, device, layout ..., what is not given being the default.
#pragma once

#include <concepts>
#include <optional>

#include "c10/core/Device.h"
#include "c10/core/ScalarType.h"
#include "tensor/core/tensor.h"

namespace c10 {

class TensorOptions {
 public:
  TensorOptions() = default;
  TensorOptions(ScalarType t) : dtype_(t) {}
  TensorOptions(TypeMeta t) : dtype_(t.toScalarType()) {}
  template <class D>
  requires std::is_base_of_v<tessera::Device, D> TensorOptions(const D& d)
      : device_(Device(d)) {}  // no braces are a device here: {kCUDA, 1} are options
  TensorOptions(DeviceType d) : device_(Device(d)) {}
  template <std::integral I>
  TensorOptions(DeviceType d, I index) : device_(Device(d, static_cast<DeviceIndex>(index))) {}
  TensorOptions(const char* d) : device_(Device(d)) {}
  TensorOptions(const std::string& d) : device_(Device(d)) {}
  TensorOptions(Layout l) : layout_(l) {}
  TensorOptions(MemoryFormat f) : memory_format_(f) {}

  // Copies with one property set, or with nothing for nullopt.
  [[nodiscard]] TensorOptions dtype(std::optional<ScalarType> t) const { return with(&TensorOptions::dtype_, t); }
  [[nodiscard]] TensorOptions dtype(ScalarType t) const { return with(&TensorOptions::dtype_, t); }
  [[nodiscard]] TensorOptions dtype(TypeMeta t) const { return dtype(t.toScalarType()); }
  [[nodiscard]] TensorOptions dtype(std::optional<TypeMeta> t) const { return dtype(optTypeMetaToScalarType(t)); }
  template <class T>
  TensorOptions& dtype() {
    dtype_ = CppTypeToScalarType<T>::value;
    return *this;
  }
  template <class D>
  requires std::is_convertible_v<D, Device>
  [[nodiscard]] TensorOptions device(const D& d) const {
    return with(&TensorOptions::device_, std::optional<Device>(Device(d)));
  }
  [[nodiscard]] TensorOptions device(const std::optional<Device>& d) const { return with(&TensorOptions::device_, d); }
  [[nodiscard]] TensorOptions device(DeviceType t, DeviceIndex i) const { return device(Device(t, i)); }
  [[nodiscard]] TensorOptions device_index(DeviceIndex i) const { return device(Device(kCUDA, i)); }
  [[nodiscard]] TensorOptions layout(std::optional<Layout> l) const { return with(&TensorOptions::layout_, l); }
  [[nodiscard]] TensorOptions requires_grad(std::optional<bool> on) const {
    return with(&TensorOptions::requires_grad_, on);
  }
  [[nodiscard]] TensorOptions pinned_memory(std::optional<bool> on) const {
    return with(&TensorOptions::pinned_memory_, on);
  }
  [[nodiscard]] TensorOptions memory_format(std::optional<MemoryFormat> f) const {
    return with(&TensorOptions::memory_format_, f);
  }

  Device device() const { return device_.value_or(Device(kCPU)); }
  DeviceIndex device_index() const { return device().index(); }
  TypeMeta dtype() const { return dtype_ ? TypeMeta(*dtype_) : get_default_dtype(); }
  Layout layout() const { return layout_.value_or(kStrided); }
  bool requires_grad() const { return requires_grad_.value_or(false); }
  bool pinned_memory() const { return pinned_memory_.value_or(false); }
  bool is_sparse() const { return layout_ == kSparse; }
  bool is_sparse_csr() const { return layout_ == kSparseCsr; }
  bool has_dtype() const { return dtype_.has_value(); }
  bool has_device() const { return device_.has_value(); }
  bool has_layout() const { return layout_.has_value(); }
  bool has_requires_grad() const { return requires_grad_.has_value(); }
  bool has_pinned_memory() const { return pinned_memory_.has_value(); }
  bool has_memory_format() const { return memory_format_.has_value(); }
  std::optional<TypeMeta> dtype_opt() const { return dtype_ ? std::optional<TypeMeta>(*dtype_) : std::nullopt; }
  const std::optional<ScalarType>& scalar_type_opt() const { return dtype_; }
  const std::optional<Device>& device_opt() const { return device_; }
  const std::optional<Layout>& layout_opt() const { return layout_; }
  const std::optional<bool>& requires_grad_opt() const { return requires_grad_; }
  const std::optional<bool>& pinned_memory_opt() const { return pinned_memory_; }
  const std::optional<MemoryFormat>& memory_format_opt() const { return memory_format_; }
  // What the other has takes the place of what is here.
  TensorOptions merge_in(const TensorOptions& o) const {
    TensorOptions r = *this;
    if (o.dtype_) r.dtype_ = o.dtype_;
    if (o.device_) r.device_ = o.device_;
    if (o.layout_) r.layout_ = o.layout_;
    if (o.requires_grad_) r.requires_grad_ = o.requires_grad_;
    if (o.pinned_memory_) r.pinned_memory_ = o.pinned_memory_;
    if (o.memory_format_) r.memory_format_ = o.memory_format_;
    return r;
  }
  TensorOptions merge_memory_format(std::optional<MemoryFormat> f) const { return f ? memory_format(f) : *this; }
  bool type_equal(const TensorOptions& o) const {
    return dtype() == o.dtype() && device().type() == o.device().type() && layout() == o.layout();
  }

 private:
  template <class T>
  TensorOptions with(std::optional<T> TensorOptions::*member, const std::optional<T>& value) const {
    TensorOptions r = *this;
    r.*member = value;
    return r;
  }
  template <class T>
  TensorOptions with(std::optional<T> TensorOptions::*member, const T& value) const {
    return with(member, std::optional<T>(value));
  }

  std::optional<ScalarType> dtype_;
  std::optional<Device> device_;
  std::optional<Layout> layout_;
  std::optional<bool> requires_grad_, pinned_memory_;
  std::optional<MemoryFormat> memory_format_;
};

inline TensorOptions dtype(ScalarType t) { return TensorOptions(t); }
inline TensorOptions dtype(TypeMeta t) { return TensorOptions(t); }
template <class T>
TensorOptions dtype() {
  return TensorOptions(CppTypeToScalarType<T>::value);
}
inline TensorOptions layout(Layout l) { return TensorOptions(l); }
inline TensorOptions device(Device d) { return TensorOptions(d); }
inline TensorOptions device_index(DeviceIndex i) { return TensorOptions().device_index(i); }
inline TensorOptions requires_grad(bool on = true) { return TensorOptions().requires_grad(on); }
inline TensorOptions memory_format(MemoryFormat f) { return TensorOptions(f); }
inline TensorOptions pinned_memory(bool on = true) { return TensorOptions().pinned_memory(on); }

inline std::ostream& operator<<(std::ostream& out, const TensorOptions& o) {
  auto mark = [&](bool given) { out << (given ? "" : " (default)"); };
  out << std::boolalpha;  // and the stream stays so
  mark((out << "TensorOptions(dtype=" << o.dtype(), o.has_dtype()));
  mark((out << ", device=" << o.device(), o.has_device()));
  mark((out << ", layout=" << o.layout(), o.has_layout()));
  mark((out << ", requires_grad=" << o.requires_grad(), o.has_requires_grad()));
  mark((out << ", pinned_memory=" << o.pinned_memory(), o.has_pinned_memory()));
  if (o.has_memory_format())
    out << ", memory_format=" << *o.memory_format_opt();
  else
    out << ", memory_format=(nullopt)";
  return out << ')';
}

}  // namespace c10
