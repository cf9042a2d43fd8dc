// The operators of eigenvalues and singular values: shapes and checks, and memory for the engines.
#include "linalg/spectral.h"

#include <array>

#include "linalg/engine/spectral.h"
#include "linalg/matrix.h"
#include "linalg/spectral_kernels.h"
#include "linalg/spectral_ops.h"
#include "tensor/ops/api.h"
#include "tensor/ops/create_kernels.h"

namespace tessera {
namespace {

// Matrices whose columns lie in one piece each.
OutputSpec by_columns(const Tensor& A, int64_t rows, int64_t cols) {
  IntVector sizes = linalg::with_matrix(linalg::batch_sizes(A), rows, cols), strides(sizes.size());
  int64_t step = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = step;
    step *= std::max<int64_t>(sizes[d], 1);
  }
  strides[sizes.size() - 2] = 1;
  strides[sizes.size() - 1] = std::max<int64_t>(rows, 1);
  return {sizes, strides, A.dtype(), A.device()};
}
OutputSpec nothing(const Tensor& A) { return {IntVector{0}, A.dtype(), A.device()}; }
// `count` real numbers for each matrix.
OutputSpec reals(const Tensor& A, int64_t count) {
  IntVector sizes = to_vector(linalg::batch_sizes(A));
  sizes.push_back(count);
  return {sizes, to_real(A.dtype()), A.device()};
}

bool reads_lower(std::string_view UPLO) {
  const char c = UPLO.size() == 1 ? UPLO[0] : '\0';
  TESSERA_CHECK(c == 'L' || c == 'l' || c == 'U' || c == 'u', "Expected UPLO argument to be 'L' or 'U', but got ",
                UPLO);
  return c == 'L' || c == 'l';
}

// The method that `driver` names, which devices have alone.
std::optional<linalg::SvdDriver> svd_driver(const Tensor& A, const std::optional<std::string_view>& driver) {
  using linalg::SvdDriver;
  if (!driver) return std::nullopt;
  TESSERA_CHECK(A.is_cuda(), "linalg.svd: the keyword argument `driver=` is only supported for CUDA tensors");
  if (*driver == "gesvd") return SvdDriver::kGesvd;
  if (*driver == "gesvdj") return SvdDriver::kGesvdj;
  TESSERA_CHECK(*driver == "gesvda", "linalg.svd: unknown svd driver ", *driver,
                "; expected one of gesvd, gesvdj, gesvda, or None");
  return SvdDriver::kGesvda;
}

Tensor info_for(const Tensor& A) {
  const IntVector batch = to_vector(linalg::batch_sizes(A));
  return empty_tensor(batch, {}, DType::kInt32, A.device());
}

void run_svd(const Tensor& A, std::optional<linalg::SvdDriver> driver, const cpu::MatrixBatch* u, void* values,
             const cpu::MatrixBatch* vh) {
  const Tensor from = linalg::dense_batch(A, linalg::batch_sizes(A)), info = info_for(A);
  auto* const numbers = static_cast<int32_t*>(info.data_ptr());
  if (driver) {
    linalg::SvdBy* const by = linalg::SpectralEngines::of(internal::select_device(A.device(), "run_svd_by")).run_svd_by;
    if (!by) internal::missing_engine(A.device(), "run_svd_by");
    by(*driver, A.dtype(), linalg::matrices(from), u, values, vh, numbers);
  } else {
    TESSERA_ON(A.device(), run_svd)(A.dtype(), linalg::matrices(from), u, values, vh, numbers);
  }
  linalg::check_errors(info, "linalg.svd", A.dim() == 2);
}

}  // namespace

namespace linalg {

bool vectors_are_wanted(const Tensor& A) {
  // A tensor of a transform does not tell what is differentiated outside of it.
  const DispatchKeySet plain =
      kBackendKeys | kAutogradKeys | DispatchKey::kADInplaceOrView | DispatchKey::kConjugate | DispatchKey::kNegative;
  return (A.requires_grad() && grad_mode_enabled()) || !(A.keys() - plain).empty();
}

std::tuple<Tensor, Tensor, Tensor> old_svd(const Tensor& self, bool some, bool compute_uv) {
  check_matrix("svd", self, "self");
  if (compute_uv) {
    const auto [U, S, Vh] = linalg_svd(self, !some);
    return {U, S, mH(Vh)};
  }
  const auto zeros_of = [&](int64_t rows) {
    const IntVector sizes = with_matrix(batch_sizes(self), rows, rows);
    const std::vector<SymInt> symbols(sizes.begin(), sizes.end());
    return zeros(symbols, self.dtype(), {}, self.device(), {});
  };
  return {zeros_of(self.size(-2)), linalg_svdvals(self), zeros_of(self.size(-1))};
}

}  // namespace linalg

namespace kernels {

std::array<OutputSpec, 2> _linalg_eigh_meta(const Tensor& A, std::string_view UPLO, bool compute_v) {
  linalg::check_square("linalg.eigh", A, "A", linalg::Integers::kAsHalf);
  reads_lower(UPLO);
  const int64_t n = A.size(-1);
  return {reals(A, n), compute_v ? by_columns(A, n, n) : nothing(A)};
}

void _linalg_eigh_kernel(const Tensor& A, std::string_view UPLO, bool compute_v, const Tensor& eigenvalues,
                         const Tensor& eigenvectors) {
  const bool lower = reads_lower(UPLO);
  const Tensor from = linalg::dense_batch(A, linalg::batch_sizes(A)), info = info_for(A);
  const ResultMemory values(eigenvalues);
  if (compute_v) {
    const ResultMemory vectors = linalg::dense_result(eigenvectors);
    const cpu::MatrixBatch to = linalg::matrices(vectors.tensor());
    TESSERA_ON(A.device(), run_eigh)
    (A.dtype(), linalg::matrices(from), lower, values.data(), &to, static_cast<int32_t*>(info.data_ptr()));
    linalg::check_errors(info, "linalg.eigh", A.dim() == 2);
    vectors.finish();
  } else {
    TESSERA_ON(A.device(), run_eigh)
    (A.dtype(), linalg::matrices(from), lower, values.data(), nullptr, static_cast<int32_t*>(info.data_ptr()));
    linalg::check_errors(info, "linalg.eigh", A.dim() == 2);
  }
  values.finish();
}

std::array<OutputSpec, 3> _linalg_svd_meta(const Tensor& A, bool full_matrices, bool compute_uv,
                                           std::optional<std::string_view> driver) {
  linalg::check_matrix("linalg.svd", A);
  svd_driver(A, driver);
  const int64_t m = A.size(-2), n = A.size(-1), k = std::min(m, n);
  return {compute_uv ? by_columns(A, m, full_matrices ? m : k) : nothing(A), reals(A, k),
          compute_uv ? by_columns(A, full_matrices ? n : k, n) : nothing(A)};
}

void _linalg_svd_kernel(const Tensor& A, bool, bool compute_uv, std::optional<std::string_view> driver, const Tensor& U,
                        const Tensor& S, const Tensor& Vh) {
  const std::optional<linalg::SvdDriver> by = svd_driver(A, driver);
  const ResultMemory values(S);
  if (compute_uv) {
    const ResultMemory left = linalg::dense_result(U), right = linalg::dense_result(Vh);
    const cpu::MatrixBatch u = linalg::matrices(left.tensor()), vh = linalg::matrices(right.tensor());
    run_svd(A, by, &u, values.data(), &vh);
    left.finish();
    right.finish();
  } else {
    run_svd(A, by, nullptr, values.data(), nullptr);
  }
  values.finish();
}

}  // namespace kernels
}  // namespace tessera
