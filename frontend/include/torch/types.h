// Makers of tensors from what C++ programs have: numbers, nested braces, vectors, other people's memory.
#pragma once

#include <functional>

#include "ATen/ATen.h"

namespace torch {

using Dtype = at::ScalarType;
using at::optional;
using c10::nullopt;

namespace detail {

// What torch::tensor() takes: a number, or a list of such things, with the element type that they have in C++.
class TensorData {
 public:
  template <class T>
  requires(std::is_arithmetic_v<T> ||
           requires(T v) {
             at::Scalar(v);
             c10::CppTypeToScalarType<T>::value;
           }) TensorData(T value)
      : type_(c10::CppTypeToScalarType<T>::value), values_{at::Scalar(value)}, scalar_(true) {}
  TensorData(std::initializer_list<TensorData> items) : type_(c10::get_default_dtype_as_scalartype()), list_(true) {
    sizes_ = {static_cast<int64_t>(items.size())};
    if (items.size() == 0) return;
    const TensorData& first = *items.begin();
    type_ = first.type_;
    sizes_.insert(sizes_.end(), first.sizes_.begin(), first.sizes_.end());
    for (const TensorData& item : items) {
      TORCH_CHECK(item.sizes_ == first.sizes_, "Expected all sub-lists to have sizes: ", c10::Join(", ", first.sizes_),
                  " (e.g. ", first, "), but got sub-list ", item, " with sizes: ", c10::Join(", ", item.sizes_));
      TORCH_CHECK(item.type_ == type_, "Expected all elements of the tensor to have the same scalar type: ", type_,
                  ", but got element of scalar type: ", item.type_);
      values_.insert(values_.end(), item.values_.begin(), item.values_.end());
    }
  }
  template <class T>
  TensorData(c10::ArrayRef<T> items)
      : type_(c10::CppTypeToScalarType<T>::value),
        sizes_{static_cast<int64_t>(items.size())},
        values_(items.begin(), items.end()) {}
  template <class T>
  TensorData(const std::vector<T>& items)
      : type_(c10::CppTypeToScalarType<T>::value), sizes_{static_cast<int64_t>(items.size())} {
    for (const T v : items) values_.push_back(v);
  }

  // In Python's way: whole numbers are long, others of the default type, unless the options say something.
  at::Tensor make(at::TensorOptions options, bool exact = false) const {
    if (!options.has_dtype())
      options = options.dtype(exact                                         ? type_
                              : type_ == at::kInt || type_ == at::kLong     ? at::kLong
                              : type_ == at::kFloat || type_ == at::kDouble ? c10::get_default_dtype_as_scalartype()
                                                                            : type_);
    const c10::ScalarType type = options.dtype().toScalarType();
    if (isComplexType(type_) && !isComplexType(type)) {
      TORCH_CHECK(scalar_ || list_, "can not do torch::tensor(complex, dtype=non-complex) because complex can not be ",
                  "casted to real number without loss of information");
      std::string name = c10::toString(type);
      for (char& c : name) c = static_cast<char>(std::tolower(c));
      TORCH_CHECK(false, "value cannot be converted to type ", name, " without overflow");
    }
    const at::Tensor host = tessera::empty_kernel(sizes_, c10::to_dtype(type));
    char* to = static_cast<char*>(host.mutable_data_ptr());
    for (const at::Scalar& v : values_) {
      tessera::store_scalar(v, c10::to_dtype(type), to);
      to += host.element_size();
    }
    for (size_t i = 0; list_ && i < values_.size(); ++i)
      host.bump_version();  // one write each, as documented programs see it
    const at::Tensor placed = options.device().is_cpu() ? host : host.to(options.device());
    return options.requires_grad() ? placed.requires_grad_(true) : placed;
  }
  friend std::ostream& operator<<(std::ostream& out, const TensorData& d) {
    size_t at = 0;
    return d.print(out, 0, at);
  }

 private:
  // Dimension i of a list, whose numbers begin at `at`.
  std::ostream& print(std::ostream& out, size_t i, size_t& at) const {
    if (i == sizes_.size()) return out << values_[at++];
    out << '{';
    for (int64_t k = 0; k < sizes_[i]; ++k) print(out << (k ? ", " : ""), i + 1, at);
    return out << '}';
  }

  c10::ScalarType type_;
  std::vector<int64_t> sizes_;
  std::vector<at::Scalar> values_;
  bool scalar_ = false, list_ = false;
};

}  // namespace detail

inline at::Tensor tensor(const detail::TensorData& data, const at::TensorOptions& options = {}) {
  return data.make(options);
}

// A tensor on memory of the caller's, which must stay until the deleter is called.
inline at::Tensor from_blob(void* data, at::IntArrayRef sizes, at::IntArrayRef strides,
                            const std::function<void(void*)>& deleter, const at::TensorOptions& options = {}) {
  const c10::ScalarType type = options.dtype().toScalarType();
  int64_t last = 1;
  for (size_t d = 0; d < sizes.size(); ++d) last = sizes[d] == 0 ? 0 : last ? last + (sizes[d] - 1) * strides[d] : 0;
  auto* kept = deleter ? new std::function<void(void*)>(deleter) : nullptr;
  tessera::Storage memory = tessera::StorageImpl::wrap(
      data, static_cast<size_t>(last) * c10::elementSize(type), options.device(),
      [](void* p, void* context, size_t) {
        std::unique_ptr<std::function<void(void*)>> f(static_cast<std::function<void(void*)>*>(context));
        if (f) (*f)(p);
      },
      kept);
  at::Tensor t = tessera::tensor_from_storage(std::move(memory), sizes, strides, 0, c10::to_dtype(type));
  return options.requires_grad() ? t.requires_grad_(true) : t;
}
inline at::Tensor from_blob(void* data, at::IntArrayRef sizes, at::IntArrayRef strides,
                            const at::TensorOptions& options = {}) {
  return from_blob(data, sizes, strides, nullptr, options);
}
inline at::Tensor from_blob(void* data, at::IntArrayRef sizes, const std::function<void(void*)>& deleter,
                            const at::TensorOptions& options = {}) {
  return from_blob(data, sizes, tessera::contiguous_strides(sizes), deleter, options);
}
inline at::Tensor from_blob(void* data, at::IntArrayRef sizes, const at::TensorOptions& options = {}) {
  return from_blob(data, sizes, tessera::contiguous_strides(sizes), nullptr, options);
}

inline void manual_seed(uint64_t seed) { at::manual_seed(seed); }

}  // namespace torch

namespace at {
using torch::from_blob;
template <class T>
requires requires(T v) {
  Scalar(v);
  c10::CppTypeToScalarType<T>::value;
}
Tensor tensor(T value, const TensorOptions& options = {}) {
  return torch::detail::TensorData(ArrayRef<T>(value)).make(options, true);  // of one dimension
}
template <class T>
Tensor tensor(ArrayRef<T> values, const TensorOptions& options = {}) {
  return torch::detail::TensorData(values).make(options, true);
}
template <class T>
Tensor tensor(std::initializer_list<T> values, const TensorOptions& options = {}) {
  return tensor(ArrayRef<T>(values), options);
}
template <class T>
Tensor tensor(const std::vector<T>& values, const TensorOptions& options = {}) {
  return torch::detail::TensorData(values).make(options, true);
}
}  // namespace at
