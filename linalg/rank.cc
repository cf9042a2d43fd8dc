// What is cut off where singular values are too small to count: those that do not exceed max(atol, rtol times the
// largest). Defaults: atol 0; rtol 0 where atol is positive, else eps max(m, n). Tensors broadcast to the batch.
#include <array>
#include <limits>

#include "linalg/functions_kernels.h"
#include "linalg/all_ops.h"
#include "linalg/matrix.h"
#include "tensor/ops/api.h"

namespace tessera::kernels {
namespace {

constexpr std::array<int64_t, 1> kLast{-1};

double epsilon(DType dtype) {
  return to_real(dtype) == DType::kFloat64 ? std::numeric_limits<double>::epsilon()
                                           : std::numeric_limits<float>::epsilon();
}

void check_tolerance(const char* function, const char* name, const Tensor& t) {
  TESSERA_CHECK(!t.defined() || !t.is_complex(), "linalg.", function, ": ", name,
                " tensor of complex type is not supported, but got ", name_of(t.dtype()));
}

// Which of `values` (not negative, along the last dimension, at least one) count.
Tensor counting(const Tensor& A, const Tensor& values, const Tensor& atol, const Tensor& rtol) {
  const double usual = epsilon(A.dtype()) * static_cast<double>(std::max(A.size(-1), A.size(-2)));
  const Tensor largest = amax(values, kLast, true);
  if (!atol.defined()) {
    return gt(values, rtol.defined() ? mul(rtol.unsqueeze(-1), largest) : mul(largest, Scalar(usual)));
  }
  const Tensor absolute = atol.unsqueeze(-1);
  const Tensor relative =
      rtol.defined() ? rtol.unsqueeze(-1) : mul(le(absolute, Scalar(0)).to(values.dtype()), Scalar(usual));
  return gt(values, maximum(absolute, mul(relative, largest)));
}

// A number beside A: 0-dim, float64 or float32.
Tensor tolerance(const Tensor& A, std::optional<double> value) {
  if (!value) return Tensor();
  return full(SymIntList{}, Scalar(*value), to_real(A.dtype()), std::nullopt, A.device());
}

Tensor rank_of(const Tensor& A, const Tensor& atol, const Tensor& rtol, bool hermitian) {
  check_tolerance("matrix_rank", "atol", atol);
  check_tolerance("matrix_rank", "rtol", rtol);
  linalg::check_matrix("linalg.matrix_rank", A, "input");
  if (A.numel() == 0) return new_zeros(A, linalg::batch_sizes(A), DType::kInt64);
  if (hermitian) linalg::check_square("linalg.matrix_rank", A, "input");
  const Tensor values = hermitian ? abs(linalg_eigvalsh(A)) : linalg_svdvals(A);
  return sum(counting(A, values, atol, rtol), IntList(kLast));
}

}  // namespace

Tensor linalg_matrix_rank_atol_rtol_tensor_composite(const Tensor& A, const Tensor& atol, const Tensor& rtol,
                                                     bool hermitian) {
  return rank_of(A, atol, rtol, hermitian);
}
Tensor linalg_matrix_rank_atol_rtol_float_composite(const Tensor& A, std::optional<double> atol,
                                                    std::optional<double> rtol, bool hermitian) {
  return rank_of(A, tolerance(A, atol), tolerance(A, rtol), hermitian);
}
Tensor linalg_matrix_rank_composite(const Tensor& A, double tol, bool hermitian) {
  return rank_of(A, tolerance(A, tol), tolerance(A, 0), hermitian);
}
Tensor linalg_matrix_rank_tol_tensor_composite(const Tensor& A, const Tensor& tol, bool hermitian) {
  return rank_of(A, tol, tolerance(A, 0), hermitian);
}

Tensor linalg_pinv_atol_rtol_tensor_composite(const Tensor& A, const Tensor& atol, const Tensor& rtol, bool hermitian) {
  check_tolerance("pinv", "atol", atol);
  check_tolerance("pinv", "rtol", rtol);
  linalg::check_matrix("linalg.pinv", A);
  if (A.numel() == 0) return new_zeros(A, linalg::with_matrix(linalg::batch_sizes(A), A.size(-1), A.size(-2)));
  if (hermitian) linalg::check_square("linalg.pinv", A);
  const auto inverted = [&](const Tensor& values, const Tensor& sizes) {
    return where(counting(A, sizes, atol, rtol), reciprocal(values), Scalar(0.0)).to(A.dtype()).unsqueeze(-2);
  };
  if (hermitian) {
    const auto [values, vectors] = linalg_eigh(A);
    return matmul(mul(vectors, inverted(values, abs(values))), mH(vectors));
  }
  const auto [U, S, Vh] = linalg_svd(A, false);
  return matmul(mul(mH(Vh), inverted(S, S)), mH(U));
}

Tensor linalg_pinv_atol_rtol_float_composite(const Tensor& A, std::optional<double> atol, std::optional<double> rtol,
                                             bool hermitian) {
  return linalg_pinv(A, tolerance(A, atol), tolerance(A, rtol), hermitian);
}
Tensor linalg_pinv_composite(const Tensor& A, double rcond, bool hermitian) {
  return linalg_pinv(A, tolerance(A, 0), tolerance(A, rcond), hermitian);
}
Tensor linalg_pinv_rcond_tensor_composite(const Tensor& A, const Tensor& rcond, bool hermitian) {
  return linalg_pinv(A, tolerance(A, 0), rcond, hermitian);
}

}  // namespace tessera::kernels
