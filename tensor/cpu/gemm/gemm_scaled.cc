#include "tensor/cpu/gemm/gemm_scaled.h"
#include "tensor/cpu/pointwise/pointwise.h"

#include <memory>

namespace tessera::cpu {
namespace {

// A contiguous float32 copy, row-major.
std::unique_ptr<float[]> floats_of(int64_t rows, int64_t cols, const MatrixRef& x, DType t) {
  std::unique_ptr<float[]> r(new float[static_cast<size_t>(rows * cols)]);
  const int64_t shape[2] = {rows, cols}, to[2] = {cols * 4, 4},
                from[2] = {x.row_stride * item_size(t), x.col_stride * item_size(t)};
  copy_strided(shape, Operand{r.get(), DType::kFloat32, to}, Operand{x.data, t, from});
  return r;
}
KernelParam number(double v) {
  KernelParam p;
  p.f = v;
  return p;
}

}  // namespace

void gemm_scaled(const ScaledProduct& p) {
  const auto a = floats_of(p.m, p.k, p.a, p.a_type), b = floats_of(p.k, p.n, p.b, p.b_type);
  const std::unique_ptr<float[]> c(new float[static_cast<size_t>(p.m * p.n)]);
  gemm(DType::kFloat32, p.m, p.n, p.k, number(1), {a.get(), p.k, 1}, {b.get(), p.n, 1}, number(0), {c.get(), p.n, 1});
  const auto bias = p.bias ? floats_of(1, p.n, {const_cast<void*>(p.bias), 0, 1}, p.bias_type) : nullptr;
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j) {
      float& v = c[static_cast<size_t>(i * p.n + j)];
      v *= p.scale_a[p.by_lines ? i : 0] * p.scale_b[p.by_lines ? j : 0];
      if (bias) v += bias[static_cast<size_t>(j)];
      if (p.scale_result && is_float8(p.c_type)) v *= *p.scale_result;
    }
  const int64_t shape[1] = {p.m * p.n}, to[1] = {item_size(p.c_type)}, from[1] = {4};
  copy_strided(shape, Operand{p.c, p.c_type, to}, Operand{c.get(), DType::kFloat32, from});
}

}  // namespace tessera::cpu
