// What the expressions of product.textproto call.
#pragma once

#include <optional>

#include "tensor/ops/api.h"

namespace tessera::kernels {

// An operand, and what is added, of a product whose result is to have out_dtype, in that dtype. Throws RuntimeError
// unless it is the operands' own, or float32 for those of half types.
Tensor product_operand(const Tensor& t, const Tensor& other, DType out_dtype);
Tensor product_addend(const Tensor& t, const Tensor& operand, DType out_dtype);

Tensor scaled_mm_by_recipe(const Tensor& self, const Tensor& mat2, TensorList scale_a, IntList recipe_a,
                           IntList swizzle_a, TensorList scale_b, IntList recipe_b, IntList swizzle_b,
                           const Tensor& bias, std::optional<DType> out_dtype, IntList contraction_dim,
                           bool use_fast_accum);
Tensor grouped_mm_impl(const Tensor& self, const Tensor& mat2, const Tensor& offs, const Tensor& bias,
                       std::optional<DType> out_dtype);
Tensor scaled_grouped_mm_impl(const Tensor& self, const Tensor& mat2, const Tensor& scale_a, const Tensor& scale_b,
                              const Tensor& offs, const Tensor& bias, const Tensor& scale_result,
                              std::optional<DType> out_dtype, bool use_fast_accum);
Tensor scaled_grouped_mm_by_recipe(const Tensor& self, const Tensor& mat2, TensorList scale_a, IntList recipe_a,
                                   IntList swizzle_a, TensorList scale_b, IntList recipe_b, IntList swizzle_b,
                                   const Tensor& offs, const Tensor& bias, std::optional<DType> out_dtype,
                                   IntList contraction_dim, bool use_fast_accum);

}  // namespace tessera::kernels
