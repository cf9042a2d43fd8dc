// The operators that factor, solve, invert and take determinants: what they are made of when they are not kernels.
#include "linalg/factor.h"

#include <algorithm>
#include <limits>
#include <string>

#include "linalg/factor_ops.h"
#include "linalg/matrix.h"
#include "tensor/core/warning.h"
#include "tensor/ops/api.h"

namespace tessera::linalg {

void deprecate(const char* older, const char* newer) {
  warn_once(std::string("torch.") + older + " is deprecated in favor of torch.linalg." + newer +
            " and will be removed in a future release.");
}

// (L L^H)^-1 by halves: with K = L21 L11^-1 and X = (L22 L22^H)^-1 it is [(L11 L11^H)^-1 + K^H X K, -K^H X; -X K, X].
Tensor inverse_of_product(const Tensor& L) {
  constexpr int64_t kSmall = 64;
  const int64_t n = L.size(-1), top = (n / 2 + 31) / 32 * 32, rest = n - top;
  if (n <= kSmall) return tessera::cholesky_solve(eye(n, L.dtype(), std::nullopt, L.device()), L);
  const Tensor left = narrow(L, -1, 0, top), first = narrow(left, -2, 0, top);
  const Tensor X = inverse_of_product(narrow(narrow(L, -2, top, rest), -1, top, rest));
  const Tensor K = linalg_solve_triangular(first, narrow(left, -2, top, rest), false, false);
  const Tensor below = neg(matmul(X, K));
  const Tensor above[] = {sub(inverse_of_product(first), matmul(mH(K), below)), mH(below)}, under[] = {below, X};
  const Tensor halves[] = {cat(above, -1), cat(under, -1)};
  return cat(halves, -2);
}

Tensors2 lu_factor(const Tensor& A, bool pivot) {
  auto [LU, pivots, info] = linalg_lu_factor_ex(A, pivot, true);
  return {LU, pivots};
}

Tensors3 lu(const Tensor& A, bool pivot) {
  const auto [LU, pivots, info] = linalg_lu_factor_ex(A, pivot, false);
  return lu_unpack(LU, pivots, true, pivot);
}

Tensors2 solve_ex(const Tensor& A, const Tensor& B, bool left, bool check_errors) {
  const auto [result, LU, pivots, info] = _linalg_solve_ex(A, B, left, check_errors);
  return {result, info};
}

Tensors2 triangular_solve(const Tensor& B, const Tensor& A, bool upper, bool transpose, bool unitriangular) {
  TESSERA_CHECK(B.dim() >= 2, "torch.triangular_solve: Expected b to have at least 2 dimensions, but it has ", B.dim(),
                " dimensions instead");
  check_square("triangular_solve", A);
  TESSERA_CHECK(A.size(-1) == B.size(-2), "Incompatible matrix sizes for triangular_solve: each A matrix is ",
                A.size(-1), " by ", A.size(-1), " but each b matrix is ", B.size(-2), " by ", B.size(-1));
  deprecate("triangular_solve", "solve_triangular");
  const Tensor solution = linalg_solve_triangular(transpose ? mT(A) : A, B, upper != transpose, true, unitriangular);
  return {solution, clone(expand(A, with_matrix(broadcast_batch(A, B), A.size(-2), A.size(-1))))};
}

Tensor tensorinv(const Tensor& A, int64_t ind) {
  TESSERA_CHECK(ind > 0, "linalg.tensorinv: Expected a strictly positive integer for 'ind', but got ", ind);
  IntVector sizes, front;
  int64_t product_front = 1, product_back = 1;
  for (int64_t d = 0; d < A.dim(); ++d) {
    (d < ind ? product_front : product_back) *= A.size(d);
    (d < ind ? front : sizes).push_back(A.size(d));
  }
  sizes.insert(sizes.end(), front.begin(), front.end());
  TESSERA_CHECK(product_front == product_back,
                "linalg.tensorinv: Expected self to satisfy the requirement prod(self.shape[ind:]) == "
                "prod(self.shape[:ind]), but got ",
                product_back, " != ", product_front);
  return reshape(linalg_inv(reshape(A, {product_back, product_front})), sizes);
}

Tensor tensorsolve(const Tensor& A, const Tensor& B, std::optional<IntList> dims) {
  Tensor a = A;
  if (dims) {
    IntVector to(dims->size());
    for (size_t i = 0; i < to.size(); ++i) to[i] = static_cast<int64_t>(i) - static_cast<int64_t>(to.size());
    a = movedim(A, *dims, to);
  }
  TESSERA_CHECK(B.dim() <= a.dim(), "linalg.tensorsolve: Expected other to have at most as many dimensions as self, ",
                "but got ", B.dim(), " and ", a.dim());
  const IntVector sizes(a.sizes().begin() + B.dim(), a.sizes().end());
  int64_t unknowns = 1, equations = 1;
  for (int64_t s : sizes) unknowns *= s;
  for (int64_t d = 0; d < B.dim(); ++d) equations *= a.size(d);
  TESSERA_CHECK(unknowns == equations,
                "linalg.tensorsolve: Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
                "prod(self.shape[:other.ndim]), but got ",
                unknowns, " != ", equations);
  TESSERA_CHECK(B.numel() == equations, "linalg.tensorsolve: Expected other to have as many elements as there are ",
                "equations, ", equations, ", but got ", B.numel());
  return reshape(linalg_solve(reshape(a, {unknowns, unknowns}), reshape(B, {-1})), sizes);
}

Tensors2 slogdet(const Tensor& A) {
  const auto [sign, logabsdet, LU, pivots] = _linalg_slogdet(A);
  return {sign, logabsdet};
}

Tensor logdet(const Tensor& A) {
  check_square("logdet", A);
  const auto [sign, logabsdet] = linalg::slogdet(A);
  if (A.is_complex()) return log(sign) + logabsdet;
  return where(eq(sign, Scalar(-1)), Scalar(std::numeric_limits<double>::quiet_NaN()), logabsdet);
}

Tensors2 ldl_factor(const Tensor& A, bool hermitian) {
  const auto [LD, pivots, info] = linalg_ldl_factor_ex(A, hermitian, true);
  return {LD, pivots};
}

bool is_vector(IntList A, IntList B) {
  return B.size() == 1 || (B.size() + 1 == A.size() && std::equal(B.begin(), B.end(), A.begin()));
}

Tensor inverse(const Tensor& A) { return linalg_inv(A); }

}  // namespace tessera::linalg
