// What the expressions of factor.textproto call besides operators.
#pragma once

#include <optional>
#include <tuple>

#include "tensor/core/tensor.h"

namespace tessera::linalg {

using Tensors2 = std::tuple<Tensor, Tensor>;
using Tensors3 = std::tuple<Tensor, Tensor, Tensor>;

// Warns, once, that torch.<older> is deprecated.
void deprecate(const char* older, const char* newer);

// (L L^H)^-1, by products and equations.
Tensor inverse_of_product(const Tensor& L);
Tensors2 lu_factor(const Tensor& A, bool pivot);
Tensors3 lu(const Tensor& A, bool pivot);
Tensors2 solve_ex(const Tensor& A, const Tensor& B, bool left, bool check_errors);
Tensors2 triangular_solve(const Tensor& B, const Tensor& A, bool upper, bool transpose, bool unitriangular);
Tensor tensorinv(const Tensor& A, int64_t ind);
Tensor tensorsolve(const Tensor& A, const Tensor& B, std::optional<IntList> dims);
Tensors2 slogdet(const Tensor& A);
Tensor logdet(const Tensor& A);
Tensors2 ldl_factor(const Tensor& A, bool hermitian);

// Whether B is a vector, or vectors, in an equation with A, by their sizes: as documented for linalg.solve.
bool is_vector(IntList A, IntList B);
// The inverse, for operators of the core, which name it weakly.
Tensor inverse(const Tensor& A);

}  // namespace tessera::linalg
