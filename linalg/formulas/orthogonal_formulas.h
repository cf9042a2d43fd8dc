// Derivatives of the operators of tables/orthogonal.textproto.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <tuple>

#include "tensor/ops/api.h"

namespace tessera::autograd::formulas {

// Error where the factors are not differentiable: for 'r', and for 'complete' with more rows than columns.
Tensor qr_backward(const Tensor& grad_Q, const Tensor& grad_R, const Tensor& Q, const Tensor& R, std::string_view mode);
std::tuple<Tensor, Tensor> qr_tangents(const Tensor& A_t, const Tensor& Q, const Tensor& R, std::string_view mode);

std::tuple<Tensor, Tensor> householder_product_backward(const Tensor& grad, const Tensor& input, const Tensor& tau,
                                                        const std::array<bool, 2>& wanted);
// Undefined tangents are zero.
Tensor householder_product_tangent(const Tensor& input_t, const Tensor& tau_t, const Tensor& input, const Tensor& tau);
std::tuple<Tensor, Tensor> ormqr_backward(const Tensor& grad, const Tensor& self, const Tensor& tau,
                                          const Tensor& other, bool left, bool transpose,
                                          const std::array<bool, 2>& wanted);

std::tuple<Tensor, Tensor> lstsq_backward(const Tensor& grad_solution, const Tensor& grad_residuals, const Tensor& A,
                                          const Tensor& b, std::optional<double> rcond,
                                          std::optional<std::string_view> driver, const Tensor& solution,
                                          const std::array<bool, 2>& wanted);
std::array<Tensor, 4> lstsq_tangents(const Tensor& A_t, const Tensor& b_t, const Tensor& A, const Tensor& b,
                                     std::optional<double> rcond, std::optional<std::string_view> driver,
                                     const Tensor& solution, const Tensor& residuals);

}  // namespace tessera::autograd::formulas
