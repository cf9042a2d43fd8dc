// With <X, Y> = Re tr(X^H Y), the derivatives here follow from
//   A = L L^H:    dL = L half(L^-1 dA L^-H), half: the lower triangle with half of the diagonal
//   P A = L U:    L^-1 P dA U^-1 = L^-1 dL + dU U^-1, strictly lower and upper
//   A X = B:      A dX = dB - dA X
// and the adjoints of these maps.
#include "linalg/formulas/factor_formulas.h"

#include <algorithm>
#include <limits>

#include "linalg/factor.h"
#include "tensor/ops/api.h"

namespace tessera::autograd::formulas {
namespace {

Tensor half_lower(const Tensor& t) { return (tril(t) + tril(t, -1)) * Scalar(0.5); }
Tensor with_adjoint(const Tensor& t) { return t + mH(t); }
Tensor rows(const Tensor& t, int64_t first, int64_t count) { return narrow(t, -2, first, count); }
Tensor cols(const Tensor& t, int64_t first, int64_t count) { return narrow(t, -1, first, count); }
Tensor plus(const Tensor& a, const Tensor& b) { return !a.defined() ? b : !b.defined() ? a : a + b; }

// A^-1 b and b A^-1 of a triangle of A.
Tensor solve_left(const Tensor& A, const Tensor& b, bool upper, bool unit = false) {
  return linalg_solve_triangular(A, b, upper, true, unit);
}
Tensor solve_right(const Tensor& A, const Tensor& b, bool upper, bool unit = false) {
  return linalg_solve_triangular(A, b, upper, false, unit);
}

// Whether what is computed of A may be differentiated again: a factorization that the call left has no history.
bool is_differentiated(const Tensor& A) {
  return grad_mode_enabled() || A.keys().has(DispatchKey::kForward) || A.keys().has(DispatchKey::kFuncTorchGradWrapper);
}

struct LuFactors {
  Tensor P, L, U;
  int64_t m, n, k;

