// What the expressions of create.textproto call besides operators.
#pragma once

#include <optional>

#include "tensor/core/tensor.h"

namespace tessera::kernels {

// The dtype and device of a factory call.
DType factory_dtype(std::optional<DType> dtype);
Device factory_device(std::optional<Device> device);

// Whether the tensors that empty() and its like return have nan, or the largest number, in all elements: for programs
// that must not depend on what memory happened to hold. For the process; false at first.
void set_fill_uninitialized_memory(bool on);

Tensor make_filled(IntList sizes, const Scalar& value, DType dtype, Device device);
Tensor make_filled_like(const Tensor& self, const Scalar& value, std::optional<DType> dtype,
                        std::optional<Device> device, std::optional<MemoryFormat> format);

template <int kValue>
Tensor filled(SymIntList size, std::optional<DType> dtype, std::optional<Layout>, std::optional<Device> device,
              std::optional<bool>) {
  return make_filled(size.ints(), int64_t{kValue}, factory_dtype(dtype), factory_device(device));
}
template <int kValue>
Tensor filled_like(const Tensor& self, std::optional<DType> dtype, std::optional<Layout>, std::optional<Device> device,
                   std::optional<bool>, std::optional<MemoryFormat> format) {
  return make_filled_like(self, int64_t{kValue}, dtype, device, format);
}
template <int kValue>
Tensor new_filled(const Tensor& self, SymIntList size, std::optional<DType> dtype, std::optional<Layout>,
                  std::optional<Device> device, std::optional<bool>) {
  return make_filled(size.ints(), int64_t{kValue}, dtype.value_or(self.dtype()), device.value_or(self.device()));
}

// out= of factories: out takes the size.
void resize_factory_out(const Tensor& out, SymIntList size);
void fill_factory_out(const Tensor& out, SymIntList size, const Scalar& value);
void arange_into(const Tensor& out, const Scalar& start, const Scalar& end, const Scalar& step);
void range_into(const Tensor& out, const Scalar& start, const Scalar& end, const Scalar& step);
void linspace_into(const Tensor& out, const Scalar& start, const Scalar& end, int64_t steps);
void logspace_into(const Tensor& out, const Scalar& start, const Scalar& end, int64_t steps, double base);
void eye_into(const Tensor& out, SymInt n, SymInt m);
Tensor linspace_of_tensors(const Scalar& start, const Scalar& end, int64_t steps, std::optional<DType> dtype,
                           std::optional<Layout> layout, std::optional<Device> device, std::optional<bool> pin);
Tensor logspace_of_tensors(const Scalar& start, const Scalar& end, int64_t steps, double base,
                           std::optional<DType> dtype, std::optional<Layout> layout, std::optional<Device> device,
                           std::optional<bool> pin);

Tensor polar_impl(const Tensor& abs, const Tensor& angle);
Tensor to_impl(const Tensor& self, std::optional<DType> dtype, std::optional<Device> device, bool non_blocking,
               bool copy, std::optional<MemoryFormat> format);
Scalar item_number(const Tensor& self);
const Tensor& fill_scalar(const Tensor& self, const Scalar& value);
const Tensor& fill_tensor(const Tensor& self, const Tensor& value);

}  // namespace tessera::kernels
