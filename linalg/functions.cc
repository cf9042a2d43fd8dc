// Functions of matrices: shapes, checks, and what is made of other operators.
#include "linalg/functions_kernels.h"

#include "linalg/engine/functions.h"
#include "linalg/matrix.h"
#include "tensor/ops/create_kernels.h"

namespace tessera::kernels {
namespace {

// What exponentials are computed in: half types in float32.
DType working_dtype(DType dtype) {
  if (item_size(to_real(dtype)) >= 4) return dtype;
  return is_complex(dtype) ? DType::kComplex64 : DType::kFloat32;
}

}  // namespace

OutputSpec linalg_matrix_exp_meta(const Tensor& self) {
  TESSERA_CHECK(self.is_floating_point() || self.is_complex(),
                "linalg.matrix_exp: Expected a floating point or complex tensor, but got ", name_of(self.dtype()));
  TESSERA_CHECK(self.dim() >= 2 && self.sizes()[self.dim() - 1] == self.sizes()[self.dim() - 2],
                "linalg.matrix_exp: A must be batches of square matrices, but got a tensor of ", self.dim(),
                " dimensions whose last ones are not equal; its shape must be (..., n, n) with at least 2 dimensions");
  return OutputSpec(self.sizes(), self.dtype(), self.device());
}

void linalg_matrix_exp_kernel(const Tensor& self, const Tensor& out) {
  const DType dtype = working_dtype(self.dtype());
  const ResultMemory result(out, linalg::is_dense_batch(out) && out.dtype() == dtype, {}, dtype);
  copy__kernel(result.tensor(), self, false);
  if (self.numel() > 0) TESSERA_ON(self.device(), run_matrix_exp)(dtype, linalg::matrices(result.tensor()));
  result.finish();
}

}  // namespace tessera::kernels