  LuFactors(const Tensor& LU, const Tensor& pivots)
      : m(LU.size(-2)), n(LU.size(-1)), k(std::min(LU.size(-2), LU.size(-1))) {
    std::tie(P, L, U) = lu_unpack(LU, pivots);
  }
};

Tensor below_diagonal_of_columns(const Tensor& t, int64_t k) { return tril(cols(t, 0, k), -1); }
Tensor upper_of_rows(const Tensor& t, int64_t k) { return triu(rows(t, 0, k)); }

}  // namespace

// ---- Cholesky ----

Tensor cholesky_backward(const Tensor& grad, const Tensor& factor, bool upper) {
  const Tensor L = upper ? mH(factor) : factor, g = upper ? mH(grad) : grad;
  const Tensor inner = matmul(mH(L), g);
  // Half of a Hermitian matrix, but for imaginary parts of g's diagonal.
  const Tensor both = (tril(inner) + mH(tril(inner, -1))) * Scalar(0.5);
  return solve_right(L, solve_left(mH(L), both, true), false);
}

Tensor cholesky_tangent(const Tensor& A_t, const Tensor& factor, bool upper) {
  const Tensor L = upper ? mH(factor) : factor;
  const Tensor inner = solve_right(mH(L), solve_left(L, with_adjoint(A_t) * Scalar(0.5), false), true);
  const Tensor L_t = matmul(L, half_lower(inner));
  return upper ? mH(L_t) : L_t;
}

// Of the product A = L L^H or U^H U. What is not read of the factor gets a gradient, too: that of the whole product.
static Tensor to_cholesky_factor(const Tensor& grad_A, const Tensor& factor, bool upper) {
  const Tensor both = with_adjoint(grad_A);
  return upper ? matmul(factor, both) : matmul(both, factor);
}

std::tuple<Tensor, Tensor> cholesky_solve_backward(const Tensor& grad, const Tensor& factor, const Tensor& X,
                                                   bool upper, std::array<bool, 2> wanted) {
  const Tensor grad_B = cholesky_solve(grad, factor, upper);
  if (!wanted[1]) return {grad_B, Tensor()};
  // -(G X^H + X G^H) F, or F times that, by products with the few columns of both.
  const Tensor both[2] = {grad_B, X}, back[2] = {X, grad_B};
  const Tensor sides = cat(both, -1), others = neg(mH(cat(back, -1)));
  return {grad_B, upper ? matmul(matmul(factor, sides), others) : matmul(sides, matmul(others, factor))};
}

// dB - (dL L^H + L dL^H) X takes the place of B.
Tensor cholesky_solve_tangent(const Tensor& B_t, const Tensor& factor_t, const Tensor& factor, const Tensor& X,
                              bool upper) {
  Tensor right = B_t;
  if (factor_t.defined()) {
    const Tensor L = tril(upper ? mH(factor) : factor), L_t = tril(upper ? mH(factor_t) : factor_t);
    right = plus(right, -(matmul(L_t, matmul(mH(L), X)) + matmul(L, matmul(mH(L_t), X))));
  }
  return cholesky_solve(right, factor, upper);
}

Tensor cholesky_inverse_backward(const Tensor& grad, const Tensor& factor, const Tensor& inverse, bool upper) {
  return to_cholesky_factor(inverse_backward(grad, inverse), factor, upper);
}

// Of X = (L L^H)^-1: -X (dL L^H + L dL^H) X, where L^H X = L^-1.
Tensor cholesky_inverse_tangent(const Tensor& factor_t, const Tensor& factor, const Tensor& inverse, bool upper) {
  const Tensor L = upper ? mH(factor) : factor, L_t = tril(upper ? mH(factor_t) : factor_t);
  return -with_adjoint(solve_right(L, matmul(inverse, L_t), false));
}

// ---- LU ----

// A tall matrix is a square one above rows that U alone determines (L2 = A2 U^-1), a wide one a square one beside
// columns that L alone determines (U2 = L^-1 A2).
Tensor lu_factor_backward(const Tensor& grad, const Tensor& LU, const Tensor& pivots) {
  const LuFactors f(LU, pivots);
  const int64_t k = f.k;
  const Tensor L = rows(f.L, 0, k), U = cols(f.U, 0, k);
  Tensor grad_L = below_diagonal_of_columns(grad, k), grad_U = upper_of_rows(grad, k), rest;
  if (f.m > k) {
    rest = solve_right(mH(U), rows(grad_L, k, f.m - k), false);
    grad_U = grad_U - matmul(mH(rows(f.L, k, f.m - k)), rest);
    grad_L = rows(grad_L, 0, k);
  } else if (f.n > k) {
    rest = solve_left(mH(L), cols(grad_U, k, f.n - k), true, true);
    grad_L = grad_L - matmul(rest, mH(cols(f.U, k, f.n - k)));
    grad_U = cols(grad_U, 0, k);
  }
  const Tensor inner = tril(matmul(mH(L), grad_L), -1) + triu(matmul(grad_U, mH(U)));
  Tensor grad_A = solve_right(mH(U), solve_left(mH(L), inner, true, true), false);
  if (rest.defined()) grad_A = cat(std::array<Tensor, 2>{grad_A, rest}, f.m > k ? -2 : -1);
  return matmul(f.P, grad_A);
}

Tensor lu_factor_tangent(const Tensor& A_t, const Tensor& LU, const Tensor& pivots) {
  const LuFactors f(LU, pivots);
  const int64_t k = f.k;
  const Tensor t = matmul(mT(f.P), A_t), L = rows(f.L, 0, k), U = cols(f.U, 0, k);
  const Tensor inner = solve_right(U, solve_left(L, rows(cols(t, 0, k), 0, k), false, true), true);
  const Tensor L_t = matmul(L, tril(inner, -1)), U_t = matmul(triu(inner), U);
  const Tensor both = L_t + U_t;
  if (f.m > k) {
    const Tensor below = rows(t, k, f.m - k) - matmul(rows(f.L, k, f.m - k), U_t);
    return cat(std::array<Tensor, 2>{both, solve_right(U, below, true)}, -2);
  }
  if (f.n > k) {
    const Tensor beside = cols(t, k, f.n - k) - matmul(L_t, cols(f.U, k, f.n - k));
    return cat(std::array<Tensor, 2>{both, solve_left(L, beside, false, true)}, -1);
  }
  return both;
}

namespace {

// `count` zeros more along dim.
Tensor filled_up(const Tensor& t, int64_t dim, int64_t count) {
  if (count == 0) return t;
  IntVector sizes = to_vector(t.sizes());
  sizes[sizes.size() + dim] = count;
  const std::vector<SymInt> symbols(sizes.begin(), sizes.end());
  return cat(std::array<Tensor, 2>{t, zeros(symbols, t.dtype(), std::nullopt, t.device())}, dim);
}

}  // namespace

Tensor lu_unpack_backward(const Tensor& grad_L, const Tensor& grad_U, IntList sizes) {
  const int64_t m = sizes[sizes.size() - 2], n = sizes[sizes.size() - 1], k = std::min(m, n);
  Tensor from_L, from_U;
  if (grad_L.defined()) from_L = filled_up(tril(grad_L, -1), -1, n - k);
  if (grad_U.defined()) from_U = filled_up(triu(grad_U), -2, m - k);
  return plus(from_L, from_U);
}

std::array<Tensor, 3> lu_unpack_tangent(const Tensor& LU_t, bool unpack_data) {
  if (!unpack_data) return {};
  const int64_t k = std::min(LU_t.size(-2), LU_t.size(-1));
  return {Tensor(), below_diagonal_of_columns(LU_t, k), upper_of_rows(LU_t, k)};
}

Tensor lu_solve_factor_backward(const Tensor& grad, const Tensor& LU, const Tensor& pivots, const Tensor& X, bool left,
                                bool adjoint) {
  const LuFactors f(LU, pivots);
  const Tensor grad_B = linalg_lu_solve(LU, pivots, grad, left, !adjoint);
  // What P L U gets is -left_side right_side, of few columns and rows.
  const Tensor left_side = left ? (adjoint ? X : grad_B) : (adjoint ? mH(grad_B) : mH(X));
  const Tensor right_side = left ? mH(adjoint ? grad_B : X) : (adjoint ? X : grad_B);
  const Tensor permuted = matmul(mT(f.P), neg(left_side));
  return tril(matmul(permuted, matmul(right_side, mH(f.U))), -1) + triu(matmul(matmul(mH(f.L), permuted), right_side));
}

Tensor lu_solve_factor_tangent(const Tensor& LU_t, const Tensor& LU, const Tensor& pivots, const Tensor& X, bool left,
                               bool adjoint) {
  const LuFactors f(LU, pivots);
  Tensor A_t = matmul(f.P, matmul(tril(LU_t, -1), f.U) + matmul(f.L, triu(LU_t)));
  if (adjoint) A_t = mH(A_t);
  return -linalg_lu_solve(LU, pivots, left ? matmul(A_t, X) : matmul(X, A_t), left, adjoint);
}

// ---- Equations ----

namespace {

// The gradient that a matrix gets from A X = B or X A = B.
Tensor to_matrix(const Tensor& grad_B, const Tensor& X, bool left) {
  return left ? matmul(neg(grad_B), mH(X)) : matmul(mH(X), neg(grad_B));
}

// A^-H b, or b A^-H; of the factorization where nobody differentiates again.
Tensor solve_adjoint(const Tensor& A, const Tensor& LU, const Tensor& pivots, const Tensor& b, bool left) {
  return is_differentiated(A) ? linalg_solve(mH(A), b, left) : linalg_lu_solve(LU, pivots, b, left, true);
}

}  // namespace

std::tuple<Tensor, Tensor> solve_backward(const Tensor& grad, const Tensor& X, const Tensor& A, const Tensor& LU,
                                          const Tensor& pivots, bool left, IntList b_sizes,
                                          std::array<bool, 2> wanted) {
  const bool vector = linalg::is_vector(A.sizes(), b_sizes);
  const Tensor g = vector ? unsqueeze(grad, -1) : grad, x = vector ? unsqueeze(X, -1) : X;
  const Tensor grad_B = solve_adjoint(A, LU, pivots, g, left);
  return {wanted[0] ? to_matrix(grad_B, x, left) : Tensor(), vector ? squeeze(grad_B, -1) : grad_B};
}

Tensor solve_tangent(const Tensor& A_t, const Tensor& B_t, const Tensor& A, const Tensor& X, bool left,
                     IntList b_sizes) {
  const bool vector = linalg::is_vector(A.sizes(), b_sizes);
  Tensor right;
  if (B_t.defined()) right = vector ? unsqueeze(B_t, -1) : B_t;
  if (A_t.defined()) {
    const Tensor x = vector ? unsqueeze(X, -1) : X;
    right = plus(right, -(left ? matmul(A_t, x) : matmul(x, A_t)));
  }
  // As many dimensions as the result's columns have: with fewer it may be taken for vectors.
  IntVector sizes = to_vector(X.sizes());
  if (vector) sizes.push_back(1);
  const Tensor result = linalg_solve(A, right.expand(sizes), left);
  return vector ? squeeze(result, -1) : result;
}

std::tuple<Tensor, Tensor> solve_triangular_backward(const Tensor& grad, const Tensor& A, const Tensor& X, bool upper,
                                                     bool left, bool unitriangular, std::array<bool, 2> wanted) {
  const Tensor grad_B = linalg_solve_triangular(mH(A), grad, !upper, left, unitriangular);
  if (!wanted[0]) return {Tensor(), grad_B};
  const Tensor full = to_matrix(grad_B, X, left);
  const int64_t skipped = unitriangular ? 1 : 0;
  return {upper ? triu(full, skipped) : tril(full, -skipped), grad_B};
}

Tensor solve_triangular_tangent(const Tensor& A_t, const Tensor& B_t, const Tensor& A, const Tensor& X, bool upper,
                                bool left, bool unitriangular) {
  Tensor right = B_t;
  if (A_t.defined()) {
    const int64_t skipped = unitriangular ? 1 : 0;
    const Tensor t = upper ? triu(A_t, skipped) : tril(A_t, -skipped);
    right = plus(right, -(left ? matmul(t, X) : matmul(X, t)));
  }
  return linalg_solve_triangular(A, right, upper, left, unitriangular);
}

Tensor inverse_backward(const Tensor& grad, const Tensor& inverse) {
  return -matmul(mH(inverse), matmul(grad, mH(inverse)));
}

// ---- Determinants ----

namespace {

// x I
Tensor scaled_identity(const Tensor& x, const Tensor& A) {
  return unsqueeze(unsqueeze(x, -1), -1) * eye(A.size(-1), A.dtype(), std::nullopt, A.device());
}
Tensor trace_of(const Tensor& A) {
  const int64_t last = -1;
  return sum(diagonal(A, 0, -2, -1), IntList(&last, 1));
}

// What is added to U's diagonal where it is zero: numbers of the size of rounding errors. Of A beside a singular matrix
// there are quotients, and cofactors, polynomials of the elements, are nearly the same.
Tensor added_to_zeros(const Tensor& LU) {
  const NoGradGuard no_grad;
  const int64_t last = -1;
  const Tensor d = diagonal(LU, 0, -2, -1), size = abs(d);
  if (d.numel() == 0) return zeros_like(d);
  const Tensor largest = amax(size, IntList(&last, 1), true);
  const double eps = LU.dtype() == DType::kFloat32 || LU.dtype() == DType::kComplex64
                         ? std::numeric_limits<float>::epsilon()
                         : std::numeric_limits<double>::epsilon();
  const Tensor small = where(eq(largest, Scalar(0)), Scalar(1.0), largest) * Scalar(eps);
  return where(eq(size, Scalar(0)), small, Scalar(0.0)).to(LU.dtype());
}

// Of the exchanges of rows: 1 or -1.
Tensor parity_of(const Tensor& pivots, DType dtype) {
  const Tensor places = arange(Scalar(1), Scalar(pivots.size(-1) + 1), pivots.dtype(), std::nullopt, pivots.device());
  const Tensor signs = where(eq(pivots, places), Scalar(1.0), Scalar(-1.0)).to(dtype);
  return prod(signs, -1);
}

// A regular matrix beside A, by its factorization, or (to be differentiated) itself.
struct Beside {
  Tensor A, LU, pivots, det;

