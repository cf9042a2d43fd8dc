#include "linalg/formulas/eigen_formulas.h"

#include "linalg/all_ops.h"
#include "tensor/core/transforms.h"

namespace tessera::autograd::formulas {
namespace {

Tensor adjoint_of(const Tensor& a) { return conj(transpose(a, -2, -1)); }
Tensor diagonal_of(const Tensor& a) { return diagonal(a, 0, -2, -1); }

// w_j - w_i at (i, j), 1 on the diagonal.
Tensor differences(const Tensor& w) {
  const Tensor d = unsqueeze(w, -2) - unsqueeze(w, -1);
  return d + eye(SymInt(w.size(-1)), w.dtype(), std::nullopt, w.device());
}

// Inside of function transforms there are no values to look at.
bool has_values(const Tensor& t) { return !t.is_meta() && !is_transformed(t); }

// The derivative along i v_j has to be zero for all j.
void check_phases(const Tensor& along) {
  if (!has_values(along) || along.numel() == 0) return;
  const Tensor im = abs(imag(along)), size = abs(real(along));
  TESSERA_CHECK(all(im <= size * 1e-2 + 1e-2).item<bool>(),
                "linalg_eig_backward: The eigenvectors in the complex case are specified up to multiplication by "
                "e^{i phi}. The specified loss function depends on this quantity, so it is ill-defined.");
}

}  // namespace

// A V = V diag(w): dw = diag(V^-1 dA V); dV = V M up to what keeps the columns' norms 1, M_ij = (V^-1 dA V)_ij /
// (w_j - w_i) and no diagonal: column j loses its part along v_j, Re(v_j^H (V M)_j).
Tensor eig_backward(const Tensor& grad_values, const Tensor& grad_vectors, const Tensor& values,
                    const Tensor& vectors) {
  const Tensor Vh = adjoint_of(vectors);
  if (!grad_vectors.defined()) return linalg_solve(Vh, unsqueeze(grad_values, -1) * Vh);
  const Tensor VhG = matmul(Vh, grad_vectors), along = diagonal_of(VhG);
  check_phases(along);
  const Tensor parts = VhG - matmul(Vh, vectors) * unsqueeze(real(along), -2);
  const Tensor inner = parts / conj(differences(values));
  const Tensor of_values = grad_values.defined() ? grad_values : zeros_like(along);
  return linalg_solve(Vh, matmul(diagonal_scatter(inner, of_values, 0, -2, -1), Vh));
}

std::tuple<Tensor, Tensor> eig_tangents(const Tensor& A_t, const Tensor& values, const Tensor& vectors) {
  const Tensor dA = A_t.is_complex() ? A_t : A_t.to(vectors.dtype());
  const Tensor P = linalg_solve(vectors, matmul(dA, vectors)), dw = diagonal_of(P);
  const Tensor M = (P - diag_embed(dw)) / differences(values);
  const Tensor dV = matmul(vectors, M);
  const int64_t rows[1] = {-2};
  const Tensor along = real(sum(conj(vectors) * dV, IntList(rows), true));
  return {dw, dV - vectors * along};
}

Tensor eigvals_backward(const Tensor& grad, const Tensor& A) {
  const auto [values, vectors] = linalg_eig(A);
  return eig_backward(grad, Tensor(), values, vectors);
}

Tensor eigvals_tangent(const Tensor& A_t, const Tensor& A) {
  const auto [values, vectors] = linalg_eig(A);
  const Tensor dA = A_t.is_complex() ? A_t : A_t.to(vectors.dtype());
  return diagonal_of(linalg_solve(vectors, matmul(dA, vectors)));
}

}  // namespace tessera::autograd::formulas
