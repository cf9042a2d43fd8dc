// Eigenvalues of general matrices: shapes, and matrices in memory for the engine.
#include "linalg/eigen_kernels.h"
#include "linalg/engine/eigen.h"
#include "linalg/matrix.h"
#include "tensor/ops/api.h"
#include "tensor/ops/create_kernels.h"

namespace tessera::kernels {
namespace {

IntVector values_shape(const Tensor& A) {
  const IntList sizes = A.sizes().subspan(0, A.dim() - 1);
  return IntVector(sizes.begin(), sizes.end());
}

// The smallest of info's numbers decides what is said: an element that is not finite, of whichever matrix, goes first.
void decompose(const char* name, const Tensor& A, const Tensor& values, const Tensor* vectors) {
  const IntList batch = linalg::batch_sizes(A);
  const Tensor info = empty_tensor(batch, {}, DType::kInt32, A.device());
  if (info.numel() == 0) return;
  const Tensor from = linalg::dense_batch(A, batch);
  cpu::MatrixBatch into{};
  if (vectors) into = linalg::matrices(*vectors);
  TESSERA_ON(A.device(), run_eig)
  (A.dtype(), linalg::matrices(from), values.data_ptr(), vectors ? &into : nullptr,
   static_cast<int32_t*>(info.data_ptr()));
  const Tensor host = info.to(Device(), DType::kInt32);
  const int32_t* numbers = host.data<int32_t>();
  for (int64_t i = 0; i < host.numel(); ++i)
    TESSERA_CHECK(numbers[i] >= 0, name, ": input tensor should not contain infs or NaNs.");
  linalg::check_errors(host, name, A.dim() == 2);
}

}  // namespace

std::array<OutputSpec, 2> linalg_eig_meta(const Tensor& self) {
  linalg::check_square("linalg.eig", self);
  const DType dtype = to_complex(self.dtype());
  return {OutputSpec(values_shape(self), dtype, self.device()), OutputSpec(self.sizes(), dtype, self.device())};
}
void linalg_eig_kernel(const Tensor& self, const Tensor& eigenvalues, const Tensor& eigenvectors) {
  const ResultMemory values(eigenvalues), vectors = linalg::dense_result(eigenvectors);
  decompose("torch.linalg.eig", self, values.tensor(), &vectors.tensor());
  values.finish();
  vectors.finish();
}

OutputSpec _linalg_eigvals_meta(const Tensor& self) {
  linalg::check_square("linalg.eigvals", self);
  return OutputSpec(values_shape(self), to_complex(self.dtype()), self.device());
}
void _linalg_eigvals_kernel(const Tensor& self, const Tensor& out) {
  const ResultMemory values(out);
  decompose("torch.linalg.eigvals", self, values.tensor(), nullptr);
  values.finish();
}

}  // namespace tessera::kernels