  Beside(const Tensor& singular, const Tensor& factors, const Tensor& p) : pivots(p) {
    const Tensor added = added_to_zeros(factors);
    if (is_differentiated(singular)) {
      const LuFactors f(factors.detach(), pivots);
      A = singular + matmul(f.P, matmul(f.L, diag_embed(added)));
      det = linalg_det(A);
    } else {
      LU = factors + diag_embed(added);
      det = prod(diagonal(LU, 0, -2, -1), -1) * parity_of(pivots, LU.dtype());
    }
  }
  Tensor solve(const Tensor& b) const { return A.defined() ? linalg_solve(A, b) : linalg_lu_solve(LU, pivots, b); }
  Tensor solve_adjoint(const Tensor& b) const {
    return A.defined() ? linalg_solve(mH(A), b) : linalg_lu_solve(LU, pivots, b, true, true);
  }
};

}  // namespace

Tensor det_backward(const Tensor& grad, const Tensor& A, const Tensor& LU, const Tensor& pivots) {
  const Beside beside(A, LU, pivots);
  return beside.solve_adjoint(scaled_identity(grad * conj(beside.det), A));
}

Tensor det_tangent(const Tensor& A_t, const Tensor& A, const Tensor& LU, const Tensor& pivots) {
  const Beside beside(A, LU, pivots);
  return beside.det * trace_of(beside.solve(A_t));
}

// d log(det A) = tr(A^-1 dA): its real part is that of log |det A|, its imaginary part the angle that the sign turns
// by.
Tensor slogdet_backward(const Tensor& grad_sign, const Tensor& grad_logabsdet, const Tensor& sign, const Tensor& A,
                        const Tensor& LU, const Tensor& pivots) {
  Tensor g = grad_logabsdet.defined() ? grad_logabsdet : zeros_like(real(sign));
  if (A.is_complex()) {
    const Tensor turn = grad_sign.defined() ? -imag(conj(grad_sign) * sign) : zeros_like(g);
    g = make_complex(g, turn);
  }
  return solve_adjoint(A, LU, pivots, scaled_identity(g, A), true);
}

std::array<Tensor, 4> slogdet_tangent(const Tensor& A_t, const Tensor& sign, const Tensor& A) {
  const Tensor t = trace_of(linalg_solve(A, A_t));
  if (!A.is_complex()) return {Tensor(), t, Tensor(), Tensor()};
  return {make_complex(zeros_like(imag(t)), imag(t)) * sign, real(t), Tensor(), Tensor()};
}

}  // namespace tessera::autograd::formulas
