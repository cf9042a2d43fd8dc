// Matrix products: checks and shapes; the work is done by tensor/cpu/gemm/gemm.h.
#include <algorithm>

#include "tensor/core/warning.h"
#include "tensor/cpu/gemm/gemm.h"
#include "tensor/engine/gemm.h"
#include "tensor/ops/api.h"
#include "tensor/ops/create_kernels.h"
#include "tensor/ops/matmul_extra.h"
#include "tensor/ops/matmul_kernels.h"
#include "tensor/ops/pointwise.h"
#include "tensor/ops/promotion.h"
#include "tensor/ops/result_memory.h"
#include "tensor/ops/structured.h"

namespace tessera::linalg {
// Of library //linalg, which depends on this one: null in programs without it.
[[gnu::weak]] Tensor inverse(const Tensor& A);
}  // namespace tessera::linalg

namespace tessera::kernels {
namespace {

void same_dtype(const Tensor& a, const Tensor& b, const char* what) {
  TESSERA_CHECK(a.dtype() == b.dtype(), what,
                ": expected m1 and m2 to have the same dtype, but got: ", name_of(a.dtype()),
                " != ", name_of(b.dtype()));
}
void has_product(const Tensor& t, const char* name) {
  TESSERA_CHECK_NOT_IMPLEMENTED(
      static_cast<int>(t.dtype()) < kNumComputeDTypes && t.dtype() != DType::kBool && t.dtype() != DType::kComplex32,
      "\"", name, "\" not implemented for '", type_name_of(t.dtype()), "'");
}

// Lazy negatives are rare: materialised. Conjugates go to the kernel.
Tensor without_neg(const Tensor& t) { return t.is_neg() ? resolve_neg(t) : t; }
cpu::MatrixRef matrix(const Tensor& t, int64_t row, int64_t col) {
  return {t.data_ptr(), t.strides()[row], t.strides()[col]};
}

// out = beta out + alpha a b. Strided, conjugated as they come.
void product(const Tensor& a0, const Tensor& b0, const Scalar& beta, const Scalar& alpha, const Tensor& out) {
  const Tensor a = without_neg(a0), b = without_neg(b0);
  const DType t = out.dtype();
  const ResultMemory target(out, !out.is_conj() && !out.is_neg(), {}, t);
  if (!beta.equals(0.0)) target.load();
  TESSERA_ON(a.device(), gemm)
  (t, out.sizes()[0], out.sizes()[1], a.sizes()[1], pointwise::to_param(alpha, t), matrix(a, 0, 1), matrix(b, 0, 1),
   pointwise::to_param(beta, t), matrix(target.tensor(), 0, 1), a.is_conj(), b.is_conj());
  target.finish();
}
void batched_product(const Tensor& a0, const Tensor& b0, const Scalar& beta, const Scalar& alpha, const Tensor& out) {
  const Tensor a = without_neg(a0), b = without_neg(b0);
  const DType t = out.dtype();
  TESSERA_ON(a.device(), gemm_batched)
  (t, out.sizes()[0], out.sizes()[1], out.sizes()[2], a.sizes()[2], pointwise::to_param(alpha, t), matrix(a, 1, 2),
   a.strides()[0], matrix(b, 1, 2), b.strides()[0], pointwise::to_param(beta, t), matrix(out, 1, 2), out.strides()[0],
   a.is_conj(), b.is_conj());
}

// What is added, in out already.
void start_from(const Tensor& out, const Tensor& self, const Scalar& beta) {
  if (!out.is_same(self) && !beta.equals(0.0)) copy__kernel(out, expand(self, out.sizes()), false);
}
// Products of integers drop the fraction of a factor.
void check_scalars(DType t, const Scalar& beta, const Scalar& alpha) {
  TESSERA_CHECK(is_complex(t) || (!beta.is_complex() && !alpha.is_complex()),
                "For non-complex input tensors, arguments alpha and beta must not be complex numbers.");
}
void expands_to(const Tensor& self, IntList sizes, const char* name) {
  bool ok = self.dim() <= static_cast<int64_t>(sizes.size());
  for (int64_t i = 0; ok && i < self.dim(); ++i) {
    const int64_t want = sizes[sizes.size() - 1 - static_cast<size_t>(i)], have = self.sizes()[self.dim() - 1 - i];
    ok = have == want || have == 1;
  }
  TESSERA_CHECK(ok, name, ": The expanded size of the tensor ", shape_string(sizes), " must match the existing size ",
                shape_string(self.sizes()));
}

}  // namespace

OutputSpec mm_meta(const Tensor& self, const Tensor& mat2) {
  TESSERA_CHECK(self.dim() == 2, "self must be a matrix");
  TESSERA_CHECK(mat2.dim() == 2, "mat2 must be a matrix");
  TESSERA_CHECK(self.sizes()[1] == mat2.sizes()[0], "mat1 and mat2 shapes cannot be multiplied (", self.sizes()[0], "x",
                self.sizes()[1], " and ", mat2.sizes()[0], "x", mat2.sizes()[1], ")");
  same_dtype(self, mat2, "mm");
  has_product(self, "addmm_impl_cpu_");
  const int64_t sizes[2] = {self.sizes()[0], mat2.sizes()[1]};
  return OutputSpec(IntList(sizes), self.dtype(), common_device({&self, &mat2}));
}
void mm_kernel(const Tensor& self, const Tensor& mat2, const Tensor& out) {
  if (out.numel()) product(self, mat2, 0, 1, out);
}

OutputSpec bmm_meta(const Tensor& self, const Tensor& mat2) {
  TESSERA_CHECK(self.dim() == 3, "batch1 must be a 3D tensor");
  TESSERA_CHECK(mat2.dim() == 3, "batch2 must be a 3D tensor");
  TESSERA_CHECK(self.sizes()[0] == mat2.sizes()[0] && self.sizes()[2] == mat2.sizes()[1],
                "Expected size for first two dimensions of batch2 tensor to be: [", self.sizes()[0], ", ",
                self.sizes()[2], "] but got: [", mat2.sizes()[0], ", ", mat2.sizes()[1], "].");
  same_dtype(self, mat2, "bmm");
  has_product(self, "bmm");
  const int64_t sizes[3] = {self.sizes()[0], self.sizes()[1], mat2.sizes()[2]};
  return OutputSpec(IntList(sizes), self.dtype(), common_device({&self, &mat2}));
}
void bmm_kernel(const Tensor& self, const Tensor& mat2, const Tensor& out) {
  if (out.numel()) batched_product(self, mat2, 0, 1, out);
}

OutputSpec mv_meta(const Tensor& self, const Tensor& vec) {
  TESSERA_CHECK(self.dim() == 2 && vec.dim() == 1, "vector + matrix @ vector expected, got 1, ", self.dim(), ", ",
                vec.dim());
  TESSERA_CHECK(self.sizes()[1] == vec.sizes()[0], "size mismatch, got input (", self.sizes()[0], "), mat (",
                self.sizes()[0], "x", self.sizes()[1], "), vec (", vec.sizes()[0], ")");
  same_dtype(self, vec, "mv");
  has_product(self, "addmv_impl_cpu");
  const int64_t sizes[1] = {self.sizes()[0]};
  return OutputSpec(IntList(sizes), self.dtype(), common_device({&self, &vec}));
}
void mv_kernel(const Tensor& self, const Tensor& vec, const Tensor& out) {
  if (out.numel()) product(self, unsqueeze(vec, 1), 0, 1, unsqueeze(out, 1));
}

OutputSpec dot_meta(const Tensor& self, const Tensor& tensor) {
  TESSERA_CHECK(self.dim() == 1 && tensor.dim() == 1, "1D tensors expected, but got ", self.dim(), "D and ",
                tensor.dim(), "D tensors");
  TESSERA_CHECK(self.dtype() == tensor.dtype(), "dot : expected both vectors to have same dtype, but found ",
                type_name_of(self.dtype()), " and ", type_name_of(tensor.dtype()));
  TESSERA_CHECK(self.numel() == tensor.numel(), "inconsistent tensor size, expected tensor [", self.numel(),
                "] and src [", tensor.numel(), "] to have the same number of elements, but got ", self.numel(), " and ",
                tensor.numel(), " elements respectively");
  has_product(self, "dot");
  return OutputSpec(IntVector{}, {}, self.dtype(), common_device({&self, &tensor}));
}
void dot_kernel(const Tensor& self, const Tensor& tensor, const Tensor& out) {
  const Tensor a = resolve_neg(self), b = resolve_conj(resolve_neg(tensor));
  TESSERA_ON(self.device(), dot)
  (self.dtype(), a.numel(), a.data_ptr(), a.strides()[0], b.data_ptr(), b.strides()[0], a.is_conj(), out.data_ptr());
}
OutputSpec vdot_meta(const Tensor& self, const Tensor& other) { return dot_meta(self, other); }
void vdot_kernel(const Tensor& self, const Tensor& other, const Tensor& out) { dot_kernel(conj(self), other, out); }

// --- products added ---

OutputSpec addmm_meta(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                      const Scalar& alpha) {
  TESSERA_CHECK(mat1.dim() == 2, "mat1 must be a matrix, got ", mat1.dim(), "-D tensor");
  TESSERA_CHECK(mat2.dim() == 2, "mat2 must be a matrix, got ", mat2.dim(), "-D tensor");
  const OutputSpec s = mm_meta(mat1, mat2);
  TESSERA_CHECK(self.dtype() == mat1.dtype(), "self and mat2 must have the same dtype, but got ",
                type_name_of(self.dtype()), " and ", type_name_of(mat2.dtype()));
  expands_to(self, s.sizes, "addmm");
  check_scalars(s.dtype, beta, alpha);
  return s;
}
namespace {
// A bias in the product's own epilogue, where the device's library has that.
bool biased_product(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta, const Scalar& alpha,
                    const Tensor& out) {
  if (out.is_cpu() || self.dim() != 1 || self.sizes()[0] != out.sizes()[1] || !self.is_contiguous() ||
      !beta.equals(1.0) || !out.is_floating_point())
    return false;
  if (self.is_neg() || mat1.is_neg() || mat2.is_neg() || out.is_neg() || !GemmEngines::of(out.device().type).gemm_bias)
    return false;
  GemmBias* const run = engine<GemmBias>(out.device(), nullptr, &GemmEngines::gemm_bias, "gemm_bias");
  return run(out.dtype(), out.sizes()[0], out.sizes()[1], mat1.sizes()[1], pointwise::to_param(alpha, out.dtype()),
             matrix(mat1, 0, 1), matrix(mat2, 0, 1), self.data_ptr(), GemmActivation::kNone, matrix(out, 0, 1));
}
}  // namespace
void addmm_kernel(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta, const Scalar& alpha,
                  const Tensor& out) {
  if (out.numel() == 0 || biased_product(self, mat1, mat2, beta, alpha, out)) return;
  start_from(out, self, beta);
  product(mat1, mat2, beta, alpha, out);
}
OutputSpec addmv_meta(const Tensor& self, const Tensor& mat, const Tensor& vec, const Scalar& beta,
                      const Scalar& alpha) {
  const OutputSpec s = mv_meta(mat, vec);
  expands_to(self, s.sizes, "addmv");  // of any dtype: the result has that of the product
  check_scalars(s.dtype, beta, alpha);
  return s;
}
void addmv_kernel(const Tensor& self, const Tensor& mat, const Tensor& vec, const Scalar& beta, const Scalar& alpha,
                  const Tensor& out) {
  if (out.numel() == 0) return;
  start_from(out, self, beta);
  product(mat, unsqueeze(vec, 1), beta, alpha, unsqueeze(out, 1));
}
OutputSpec baddbmm_meta(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
                        const Scalar& alpha) {
  const OutputSpec s = bmm_meta(batch1, batch2);
  TESSERA_CHECK(self.dtype() == batch1.dtype(), "Input dtypes must be the same, got: input ", name_of(self.dtype()),
                ", batch1: ", name_of(batch1.dtype()), ", batch2: ", name_of(batch2.dtype()));
  expands_to(self, s.sizes, "baddbmm");
  check_scalars(s.dtype, beta, alpha);
  return s;
}
void baddbmm_kernel(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
                    const Scalar& alpha, const Tensor& out) {
  if (out.numel() == 0) return;
  start_from(out, self, beta);
  batched_product(batch1, batch2, beta, alpha, out);
}
OutputSpec addr_meta(const Tensor& self, const Tensor& vec1, const Tensor& vec2, const Scalar& beta,
                     const Scalar& alpha) {
  TESSERA_CHECK(vec1.dim() == 1 && vec2.dim() == 1, "addr: Expected 1-D vectors, but got ", vec1.dim(), "-D and ",
                vec2.dim(), "-D");
  const int64_t sizes[2] = {vec1.numel(), vec2.numel()};
  expands_to(self, sizes, "addr");
  const Tensor all[3] = {self, vec1, vec2};
  const DType t = result_type(all);
  for (const auto& [factor, name] : {std::pair(&beta, "beta"), std::pair(&alpha, "alpha")}) {
    TESSERA_CHECK(!factor->is_bool() || t == DType::kBool, "Boolean ", name, " only supported for Boolean results.");
    TESSERA_CHECK(!is_integral(t, true) || factor->is_integral(true), "For integral input tensors, argument ", name,
                  " must not be a floating point number.");
  }
  check_scalars(t, beta, alpha);
  return OutputSpec(IntList(sizes), t, common_device({&self, &vec1, &vec2}));
}
void addr_kernel(const Tensor& self, const Tensor& vec1, const Tensor& vec2, const Scalar& beta, const Scalar& alpha,
                 const Tensor& out) {
  const Tensor product = mul(mul(unsqueeze(vec1, 1), unsqueeze(vec2, 0)), alpha);
  copy__kernel(out, beta.equals(0.0) ? product : add(mul(self, beta), product), false);
}
Tensor addbmm_impl(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
                   const Scalar& alpha) {
  TESSERA_CHECK(batch1.dim() == 3 && batch2.dim() == 3, "batch1 and batch2 must be 3D tensors, got ", batch1.dim(),
                "-D and ", batch2.dim(), "-D");
  TESSERA_CHECK(batch1.sizes()[0] == batch2.sizes()[0], "batch1 and batch2 must have same number of batches, got ",
                batch1.sizes()[0], " and ", batch2.sizes()[0]);
  // The batch lies side by side: one product of (n, b m) and (b m, p).
  const IntList a = batch1.sizes(), b = batch2.sizes();
  const Tensor left = reshape(permute(batch1, IntVector{1, 0, 2}), {a[1], checked_numel(IntVector{a[0], a[2]})});
  const Tensor right = reshape(batch2, {checked_numel(IntVector{b[0], b[1]}), b[2]});
  return addmm(self, left, right, beta, alpha);
}
// Unlike other in-place operators it lets self grow: a row, or a number, becomes the whole sum.
void addbmm_inplace(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
                    const Scalar& alpha) {
  const Tensor result = addbmm_impl(self, batch1, batch2, beta, alpha);
  if (!std::ranges::equal(self.sizes(), result.sizes())) resize_(self, result.sizes());
  structured::store_inplace(self, result);
}

// --- compositions ---

Tensor outer_impl(const Tensor& self, const Tensor& vec2) {
  TESSERA_CHECK(self.dim() == 1, "outer: Expected 1-D argument self, but got ", self.dim(), "-D");
  TESSERA_CHECK(vec2.dim() == 1, "outer: Expected 1-D argument vec2, but got ", vec2.dim(), "-D");
  return mul(unsqueeze(self, 1), unsqueeze(vec2, 0));
}
Tensor inner_impl(const Tensor& self, const Tensor& other) {
  if (self.dim() == 0 || other.dim() == 0) return mul(self, other);
  TESSERA_CHECK(self.sizes().back() == other.sizes().back(),
                "inner() the last dimension must match on both input tensors but got shapes ",
                shape_string(self.sizes()), " and ", shape_string(other.sizes()));
  return tensordot(self, other, IntVector{-1}, IntVector{-1});
}

namespace {
// Batches of matrices with broadcasting.
Tensor matmul_batches(const Tensor& a, const Tensor& b) {
  const int64_t n = a.size(-2), k = a.size(-1), m = b.size(-1);
  // One matrix for a whole batch of rows: a single product.
  if (b.dim() == 2) {
    IntVector sizes(a.sizes().begin(), a.sizes().end() - 1);
    const int64_t rows = checked_numel(sizes);
    sizes.push_back(m);
    return view(mm(reshape(a, {rows, k}), b), sizes);
  }
  // The layouts with members cannot be expanded: the batch lies side by side.
  if (a.dim() == 2 && a.layout() != Layout::kStrided) {
    IntVector sizes(b.sizes().begin(), b.sizes().end() - 2);
    sizes.push_back(m);
    const Tensor rows = reshape(transpose(b, -2, -1), {checked_numel(sizes), k});
    sizes.push_back(n);
    return transpose(reshape(transpose(mm(a, transpose(rows, 0, 1)), 0, 1), sizes), -2, -1);
  }
  const IntVector batch =
      infer_broadcast(IntList(a.sizes().data(), a.sizes().size() - 2), IntList(b.sizes().data(), b.sizes().size() - 2));
  const int64_t count = checked_numel(batch);
  auto batched = [&](const Tensor& t, int64_t rows, int64_t cols) {
    IntVector sizes = batch;
    sizes.insert(sizes.end(), {rows, cols});
    const int64_t flat[3] = {count, rows, cols};
    return reshape(expand(t, sizes), IntList(flat));
  };
  IntVector out = batch;
  out.insert(out.end(), {n, m});
  return view(bmm(batched(a, n, k), batched(b, k, m)), out);
}
}  // namespace

Tensor matmul_composite(const Tensor& self, const Tensor& other) {
  TESSERA_CHECK(self.dim() != 0 && other.dim() != 0, "both arguments to matmul need to be at least 1D, but they are ",
                self.dim(), "D and ", other.dim(), "D");
  if (self.dim() == 1 && other.dim() == 1) return dot(self, other);
  if (self.dim() == 2 && other.dim() == 1) return mv(self, other);
  if (self.dim() == 1 && other.dim() == 2) return squeeze(mm(unsqueeze(self, 0), other), 0);
  if (self.dim() == 2 && other.dim() == 2) return mm(self, other);
  TESSERA_CHECK(self.dtype() == other.dtype(),
                "expected m1 and m2 to have the same dtype, but got: ", name_of(self.dtype()),
                " != ", name_of(other.dtype()));
  const Tensor a = self.dim() == 1 ? unsqueeze(self, 0) : self, b = other.dim() == 1 ? unsqueeze(other, 1) : other;
  TESSERA_CHECK(a.size(-1) == b.size(-2), "mat1 and mat2 shapes cannot be multiplied (", shape_string(self.sizes()),
                " and ", shape_string(other.sizes()), ")");
  const Tensor r = matmul_batches(a, b);
  return self.dim() == 1 ? squeeze(r, -2) : other.dim() == 1 ? squeeze(r, -1) : r;
}

Tensor tensordot_impl(const Tensor& self, const Tensor& other, IntList dims_self, IntList dims_other) {
  TESSERA_CHECK(dims_self.size() == dims_other.size(), "both dimension lists should have the same length, got ",
                dims_self.size(), " and ", dims_other.size());
  TESSERA_CHECK(self.dtype() == other.dtype(), "tensordot: both inputs should have same dtype, got ",
                name_of(self.dtype()), " and ", name_of(other.dtype()));
  Tensor a = self, b = other;
  uint64_t used_a = 0, used_b = 0;
  int64_t n = 1;
  IntVector from_a, from_b;
  for (size_t i = 0; i < dims_self.size(); ++i) {
    const int64_t x = wrap_dim(dims_self[i], self.dim()), y = wrap_dim(dims_other[i], other.dim());
    TESSERA_CHECK(!(used_a >> x & 1) && !(used_b >> y & 1), "dim ", x, " appears multiple times in the list of dims");
    used_a |= uint64_t{1} << x;
    used_b |= uint64_t{1} << y;
    const int64_t sa = a.size(x), sb = b.size(y);
    TESSERA_CHECK(sa == sb || sa == 1 || sb == 1, "contracted dimensions need to match, but first has size ", sa,
                  " in dim ", x, " and second has size ", sb, " in dim ", y);
    if (sb == 1 && sa != 1) a = sum(a, IntVector{x}, true, a.dtype());
    if (sa == 1 && sb != 1) b = sum(b, IntVector{y}, true, b.dtype());
    n *= a.size(x);
    from_a.push_back(x);
    from_b.push_back(y);
  }
  IntVector order_a, order_b, result;
  for (int64_t d = 0; d < a.dim(); ++d)
    if (!(used_a >> d & 1)) {
      order_a.push_back(d);
      result.push_back(a.sizes()[d]);
    }
  const int64_t rows = checked_numel(result);
  order_a.insert(order_a.end(), from_a.begin(), from_a.end());
  order_b = from_b;
  int64_t cols = 1;
  for (int64_t d = 0; d < b.dim(); ++d)
    if (!(used_b >> d & 1)) {
      order_b.push_back(d);
      result.push_back(b.sizes()[d]);
      cols *= b.sizes()[d];
    }
  return reshape(mm(reshape(permute(a, order_a), {rows, n}), reshape(permute(b, order_b), {n, cols})), result);
}

Tensor multi_dot_impl(TensorList tensors) {
  const size_t n = tensors.size();
  TESSERA_CHECK(n >= 2, "multi_dot(): expected at least 2 tensors but got ", n);
  std::vector<Tensor> m(tensors.begin(), tensors.end());
  const bool row = m.front().dim() == 1, col = m.back().dim() == 1;
  if (row) m.front() = unsqueeze(m.front(), 0);
  if (col) m.back() = unsqueeze(m.back(), 1);
  for (size_t i = 0; i < n; ++i) {
    const std::string which = i == 0 ? "the first tensor" : i + 1 == n ? "the last tensor" : str_cat("tensor ", i);
    TESSERA_CHECK(m[i].dim() == 2, "multi_dot(): ", which, " must be ", i == 0 || i + 1 == n ? "1D or 2D" : "2D",
                  " but got ", tensors[i].dim(), "D");
    TESSERA_CHECK(m[i].dtype() == m[0].dtype(), "multi_dot(): all tensors must have be the same dtype but tensor 0 is ",
                  name_of(m[0].dtype()), " and tensor ", i, " ", name_of(m[i].dtype()));
    TESSERA_CHECK(i == 0 || m[i - 1].sizes()[1] == m[i].sizes()[0], "multi_dot(): tensors ", i - 1, " and ", i,
                  " with shapes ", shape_string(m[i - 1].sizes()), " and ", shape_string(m[i].sizes()),
                  " cannot be multiplied");
  }
  // The textbook recurrence (Cormen et al., Introduction to Algorithms, matrix-chain multiplication).
  std::vector<std::vector<double>> cost(n, std::vector<double>(n, 0.0));
  std::vector<std::vector<size_t>> cut(n, std::vector<size_t>(n, 0));
  auto dim_at = [&](size_t i) { return static_cast<double>(i < n ? m[i].sizes()[0] : m[n - 1].sizes()[1]); };
  for (size_t len = 1; len < n; ++len) {
    for (size_t i = 0; i + len < n; ++i) {
      const size_t j = i + len;
      cost[i][j] = 1e300;
      for (size_t k = i; k < j; ++k) {
        const double c = cost[i][k] + cost[k + 1][j] + dim_at(i) * dim_at(k + 1) * dim_at(j + 1);
        if (c < cost[i][j]) {
          cost[i][j] = c;
          cut[i][j] = k;
        }
      }
    }
  }
  auto multiply = [&](auto&& again, size_t i, size_t j) -> Tensor {
    return i == j ? m[i] : mm(again(again, i, cut[i][j]), again(again, cut[i][j] + 1, j));
  };
  Tensor r = multiply(multiply, 0, n - 1);
  if (row && col) return reshape(r, {});
  return row ? squeeze(r, 0) : col ? squeeze(r, 1) : r;
}

Tensor chain_matmul_impl(TensorList matrices) {
  TESSERA_CHECK(!matrices.empty(), "chain_matmul(): Expected one or more matrices");
  for (const Tensor& m : matrices)
    TESSERA_CHECK(m.dim() == 2, "chain_matmul(): expected 2-D matrices, but tensor dimension is ", m.dim());
  warn_once(
      "torch.chain_matmul is deprecated and will be removed in a future release. Use torch.linalg.multi_dot, which "
      "accepts a list of two or more tensors rather than multiple parameters.");
  return matrices.size() == 1 ? matrices[0] : multi_dot_impl(matrices);
}

Tensor matrix_power_impl(const Tensor& self, int64_t n) {
  TESSERA_CHECK(self.dim() >= 2 && self.size(-1) == self.size(-2),
                "linalg.matrix_power: A must be batches of square matrices, but they are ", shape_string(self.sizes()));
  Tensor result, square = self;
  if (n < 0) {
    TESSERA_CHECK(linalg::inverse, "matrix_power: n = ", n, " needs the inverse, which library //linalg has: link it");
    square = linalg::inverse(self);
  }
  for (uint64_t k = n < 0 ? -static_cast<uint64_t>(n) : n; k > 0; k >>= 1) {
    if (k & 1) result = result.defined() ? matmul(result, square) : square;
    if (k > 1) square = matmul(square, square);
  }
  // The unit matrix, which has a history all the same.
  if (!result.defined()) return copy_(clone(self), eye(self.size(-1), self.dtype(), std::nullopt, self.device()));
  return result.is_same(self) ? clone(self) : result;
}

Tensor linear_composite(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  TESSERA_CHECK(weight.dim() == 2 || weight.dim() == 1, "linear: weight must be a vector or a matrix, got ",
                weight.dim(), "-D tensor");
  TESSERA_CHECK(input.dim() != 0, "both arguments to linear need to be at least 1D, but they are ", input.dim(),
                "D and ", weight.dim(), "D");
  if (input.dim() == 2 && weight.dim() == 2 && bias.defined()) return addmm(bias, input, t(weight));
  if (bias.defined() && weight.dim() == 2 && input.dim() > 2 && input.numel() > 0) {
    TESSERA_CHECK(input.sizes().back() == weight.sizes()[1], "mat1 and mat2 shapes cannot be multiplied (",
                  shape_string(input.sizes()), " and ", weight.sizes()[1], "x", weight.sizes()[0], ")");
    IntVector sizes(input.sizes().begin(), input.sizes().end() - 1);
    sizes.push_back(weight.sizes()[0]);
    return view(addmm(bias, reshape(input, {-1, input.sizes().back()}), t(weight)), sizes);
  }
  const Tensor r = matmul(input, t(weight));
  return bias.defined() ? add(r, bias) : r;
}

Tensor bilinear_impl(const Tensor& input1, const Tensor& input2, const Tensor& weight, const Tensor& bias) {
  TESSERA_CHECK(input1.dim() == input2.dim(), "bilinear(): input dimensions do not match: got ", input1.dim(), " and ",
                input2.dim());
  TESSERA_CHECK(weight.dim() == 3, "bilinear(): weight must have 3 dimensions, got ", weight.dim());
  for (int64_t i = 0; i + 1 < input1.dim(); ++i)
    TESSERA_CHECK(input1.sizes()[i] == input2.sizes()[i], "bilinear(): input batch dimensions do not match at dim ", i,
                  ": got ", input1.sizes()[i], " and ", input2.sizes()[i]);
  TESSERA_CHECK(input1.size(-1) == weight.size(1), "bilinear(): input1 size does not match weight size: got ",
                input1.size(-1), " but expected ", weight.size(1));
  TESSERA_CHECK(input2.size(-1) == weight.size(2), "bilinear(): input2 size does not match weight size: got ",
                input2.size(-1), " but expected ", weight.size(2));
  TESSERA_CHECK(!bias.defined() || bias.size(0) == weight.size(0),
                "bilinear(): bias size does not match weight size: got ", bias.size(0), " but expected ",
                weight.size(0));
  const int64_t out = weight.size(0), in1 = weight.size(1), in2 = weight.size(2);
  IntVector sizes(input1.sizes().begin(), input1.sizes().end() - 1);
  const int64_t rows = checked_numel(sizes);
  sizes.push_back(out);
  // (rows, in1) x (in1, out in2) -> (rows, out, in2), then dotted with input2.
  const Tensor first =
      reshape(mm(reshape(input1, {rows, in1}), reshape(permute(weight, IntVector{1, 0, 2}), {in1, out * in2})),
              {rows, out, in2});
  Tensor r = view(squeeze(bmm(first, unsqueeze(reshape(input2, {rows, in2}), 2)), 2), sizes);
  return bias.defined() ? add(r, bias) : r;
}

}  // namespace tessera::kernels
