#include "linalg/formulas/functions_formulas.h"

#include <array>

#include "linalg/functions_ops.h"

namespace tessera::autograd::formulas {
namespace {

Tensor joined(const Tensor& a, const Tensor& b, int64_t dim) {
  const std::array<Tensor, 2> parts{a, b};
  return cat(parts, dim);
}

}  // namespace

// exp([A E; 0 A]) = [exp(A) D; 0 exp(A)] with the derivative D in the direction E; the adjoint map is that at A^H.
Tensor matrix_exp_differential(const Tensor& A, const Tensor& direction, bool adjoint) {
  const Tensor at = adjoint ? mH(A) : A;
  const int64_t n = A.size(-1);
  const Tensor blocks = joined(joined(at, direction, -1), joined(zeros_like(at), at, -1), -2);
  return narrow(narrow(linalg_matrix_exp(blocks), -2, 0, n), -1, n, n);
}

}  // namespace tessera::autograd::formulas
