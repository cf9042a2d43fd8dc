// What the expressions of arithmetic, comparison and functions.textproto call besides kernels and operators.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "tensor/core/tensor.h"
#include "tensor/ops/pointwise.h"

namespace tessera::kernels {

// NaN tells the logit kernel that there is no eps.
double eps_or_nan(std::optional<double> eps);
// The largest finite number of a floating dtype (of the real part of a complex one).
double largest_finite(DType t);
// A 0-dim tensor of the dtype that torch.tensor(number) has.
Tensor number_tensor(const Scalar& s);

const Tensor& div_rounded_(const Tensor& self, const Tensor& other, std::optional<std::string_view> mode);
const Tensor& div_rounded_out(const Tensor& out, const Tensor& self, const Tensor& other,
                              std::optional<std::string_view> mode);
const Tensor& pow_scalar_(const Tensor& self, const Scalar& exponent);
const Tensor& pow_scalar_out(const Tensor& out, const Tensor& self, const Scalar& exponent);
Tensor float_power_impl(const Tensor& self, const Tensor& exponent);
Tensor float_power_impl(const Tensor& self, const Scalar& exponent);
Tensor float_power_impl(const Scalar& self, const Tensor& exponent);
const Tensor& float_power_impl_(const Tensor& self, const Tensor& exponent);
const Tensor& float_power_impl_(const Tensor& self, const Scalar& exponent);
const Tensor& float_power_impl_out(const Tensor& out, const Tensor& self, const Tensor& exponent);
const Tensor& float_power_impl_out(const Tensor& out, const Tensor& self, const Scalar& exponent);
const Tensor& float_power_impl_out(const Tensor& out, const Scalar& self, const Tensor& exponent);
const Tensor& clamp_inplace(const Tensor& self, const std::optional<Scalar>& min, const std::optional<Scalar>& max);
const Tensor& clamp_out_impl(const Tensor& out, const Tensor& self, const std::optional<Scalar>& min,
                             const std::optional<Scalar>& max);
const Tensor& clamp_tensor_inplace(const Tensor& self, const Tensor& min, const Tensor& max);
const Tensor& clamp_tensor_out_impl(const Tensor& out, const Tensor& self, const Tensor& min, const Tensor& max);
const Tensor& where_out_impl(const Tensor& out, const Tensor& condition, const Tensor& self, const Tensor& other);
std::vector<Tensor> nonzero_numpy(const Tensor& condition);
const Tensor& masked_fill_inplace(const Tensor& self, const Tensor& mask, const Scalar& value);
const Tensor& masked_fill_tensor_inplace(const Tensor& self, const Tensor& mask, const Tensor& value);

}  // namespace tessera::kernels
