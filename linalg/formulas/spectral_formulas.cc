#include "linalg/formulas/spectral_formulas.h"

#include <algorithm>

#include "linalg/matrix.h"

namespace tessera::autograd::formulas {
namespace {

Tensor diagonal_of(const Tensor& A) { return diagonal(A, 0, -2, -1); }
Tensor with_diagonal(const Tensor& A, const Tensor& d) { return diagonal_scatter(A, d, 0, -2, -1); }
Tensor without_diagonal(const Tensor& A) { return with_diagonal(A, zeros_like(diagonal_of(A))); }
// A - A^H, whose diagonal is to be nothing: it is for real matrices.
Tensor skew_part(const Tensor& A) {
  const Tensor skew = sub(A, mH(A));
  return A.is_complex() ? without_diagonal(skew) : skew;
}
// The columns of A, and its rows, times the numbers in s.
Tensor scale_columns(const Tensor& A, const Tensor& s) { return mul(A, unsqueeze(s, -2)); }
Tensor scale_rows(const Tensor& s, const Tensor& A) { return mul(unsqueeze(s, -1), A); }

// values[j] - values[i] in row i, column j; 1 on the diagonal, where nothing is to be divided.
Tensor differences(const Tensor& values) {
  const Tensor one = eye(values.size(-1), values.dtype(), {}, values.device(), {});
  return add(sub(unsqueeze(values, -2), unsqueeze(values, -1)), one);
}

// i x for real x.
Tensor times_i(const Tensor& x) { return make_complex(zeros_like(x), x); }

// Whether the numbers of t are at hand: a transform's wrapper stands for others, a meta tensor for none.
bool is_plain(const Tensor& t) {
  const DispatchKeySet known = kBackendKeys | kAutogradKeys | DispatchKey::kADInplaceOrView | DispatchKey::kConjugate |
                               DispatchKey::kNegative | DispatchKey::kForward;
  return !t.is_meta() && (t.keys() - known).empty();
}

// A function of vectors that may be multiplied by phases has gradients along which turning them changes nothing.
void check_phases(const char* name, const Tensor& turned) {
  if (!is_plain(turned)) return;
  const Tensor x = turned.detach();
  TESSERA_CHECK(allclose(x, zeros_like(x), 0, 1e-2), name,
                ": Complex vectors are determined only up to multiplication by phases e^{i phi}, but what is "
                "differentiated here depends on them: its gradient is ill-defined");
}

Tensor first_columns(const Tensor& A, int64_t n) { return A.size(-1) == n ? A : narrow(A, -1, 0, n); }
Tensor first_rows(const Tensor& A, int64_t n) { return A.size(-2) == n ? A : narrow(A, -2, 0, n); }

// x less its part in the space of the columns of Q.
Tensor outside(const Tensor& Q, const Tensor& x) { return sub(x, matmul(Q, matmul(mH(Q), x))); }

void check_has_vectors(const char* name, const Tensor& vectors, const Tensor& values, const char* argument) {
  TESSERA_CHECK(vectors.dim() > 1 || values.dim() == 0, name,
                ": derivatives need the vectors, which were not computed; call it with ", argument, "=True");
}

}  // namespace

Tensor linalg_eigh_backward(const Tensor& values_grad, const Tensor& vectors_grad, const Tensor& values,
                            const Tensor& vectors) {
  check_has_vectors("linalg_eigh_backward", vectors, values, "compute_v");
  const Tensor back = mH(vectors);
  if (!vectors_grad.defined()) return matmul(scale_columns(vectors, values_grad), back);
  const Tensor along = matmul(back, vectors_grad);
  if (vectors.is_complex()) check_phases("linalg_eigh_backward", imag(diagonal_of(along)));
  // The Hermitian part alone: a Hermitian matrix has neighbours of its kind only.
  const Tensor inner = div(skew_part(along), differences(mul(values, Scalar(2))));
  return matmul(vectors, matmul(values_grad.defined() ? with_diagonal(inner, values_grad) : inner, back));
}

std::tuple<Tensor, Tensor> linalg_eigh_tangents(const Tensor& A_t, const Tensor& values, const Tensor& vectors) {
  check_has_vectors("linalg_eigh", vectors, values, "compute_v");
  const Tensor inner = matmul(mH(vectors), matmul(A_t, vectors)), diagonal = diagonal_of(inner);
  return {inner.is_complex() ? real(diagonal) : diagonal,
          matmul(vectors, div(without_diagonal(inner), differences(values)))};
}

// With P = U^H dA V: dS = Re diag P, and U^H dU = (P S + S P^H) / E, V^H dV = (S P + P^H S) / E off the diagonal, where
// E[i, j] = S_j^2 - S_i^2. What is left of the diagonal, i Im P, is a turn of both vectors, shared out equally.
Tensor linalg_svd_backward(const Tensor& U_grad, const Tensor& S_grad, const Tensor& Vh_grad, const Tensor& U,
                           const Tensor& S, const Tensor& Vh, bool full_matrices) {
  check_has_vectors("svd_backward", U, S, "compute_uv");
  const int64_t k = S.size(-1);
  const Tensor u = full_matrices ? first_columns(U, k) : U, vh = full_matrices ? first_rows(Vh, k) : Vh;
  if (!U_grad.defined() && !Vh_grad.defined()) return matmul(scale_columns(u, S_grad), vh);

  const Tensor gaps = differences(square(S));
  Tensor inner, turned, beyond;
  const auto add_to = [](Tensor& sum, const Tensor& x) { sum = sum.defined() ? add(sum, x) : x; };
  const auto skew = [&](const Tensor& x) { return div(skew_part(x), gaps); };
  Tensor turn_of_u;
  if (U_grad.defined()) {
    const Tensor grad = first_columns(U_grad, k), along = matmul(mH(u), grad);
    add_to(inner, scale_columns(skew(along), S));
    if (u.is_complex()) add_to(turned, turn_of_u = imag(diagonal_of(along)));
    if (u.size(-2) > k) add_to(beyond, matmul(div(outside(u, grad), unsqueeze(S, -2)), vh));
  }
  if (Vh_grad.defined()) {
    const Tensor v = mH(vh), grad = mH(first_rows(Vh_grad, k)), along = matmul(vh, grad);
    add_to(inner, scale_rows(S, skew(along)));
    if (u.is_complex()) add_to(turned, imag(diagonal_of(along)));
    if (vh.size(-1) > k) add_to(beyond, matmul(u, mH(div(outside(v, grad), unsqueeze(S, -2)))));
  }
  if (turned.defined()) check_phases("svd_backward", turned);
  Tensor on_diagonal = S_grad;
  if (turn_of_u.defined()) {
    const Tensor turn = times_i(div(turn_of_u, S));
    on_diagonal = S_grad.defined() ? add(turn, S_grad) : turn;
  }
  if (on_diagonal.defined()) inner = with_diagonal(inner, on_diagonal);
  const Tensor grad = matmul(u, matmul(inner, vh));
  return beyond.defined() ? add(grad, beyond) : grad;
}

std::tuple<Tensor, Tensor, Tensor> linalg_svd_tangents(const Tensor& A_t, const Tensor& U, const Tensor& S,
                                                       const Tensor& Vh, bool full_matrices) {
  check_has_vectors("linalg_svd", U, S, "compute_uv");
  const int64_t k = S.size(-1);
  const Tensor u = full_matrices ? first_columns(U, k) : U, vh = full_matrices ? first_rows(Vh, k) : Vh, v = mH(vh);
  const Tensor inner = matmul(mH(u), matmul(A_t, v)), back = mH(inner), diagonal = diagonal_of(inner),
               gaps = differences(square(S));
  const auto turns = [&](const Tensor& sum) { return div(without_diagonal(sum), gaps); };
  Tensor u_turn = turns(add(scale_columns(inner, S), scale_rows(S, back))),
         v_turn = turns(add(scale_rows(S, inner), scale_columns(back, S)));
  if (u.is_complex()) {
    const Tensor phases = diag_embed(times_i(div(imag(diagonal), mul(S, Scalar(2)))));
    u_turn = add(u_turn, phases);
    v_turn = sub(v_turn, phases);
  }
  Tensor u_t = matmul(u, u_turn), v_t = matmul(v, v_turn);
  if (u.size(-2) > k) u_t = add(u_t, outside(u, div(matmul(A_t, v), unsqueeze(S, -2))));
  if (vh.size(-1) > k) v_t = add(v_t, outside(v, div(matmul(mH(A_t), u), unsqueeze(S, -2))));
  // Vectors beyond the singular values only have to stay orthogonal to the others.
  const auto with_rest = [k](const Tensor& all, const Tensor& some, const Tensor& some_t) {
    if (all.size(-1) == k) return some_t;
    const Tensor rest = narrow(all, -1, k, all.size(-1) - k);
    const Tensor parts[] = {some_t, neg(matmul(some, matmul(mH(some_t), rest)))};
    return cat(parts, -1);
  };
  if (full_matrices) {
    u_t = with_rest(U, u, u_t);
    v_t = with_rest(mH(Vh), v, v_t);
  }
  return {u_t, u.is_complex() ? real(diagonal) : diagonal, mH(v_t)};
}

}  // namespace tessera::autograd::formulas
