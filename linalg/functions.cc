// Functions of matrices: shapes, checks, and what is made of other operators.
#include "linalg/functions_kernels.h"

#include "linalg/engine/functions.h"
#include "linalg/matrix.h"
#include "tensor/ops/create_kernels.h"

namespace tessera::kernels {

OutputSpec linalg_matrix_exp_meta(const Tensor& self) {
  linalg::check_square("linalg.matrix_exp", self);
  return OutputSpec(self.sizes(), self.dtype(), self.device());
}

void linalg_matrix_exp_kernel(const Tensor& self, const Tensor& out) {
  const ResultMemory result = linalg::dense_result(out);
  copy__kernel(result.tensor(), self, false);
  if (self.numel() > 0) TESSERA_ON(self.device(), run_matrix_exp)(self.dtype(), linalg::matrices(result.tensor()));
  result.finish();
}

}  // namespace tessera::kernels
