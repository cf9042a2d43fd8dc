// _int_mm: the product of matrices of bytes, in int32.
#include <algorithm>

#include "tensor/cpu/gemm/gemm_int8.h"
#include "tensor/engine/gemm.h"
#include "tensor/ops/api.h"
#include "tensor/ops/create_kernels.h"
#include "tensor/ops/matmul_kernels.h"
#include "tensor/ops/pointwise.h"
#include "tensor/ops/promotion.h"

namespace tessera::kernels {
namespace {

cpu::MatrixRef matrix(const Tensor& t) { return {t.data_ptr(), t.strides()[0], t.strides()[1]}; }

}  // namespace

OutputSpec int_mm_meta(const Tensor& self, const Tensor& mat2) {
  TESSERA_CHECK(self.dim() == 2, "_int_mm: self must be a matrix, got ", self.dim(), "-D tensor");
  TESSERA_CHECK(mat2.dim() == 2, "_int_mm: mat2 must be a matrix, got ", mat2.dim(), "-D tensor");
  TESSERA_CHECK(self.sizes()[1] == mat2.sizes()[0], "_int_mm: mat1 and mat2 shapes cannot be multiplied (",
                self.sizes()[0], "x", self.sizes()[1], " and ", mat2.sizes()[0], "x", mat2.sizes()[1], ")");
  TESSERA_CHECK(self.dtype() == DType::kInt8 || self.dtype() == DType::kUInt8,
                "_int_mm: Expected self dtype to be int8 or uint8 but got ", name_of(self.dtype()));
  TESSERA_CHECK(mat2.dtype() == DType::kInt8, "_int_mm: Expected mat2 dtype to be of type int8 but got ",
                name_of(mat2.dtype()));
  const int64_t sizes[2] = {self.sizes()[0], mat2.sizes()[1]};
  return OutputSpec(IntList(sizes), DType::kInt32, common_device({&self, &mat2}));
}

namespace {

// By products of float32, which are exact as long as no sum can reach 2^24: so many elements of k at a time.
Tensor exact_product(const Tensor& a, const Tensor& b) {
  const int64_t most = (a.dtype() == DType::kUInt8 ? 255 : 128) * 128, depth = (int64_t{1} << 24) / most - 1;
  Tensor sum;
  for (int64_t p = 0; p < a.size(1); p += depth) {
    const int64_t n = std::min(depth, a.size(1) - p);
    const Tensor x = to(narrow(a, 1, p, n), DType::kFloat32), y = to(narrow(b, 0, p, n), DType::kFloat32);
    const Tensor part = to(mm(x, y), DType::kInt32);
    sum = sum.defined() ? add(sum, part) : part;
  }
  return sum;
}

}  // namespace

// Devices without products of bytes multiply in int32.
void int_mm_kernel(const Tensor& self, const Tensor& mat2, const Tensor& out) {
  if (out.numel() == 0) return;
  const int64_t m = out.sizes()[0], n = out.sizes()[1], k = self.sizes()[1];
  const bool is_unsigned = self.dtype() == DType::kUInt8;
  if (self.device().is_cpu() && k > 0) {
    if (!cpu::internal::gemm_int8({m, n, k, 1, 0, matrix(self), matrix(mat2), matrix(out), true, is_unsigned}))
      copy__kernel(out, exact_product(self, mat2), false);
    return;
  }
  if (!self.device().is_cpu() && GemmEngines::of(self.device().type).gemm_int8)
    return engine<GemmInt8>(self.device(), nullptr, &GemmEngines::gemm_int8, "gemm_int8")(
        m, n, k, matrix(self), is_unsigned, matrix(mat2), matrix(out));
  const Tensor a = self.to(DType::kInt32), b = mat2.to(DType::kInt32);
  TESSERA_ON(self.device(), gemm)
  (DType::kInt32, m, n, k, pointwise::to_param(1, DType::kInt32), matrix(a), matrix(b),
   pointwise::to_param(0, DType::kInt32), matrix(out), false, false);
}

}  // namespace tessera::kernels
