#include "linalg/formulas/orthogonal_formulas.h"

#include "linalg/all_ops.h"
#include "linalg/orthogonal.h"

namespace tessera::autograd::formulas {
namespace {

using linalg::QrMode;

Tensor adjoint_of(const Tensor& a) { return conj(transpose(a, -2, -1)); }
Tensor add_to(const Tensor& sum, const Tensor& part) { return sum.defined() ? sum + part : part; }

// c r^-1 and c r^-H for an upper triangle r.
Tensor over(const Tensor& c, const Tensor& r) { return linalg_solve_triangular(r, c, true, false); }
Tensor over_adjoint(const Tensor& c, const Tensor& r) {
  return linalg_solve_triangular(adjoint_of(r), c, false, false);
}

// The upper triangle with half of the diagonal.
Tensor upper_and_half(const Tensor& a) { return diagonal_scatter(triu(a), diagonal(a, 0, -2, -1) * 0.5, 0, -2, -1); }

void check_differentiable(const Tensor& Q, const Tensor& R, QrMode mode) {
  TESSERA_CHECK(mode != QrMode::kR,
                "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use "
                "linalg.qr(A, mode='reduced') if you are going to differentiate through linalg.qr.");
  TESSERA_CHECK(mode == QrMode::kReduced || Q.size(-2) <= R.size(-1),
                "The QR decomposition is not differentiable when mode='complete' and nrows > ncols.");
}

}  // namespace

// With dA R^-1 = Q W + Q U + (what is orthogonal to Q): Q^H dA R^-1 = W + U, W skew Hermitian, dQ = Q W + ..., dR = U
// R, U upper triangular with a real diagonal: so U is the upper half of S + S^H, S = Q^H dA R^-1, and dQ = dA R^-1 - Q
// U. Where there are more columns than rows, the others follow: R2 = Q^H A2.
Tensor qr_backward(const Tensor& grad_Q, const Tensor& grad_R, const Tensor& Q, const Tensor& R,
                   std::string_view mode) {
  check_differentiable(Q, R, linalg::qr_mode(mode));
  const int64_t k = Q.size(-1), n = R.size(-1);
  const bool wide = n > k;
  const Tensor R1 = wide ? narrow(R, -1, 0, k) : R, Qh = adjoint_of(Q);
  Tensor gQ = grad_Q, gR1 = grad_R, gA2;
  if (wide && grad_R.defined()) {
    const Tensor gR2 = narrow(grad_R, -1, k, n - k);
    gR1 = narrow(grad_R, -1, 0, k);
    gA2 = matmul(Q, gR2);
    gQ = add_to(gQ, matmul(Q, matmul(narrow(R, -1, k, n - k), adjoint_of(gR2))));
  }
  Tensor gU;
  if (gR1.defined()) gU = matmul(gR1, adjoint_of(R1));
  if (gQ.defined()) {
    const Tensor along = matmul(Qh, gQ);
    gU = gU.defined() ? gU - along : -along;
  }
  const Tensor half = upper_and_half(gU);
  Tensor gC = matmul(Q, half + adjoint_of(half));
  if (gQ.defined()) gC = gC + gQ;
  const Tensor gA1 = over_adjoint(gC, R1);
  if (!wide) return gA1;
  const Tensor parts[2] = {gA1, gA2.defined() ? gA2 : zeros_like(narrow(R, -1, k, n - k))};
  return cat(parts, -1);
}

std::tuple<Tensor, Tensor> qr_tangents(const Tensor& A_t, const Tensor& Q, const Tensor& R, std::string_view mode) {
  check_differentiable(Q, R, linalg::qr_mode(mode));
  const int64_t k = Q.size(-1), n = R.size(-1);
  const bool wide = n > k;
  const Tensor R1 = wide ? narrow(R, -1, 0, k) : R, Qh = adjoint_of(Q);
  const Tensor C = over(wide ? narrow(A_t, -1, 0, k) : A_t, R1), S = matmul(Qh, C);
  const Tensor U = upper_and_half(S + adjoint_of(S));
  const Tensor dQ = C - matmul(Q, U), dR1 = matmul(U, R1);
  if (!wide) return {dQ, dR1};
  const Tensor R2 = narrow(R, -1, k, n - k), A2_t = narrow(A_t, -1, k, n - k);
  const Tensor parts[2] = {dR1, matmul(Qh, A2_t) + matmul(adjoint_of(dQ), matmul(Q, R2))};
  return {dQ, cat(parts, -1)};
}

// --- Reflections: H_0 ... H_(k - 1) = I - V T V^H, where T = (I + D G)^-1 D, D the diagonal of tau, and G what is
// above the diagonal of V^H V.

namespace {

struct Reflections {
  Tensor V, tau, G, M, T;  // M = I + D G
};

// t with zeros behind it, along dim, until there are `size`.
Tensor with_zeros(const Tensor& t, int64_t dim, int64_t size) {
  if (t.size(dim) == size) return t;
  const IntList given = t.sizes();
  std::vector<SymInt> sizes(given.begin(), given.end());
  sizes[sizes.size() + static_cast<size_t>(dim)] = size - t.size(dim);
  const Tensor parts[2] = {t, zeros(sizes, t.dtype(), std::nullopt, t.device())};
  return cat(parts, dim);
}

// Tangents or vectors: the part of `input` that counts; k columns.
Tensor below_diagonal(const Tensor& input, int64_t k) { return tril(narrow(input, -1, 0, k), -1); }

// x of m x = c, or of m^H x = c, for an upper triangle with ones on the diagonal.
Tensor solve_unit(const Tensor& m, const Tensor& c) { return linalg_solve_triangular(m, c, true, true, true); }
Tensor solve_unit_adjoint(const Tensor& m, const Tensor& c) {
  return linalg_solve_triangular(adjoint_of(m), c, false, true, true);
}

Reflections reflections_of(const Tensor& input, const Tensor& tau) {
  Reflections r;
  const int64_t k = tau.size(-1);
  const Tensor one = eye(SymInt(k), tau.dtype(), std::nullopt, tau.device());
  r.V = below_diagonal(input, k) + eye(SymInt(input.size(-2)), SymInt(k), tau.dtype(), std::nullopt, tau.device());
  r.tau = unsqueeze(tau, -1);
  r.G = triu(matmul(adjoint_of(r.V), r.V), 1);
  r.M = one + r.tau * r.G;
  r.T = solve_unit(r.M, diag_embed(tau));
  return r;
}

// From Q's gradient g through V T W^H, W the first rows of V: gW = g W and gV = g^H V.
std::tuple<Tensor, Tensor> reflections_backward(const Reflections& r, const Tensor& gW, const Tensor& gV, int64_t cols,
                                                const std::array<bool, 2>& wanted) {
  const Tensor Vh = adjoint_of(r.V), Th = adjoint_of(r.T);
  const Tensor gT = -matmul(Vh, gW);
  const Tensor K = solve_unit_adjoint(r.M, gT);
  Tensor grad_input, grad_tau;
  if (wanted[1]) {
    const int64_t last[1] = {-1};
    const Tensor one = eye(SymInt(r.T.size(-1)), r.T.dtype(), std::nullopt, r.T.device());
    grad_tau = sum(K * conj(one - matmul(r.G, r.T)), IntList(last));
  }
  if (wanted[0]) {
    const Tensor gG = triu(-matmul(conj(r.tau) * K, Th), 1);
    Tensor grad_V = matmul(r.V, gG + adjoint_of(gG)) - matmul(gW, Th);
    const Tensor top = matmul(gV, r.T);  // of W
    grad_V = tril(grad_V - with_zeros(top, -2, r.V.size(-2)), -1);
    grad_input = with_zeros(grad_V, -1, cols);
  }
  return {grad_input, grad_tau};
}

}  // namespace

std::tuple<Tensor, Tensor> householder_product_backward(const Tensor& grad, const Tensor& input, const Tensor& tau,
                                                        const std::array<bool, 2>& wanted) {
  const Reflections r = reflections_of(input, tau);
  const Tensor W = narrow(r.V, -2, 0, input.size(-1));
  return reflections_backward(r, matmul(grad, W), matmul(adjoint_of(grad), r.V), input.size(-1), wanted);
}

Tensor householder_product_tangent(const Tensor& input_t, const Tensor& tau_t, const Tensor& input, const Tensor& tau) {
  const Reflections r = reflections_of(input, tau);
  const int64_t n = input.size(-1), k = tau.size(-1);
  const Tensor Vh = adjoint_of(r.V), Wh = narrow(Vh, -1, 0, n);
  Tensor result, dM;  // dT = M^-1 (dD - dM T)
  if (input_t.defined()) {
    const Tensor dV = below_diagonal(input_t, k), dVh = adjoint_of(dV);
    dM = r.tau * triu(matmul(dVh, r.V) + matmul(Vh, dV), 1);
    result = -matmul(dV, matmul(r.T, Wh)) - matmul(r.V, matmul(r.T, narrow(dVh, -1, 0, n)));
  }
  Tensor rest;
  if (dM.defined()) rest = -matmul(dM, r.T);
  if (tau_t.defined()) rest = add_to(rest, diag_embed(tau_t) - unsqueeze(tau_t, -1) * matmul(r.G, r.T));
  return add_to(result, -matmul(r.V, matmul(solve_unit(r.M, rest), Wh)));
}

// Q's gradient is x y^H: (grad, other) for Q C, (other, grad) for Q^H C, (other^H, grad^H) for C Q ...
std::tuple<Tensor, Tensor> ormqr_backward(const Tensor& grad, const Tensor& self, const Tensor& tau,
                                          const Tensor& other, bool left, bool transpose,
                                          const std::array<bool, 2>& wanted) {
  const Reflections r = reflections_of(self, tau);
  const Tensor g = left ? grad : adjoint_of(grad), c = left ? other : adjoint_of(other);
  const bool of_grad = left != transpose;
  const Tensor &x = of_grad ? g : c, &y = of_grad ? c : g;
  const Tensor gW = matmul(x, matmul(adjoint_of(y), r.V)), gV = matmul(y, matmul(adjoint_of(x), r.V));
  return reflections_backward(r, gW, gV, self.size(-1), wanted);
}

// --- Least squares. With P = A^+, R = B - A X, N = I - P A:
// dX = P (dB - dA X) + P P^H dA^H R + N dA^H P^H X. Products with P and P^H are least squares again.

namespace {

struct LeastSquaresProblem {
  Tensor A, Ah, X, R;
  std::optional<double> rcond;
  std::optional<std::string_view> driver;
  bool vector;
  bool has_null_space;  // N is not zero: fewer rows than columns, or a driver that allows for less than full rank

