// What the expressions of statistics.textproto call besides operators.
#pragma once

#include <optional>
#include <string_view>
#include <tuple>

#include "tensor/core/tensor.h"

namespace tessera::kernels {

Tensor median_all_impl(const Tensor& self, bool ignore_nan);
std::tuple<Tensor, Tensor> mode_impl(const Tensor& self, int64_t dim, bool keepdim);
Tensor quantile_number(const Tensor& self, double q);
Tensor quantile_impl(const Tensor& self, const Tensor& q, std::optional<int64_t> dim, bool keepdim,
                     std::string_view interpolation, bool ignore_nan);
Tensor nanmean_impl(const Tensor& self, std::optional<IntList> dim, bool keepdim, std::optional<DType> dtype);
Tensor cov_impl(const Tensor& self, int64_t correction, const Tensor& fweights, const Tensor& aweights);
Tensor corrcoef_impl(const Tensor& self);
Tensor renorm_impl(const Tensor& self, const Scalar& p, int64_t dim, const Scalar& maxnorm);

}  // namespace tessera::kernels
