// Derivatives of factorizations, and of what solves, inverts or takes determinants by them. <f>_backward: the gradient
// of the input; <f>_tangent: that of the result from those of the inputs, which may be undefined where there are two.
#pragma once

#include <array>
#include <tuple>

#include "linalg/linalg.h"

namespace tessera::autograd::formulas {

Tensor cholesky_backward(const Tensor& grad, const Tensor& factor, bool upper);
Tensor cholesky_tangent(const Tensor& A_t, const Tensor& factor, bool upper);

std::tuple<Tensor, Tensor> cholesky_solve_backward(const Tensor& grad, const Tensor& factor, const Tensor& X,
                                                   bool upper, std::array<bool, 2> wanted);
Tensor cholesky_solve_tangent(const Tensor& B_t, const Tensor& factor_t, const Tensor& factor, const Tensor& X,
                              bool upper);
Tensor cholesky_inverse_backward(const Tensor& grad, const Tensor& factor, const Tensor& inverse, bool upper);
Tensor cholesky_inverse_tangent(const Tensor& factor_t, const Tensor& factor, const Tensor& inverse, bool upper);

Tensor lu_factor_backward(const Tensor& grad, const Tensor& LU, const Tensor& pivots);
Tensor lu_factor_tangent(const Tensor& A_t, const Tensor& LU, const Tensor& pivots);
Tensor lu_unpack_backward(const Tensor& grad_L, const Tensor& grad_U, IntList sizes);
std::array<Tensor, 3> lu_unpack_tangent(const Tensor& LU_t, bool unpack_data);
Tensor lu_solve_factor_backward(const Tensor& grad, const Tensor& LU, const Tensor& pivots, const Tensor& X, bool left,
                                bool adjoint);
Tensor lu_solve_factor_tangent(const Tensor& LU_t, const Tensor& LU, const Tensor& pivots, const Tensor& X, bool left,
                               bool adjoint);

// b_sizes: those of B, which say whether it is a vector.
std::tuple<Tensor, Tensor> solve_backward(const Tensor& grad, const Tensor& X, const Tensor& A, const Tensor& LU,
                                          const Tensor& pivots, bool left, IntList b_sizes, std::array<bool, 2> wanted);
Tensor solve_tangent(const Tensor& A_t, const Tensor& B_t, const Tensor& A, const Tensor& X, bool left,
                     IntList b_sizes);

std::tuple<Tensor, Tensor> solve_triangular_backward(const Tensor& grad, const Tensor& A, const Tensor& X, bool upper,
                                                     bool left, bool unitriangular, std::array<bool, 2> wanted);
Tensor solve_triangular_tangent(const Tensor& A_t, const Tensor& B_t, const Tensor& A, const Tensor& X, bool upper,
                                bool left, bool unitriangular);

Tensor inverse_backward(const Tensor& grad, const Tensor& inverse);

Tensor det_backward(const Tensor& grad, const Tensor& A, const Tensor& LU, const Tensor& pivots);
Tensor det_tangent(const Tensor& A_t, const Tensor& A, const Tensor& LU, const Tensor& pivots);
Tensor slogdet_backward(const Tensor& grad_sign, const Tensor& grad_logabsdet, const Tensor& sign, const Tensor& A,
                        const Tensor& LU, const Tensor& pivots);
std::array<Tensor, 4> slogdet_tangent(const Tensor& A_t, const Tensor& sign, const Tensor& A);

}  // namespace tessera::autograd::formulas