  LeastSquaresProblem(const Tensor& a, const Tensor& b, std::optional<double> limit,
                      std::optional<std::string_view> how, const Tensor& solution)
      : A(a), Ah(adjoint_of(a)), rcond(limit), driver(how), vector(linalg::is_vector(a.sizes(), b.sizes())) {
    X = columns(solution);
    R = columns(b) - matmul(A, X);
    has_null_space = A.size(-2) < A.size(-1) || driver != "gels";
  }
  Tensor columns(const Tensor& t) const { return vector ? unsqueeze(t, -1) : t; }
  Tensor back(const Tensor& t) const { return vector ? squeeze(t, -1) : t; }
  Tensor solve(const Tensor& c) const { return solve_with(A, c); }
  Tensor solve_adjoint(const Tensor& c) const { return solve_with(Ah, c); }

 private:
  // c may have batch dimensions of its own, in front or instead of those of 1.
  Tensor solve_with(const Tensor& a, const Tensor& c) const { return std::get<0>(linalg_lstsq(a, c, rcond, driver)); }
};

}  // namespace

std::tuple<Tensor, Tensor> lstsq_backward(const Tensor& grad_solution, const Tensor& grad_residuals, const Tensor& A,
                                          const Tensor& b, std::optional<double> rcond,
                                          std::optional<std::string_view> driver, const Tensor& solution,
                                          const std::array<bool, 2>& wanted) {
  const LeastSquaresProblem p(A, b, rcond, driver, solution);
  const Tensor Xh = adjoint_of(p.X);
  Tensor grad_A, grad_b;
  if (grad_solution.defined()) {
    const Tensor G = p.columns(grad_solution), Z = p.solve_adjoint(G);
    grad_b = Z;
    if (wanted[0]) {
      grad_A = matmul(p.R, adjoint_of(p.solve(Z))) - matmul(Z, Xh);
      if (p.has_null_space) grad_A = grad_A + matmul(p.solve_adjoint(p.X), adjoint_of(G - matmul(p.Ah, Z)));
    }
  }
  if (grad_residuals.defined() && grad_residuals.numel() > 0) {
    const Tensor g = p.R * unsqueeze(grad_residuals, -2) * 2;
    grad_b = add_to(grad_b, g);
    if (wanted[0]) grad_A = add_to(grad_A, -matmul(g, Xh));
  }
  if (grad_b.defined()) grad_b = p.back(grad_b);
  return {grad_A, grad_b};
}

std::array<Tensor, 4> lstsq_tangents(const Tensor& A_t, const Tensor& b_t, const Tensor& A, const Tensor& b,
                                     std::optional<double> rcond, std::optional<std::string_view> driver,
                                     const Tensor& solution, const Tensor& residuals) {
  const LeastSquaresProblem p(A, b, rcond, driver, solution);
  Tensor right;  // dB - dA X
  if (b_t.defined()) right = p.columns(b_t);
  if (A_t.defined()) right = add_to(right, -matmul(A_t, p.X));
  Tensor dX = p.solve(right);
  if (A_t.defined()) {
    const Tensor At = adjoint_of(A_t);
    dX = dX + p.solve(p.solve_adjoint(matmul(At, p.R)));
    if (p.has_null_space) {
      const Tensor free = matmul(At, p.solve_adjoint(p.X));
      dX = dX + free - p.solve(matmul(p.A, free));
    }
  }
  std::array<Tensor, 4> tangents;
  tangents[0] = p.back(dX);
  if (residuals.numel() > 0) {
    const int64_t rows[1] = {-2};
    const Tensor products = sum(conj(p.R) * right, IntList(rows)) * 2;
    tangents[1] = products.is_complex() ? real(products) : products;
  }
  return tangents;
}

}  // namespace tessera::autograd::formulas
