// What the expressions of matmul.textproto call besides operators.
#pragma once

#include "tensor/core/tensor.h"

namespace tessera::kernels {

Tensor outer_impl(const Tensor& self, const Tensor& vec2);
Tensor inner_impl(const Tensor& self, const Tensor& other);
Tensor tensordot_impl(const Tensor& self, const Tensor& other, IntList dims_self, IntList dims_other);
Tensor multi_dot_impl(TensorList tensors);
Tensor chain_matmul_impl(TensorList matrices);
Tensor matrix_power_impl(const Tensor& self, int64_t n);
Tensor addbmm_impl(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
                   const Scalar& alpha);
void addbmm_inplace(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
                    const Scalar& alpha);
Tensor bilinear_impl(const Tensor& input1, const Tensor& input2, const Tensor& weight, const Tensor& bias);

}  // namespace tessera::kernels
