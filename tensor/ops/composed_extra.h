// What the expressions of composed.textproto call besides operators.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "tensor/core/tensor.h"
#include "tensor/ops/windows.h"

namespace tessera::kernels {

// A number as an operand on the device of a tensor.
Tensor number_beside(const Scalar& number, const Tensor& t);
// What ldexp raises 2 to: integers in the floating dtype that they give with self, which may be wider than the default
// dtype.
Tensor exponent_for(const Tensor& self, const Tensor& other);
Tensor isin_impl(const Tensor& elements, const Tensor& test_elements, bool invert);
Tensor scatter_reduce_impl(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                           std::string_view reduce, bool include_self);
Tensor index_reduce_impl(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                         std::string_view reduce, bool include_self);
// A copy of self in which the view that `part` takes holds src.
Tensor with_part(const Tensor& self, const Tensor& src, const char* name,
                 const std::function<Tensor(const Tensor&)>& part);
const Tensor& fill_diagonal_impl(const Tensor& self, const Scalar& value, bool wrap);
Tensor kron_impl(const Tensor& self, const Tensor& other);
int64_t first_of_size_3(const Tensor& self, const Tensor& other);
Tensor cross_impl(const Tensor& self, const Tensor& other, int64_t dim);
Tensor vecdot_impl(const Tensor& x, const Tensor& y, int64_t dim);
Tensor vander_rows(const Tensor& x, std::optional<SymInt> n);
Tensor vander_impl(const Tensor& x, std::optional<int64_t> n, bool increasing);
Tensor trapezoid_impl(const Tensor& y, const Tensor& x, int64_t dim, bool running);
Tensor trapezoid_impl(const Tensor& y, const Scalar& dx, int64_t dim, bool running);
Tensor triangle_window(int64_t length, bool periodic, std::optional<DType> dtype, std::optional<Device> device);
Tensor kaiser_impl(int64_t length, bool periodic, double beta, std::optional<DType> dtype,
                   std::optional<Device> device);

}  // namespace tessera::kernels
