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

Tensor pinv_backward(const Tensor& grad, const Tensor& P, const Tensor& A) {
  const Tensor Ph = mH(P), gradH = mH(grad);
  const Tensor left = matmul(matmul(gradH, P), Ph);   // G^H P P^H
  const Tensor right = matmul(Ph, matmul(P, gradH));  // P^H P G^H
  const Tensor inner = matmul(matmul(Ph, grad), Ph);
  return left - matmul(A, matmul(P, left)) + right - matmul(matmul(right, P), A) - inner;
}

Tensor pinv_forward(const Tensor& dA, const Tensor& P, const Tensor& A) {
  const Tensor Ph = mH(P), dAh = mH(dA);
  const Tensor left = matmul(P, matmul(Ph, dAh));   // P P^H dA^H
  const Tensor right = matmul(matmul(dAh, Ph), P);  // dA^H P^H P
  return left - matmul(matmul(left, A), P) + right - matmul(P, matmul(A, right)) - matmul(P, matmul(dA, P));
}

}  // namespace tessera::autograd::formulas
