// Products with scales, in groups, with an activation.
#include "nn/product_extra.h"

#include "nn/nn_ops.h"
#include "nn/product_kernels.h"
#include "tensor/core/transforms.h"
#include "tensor/engine/gemm.h"
#include "tensor/ops/matmul_kernels.h"
#include "tensor/ops/pointwise.h"

namespace tessera::kernels {
namespace {

cpu::MatrixRef matrix(const Tensor& t) { return {t.data_ptr(), t.strides()[0], t.strides()[1]}; }

std::string listed(IntList v) {
  std::string s = "[";
  for (size_t i = 0; i < v.size(); ++i) s += (i ? ", " : "") + std::to_string(v[i]);
  return s + "]";
}

// One scale each, or one for each row and each column. Throws for all else.
bool scales_by_lines(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b) {
  const int64_t m = a.sizes()[0], n = b.sizes()[1];
  const auto is_scale = [](const Tensor& s) { return s.is_floating_point() && !is_float8(s.dtype()); };
  if (is_float8(a.dtype()) && is_float8(b.dtype()) && is_scale(scale_a) && is_scale(scale_b)) {
    if (scale_a.numel() == 1 && scale_b.numel() == 1) return false;
    const auto has_shape = [](const Tensor& s, int64_t rows, int64_t cols) {
      return s.dim() == 2 && s.sizes()[0] == rows && s.sizes()[1] == cols && s.is_contiguous();
    };
    if (has_shape(scale_a, m, 1) && has_shape(scale_b, 1, n)) return true;
  }
  const auto described = [](const char* matrix, const Tensor& x, const char* scale, const Tensor& s) {
    return std::string(matrix) + ".dtype()=" + type_name_of(x.dtype()) + ", " + scale +
           ".dtype()=" + type_name_of(s.dtype()) + ", " + scale + ".size()=" + listed(s.sizes());
  };
  TESSERA_CHECK_VALUE(false,
                      "Invalid scaling configuration.\n- For TensorWise scaling, a and b should be float8, scales "
                      "should be float and singletons.\n"
                      "- For RowWise scaling, a and b should be float8, scales should be float, scale_a should be (",
                      m, ", 1) and scale_b should be (1, ", n, "), and both should be contiguous.\nGot ",
                      described("mat_a", a, "scale_a", scale_a), ", scale_a.stride()=", listed(scale_a.strides()), ", ",
                      described("mat_b", b, "scale_b", scale_b), " and scale_b.stride()=", listed(scale_b.strides()));
  return false;
}

enum Recipe : int64_t { kTensorWise = 0, kRowWise = 1 };

// One kind of scale on both sides, of those that there are kernels for.
// The order in which scales lie: as they come, the one there is.
void check_swizzle(const char* name, IntList swizzle) {
  for (const int64_t s : swizzle)
    TESSERA_CHECK_VALUE(s == 0, "torch.", name, " only supports scales without swizzle (0), but got ", s);
}

void check_recipes(const char* name, const Tensor& a, const Tensor& b, TensorList scale_a, IntList recipe_a,
                   TensorList scale_b, IntList recipe_b, IntList contraction_dim, bool tensor_wise) {
  const auto same_dim = [](int64_t d, int64_t positive) { return d == positive || d == positive - 2; };
  TESSERA_CHECK_VALUE(contraction_dim.empty() || (contraction_dim.size() == 2 && same_dim(contraction_dim[0], 1) &&
                                                  same_dim(contraction_dim[1], 0)),
                      "torch.", name, " only supports contraction_dim=(1, 0)");
  const bool single = scale_a.size() == 1 && scale_b.size() == 1 && recipe_a.size() == 1 && recipe_b.size() == 1;
  TESSERA_CHECK_VALUE(
      single && recipe_a[0] == recipe_b[0] && (recipe_a[0] == kRowWise || (tensor_wise && recipe_a[0] == kTensorWise)),
      "Invalid scaling configuration for ", name, ": unsupported recipe(s). Got mat_a.dtype=", type_name_of(a.dtype()),
      ", mat_b.dtype=", type_name_of(b.dtype()), ", recipe_a.size()=", recipe_a.size(),
      ", recipe_b.size()=", recipe_b.size());
}

}  // namespace

Tensor _addmm_activation_kernel(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                                const Scalar& alpha, bool use_gelu) {
  const OutputSpec s = addmm_meta(self, mat1, mat2, beta, alpha);
  const Tensor out = empty_tensor(s.sizes, {}, s.dtype, s.device);
  if (out.is_meta() || out.numel() == 0) return use_gelu ? gelu(out) : relu(out);
  const bool plain = self.dim() == 1 && self.sizes()[0] == out.sizes()[1] && self.is_contiguous() && beta.equals(1.0) &&
                     out.is_floating_point() && !self.is_neg() && !mat1.is_neg() && !mat2.is_neg();
  if (!out.is_cpu() && plain && GemmEngines::of(out.device().type).gemm_bias) {
    GemmBias* const run = engine<GemmBias>(out.device(), nullptr, &GemmEngines::gemm_bias, "gemm_bias");
    if (run(out.dtype(), out.sizes()[0], out.sizes()[1], mat1.sizes()[1], pointwise::to_param(alpha, out.dtype()),
            matrix(mat1), matrix(mat2), self.data_ptr(), use_gelu ? GemmActivation::kTanhGelu : GemmActivation::kRelu,
            matrix(out)))
      return out;
  }
  addmm_kernel(self, mat1, mat2, beta, alpha, out);
  return use_gelu ? gelu(out) : relu(out);
}

Tensor _scaled_mm_kernel(const Tensor& self, const Tensor& mat2, const Tensor& scale_a, const Tensor& scale_b,
                         const Tensor& bias, const Tensor& scale_result, std::optional<DType> out_dtype,
                         bool use_fast_accum) {
  TESSERA_CHECK(self.dim() == 2, "_scaled_mm: self must be a matrix, got ", self.dim(), "-D tensor");
  TESSERA_CHECK(mat2.dim() == 2, "_scaled_mm: mat2 must be a matrix, got ", mat2.dim(), "-D tensor");
  const int64_t m = self.sizes()[0], k = self.sizes()[1], n = mat2.sizes()[1];
  TESSERA_CHECK(k == mat2.sizes()[0], "_scaled_mm: mat1 and mat2 shapes cannot be multiplied (", m, "x", k, " and ",
                mat2.sizes()[0], "x", n, ")");
  const bool by_lines = scales_by_lines(self, mat2, scale_a, scale_b);
  TESSERA_CHECK(!scale_result.defined() || scale_result.numel() == 1, "scale_result must be a float scalar");
  TESSERA_CHECK(!bias.defined() || bias.numel() == n, "Bias must be size ", n, " but got ", bias.numel());
  const DType t = out_dtype.value_or(self.dtype());
  TESSERA_CHECK(is_float8(t) || is_reduced_float(t) || t == DType::kFloat32,
                "_scaled_mm: the result must be of an 8-bit or 16-bit floating dtype or float32, but got ", name_of(t));
  const Tensor out = empty_tensor(IntVector{m, n}, {}, t, self.device());
  if (out.is_meta() || out.numel() == 0) return out;
  const auto number = [](const Tensor& s) { return contiguous(to(s, DType::kFloat32)); };
  const Tensor a_scale = number(scale_a), b_scale = number(scale_b),
               result_scale = scale_result.defined() ? number(scale_result) : Tensor();
  const Tensor column = bias.defined() ? contiguous(bias) : Tensor();
  cpu::ScaledProduct p{.m = m,
                       .n = n,
                       .k = k,
                       .a_type = self.dtype(),
                       .b_type = mat2.dtype(),
                       .c_type = t,
                       .a = matrix(self),
                       .b = matrix(mat2),
                       .c = out.data_ptr(),
                       .scale_a = a_scale.data_ptr<float>(),
                       .scale_b = b_scale.data_ptr<float>(),
                       .by_lines = by_lines};
  if (column.defined()) {
    p.bias = column.data_ptr();
    p.bias_type = column.dtype();
  }
  if (result_scale.defined()) p.scale_result = result_scale.data_ptr<float>();
  p.fast_accumulation = use_fast_accum;
  TESSERA_ON(self.device(), gemm_scaled)(p);
  return out;
}

Tensor product_operand(const Tensor& t, const Tensor& other, DType out_dtype) {
  TESSERA_CHECK(t.dtype() == other.dtype(), "expected matrices of the same dtype, but got ", name_of(t.dtype()),
                " and ", name_of(other.dtype()));
  const bool half = t.dtype() == DType::kFloat16 || t.dtype() == DType::kBFloat16;
  TESSERA_CHECK(out_dtype == t.dtype() || (half && out_dtype == DType::kFloat32),
                "out_dtype must be the dtype of the matrices, or float32 for float16 and bfloat16, but got ",
                name_of(out_dtype), " for ", name_of(t.dtype()));
  return to(t, out_dtype);
}

Tensor product_addend(const Tensor& t, const Tensor& operand, DType out_dtype) {
  TESSERA_CHECK(t.dtype() == operand.dtype() || t.dtype() == out_dtype,
                "expected what is added to have the dtype of the matrices or out_dtype, but got ", name_of(t.dtype()));
  return to(t, out_dtype);
}

Tensor scaled_mm_by_recipe(const Tensor& self, const Tensor& mat2, TensorList scale_a, IntList recipe_a,
                           IntList swizzle_a, TensorList scale_b, IntList recipe_b, IntList swizzle_b,
                           const Tensor& bias, std::optional<DType> out_dtype, IntList contraction_dim,
                           bool use_fast_accum) {
  check_swizzle("_scaled_mm_v2", swizzle_a);
  check_swizzle("_scaled_mm_v2", swizzle_b);
  check_recipes("_scaled_mm_v2", self, mat2, scale_a, recipe_a, scale_b, recipe_b, contraction_dim, true);
  return _scaled_mm(self, mat2, scale_a[0], scale_b[0], bias, Tensor(), out_dtype, use_fast_accum);
}

// --- groups ---

namespace {

// How many products there are, and what of the operands belongs to each.
struct Groups {
  const Tensor &a, &b;
  std::vector<int64_t> ends;  // of the matrix that is cut; empty: both are batches
  bool rows = false, cols = false, inner = false;

  Groups(const Tensor& self, const Tensor& mat2, const Tensor& offs) : a(self), b(mat2) {
    TESSERA_CHECK(a.dim() == 2 || a.dim() == 3, "mat_a has to be 2 or 3d");
    TESSERA_CHECK(b.dim() == 2 || b.dim() == 3, "mat_b has to be 2 or 3d");
    const bool cut = a.dim() == 2 || b.dim() == 2;
    TESSERA_CHECK(offs.defined() == cut,
                  "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d");
    inner = a.dim() == 2 && b.dim() == 2;
    rows = a.dim() == 2 && !inner;
    cols = b.dim() == 2 && !inner;
    TESSERA_CHECK(inner || a.size(-1) == b.size(-2), "contraction dimension of mat_a and mat_b must match");
    if (!cut) {
      TESSERA_CHECK(a.sizes()[0] == b.sizes()[0], "batched dimension has to match");
      return;
    }
    TESSERA_CHECK(offs.dim() == 1, "offs has to be 1D");
    TESSERA_CHECK(offs.dtype() == DType::kInt32, "Offsets have to be int32");
    TESSERA_CHECK(inner || offs.numel() == (rows ? b : a).sizes()[0], "matrix batch sizes have to match");
    const Tensor known = with_one_value(contiguous(to(offs, Device(), DType::kInt64)));
    ends.assign(known.data<int64_t>(), known.data<int64_t>() + known.numel());
    int64_t last = 0;
    for (const int64_t end : ends) {
      TESSERA_CHECK(end >= last && end <= limit(), "expected offsets to be non-decreasing and not to exceed ", limit(),
                    ", but got ", end, " after ", last);
      last = end;
    }
  }
  int64_t limit() const { return rows ? a.sizes()[0] : cols ? b.sizes()[1] : a.sizes()[1]; }
  int64_t count() const {
    return ends.empty() && !rows && !cols && !inner ? a.sizes()[0] : static_cast<int64_t>(ends.size());
  }
  int64_t start(int64_t g) const { return g ? ends[static_cast<size_t>(g - 1)] : 0; }
  Tensor part(const Tensor& t, int64_t dim, int64_t g) const {
    return slice(t, dim, SymInt(start(g)), SymInt(ends[static_cast<size_t>(g)]), 1);
  }
  Tensor left(int64_t g) const { return a.dim() == 3 ? select(a, 0, g) : part(a, rows ? 0 : 1, g); }
  Tensor right(int64_t g) const { return b.dim() == 3 ? select(b, 0, g) : part(b, cols ? 1 : 0, g); }
  // The groups' products as one tensor; what lies behind the last group is 0.
  Tensor joined(std::vector<Tensor> products, DType dtype) const {
    if (!rows && !cols)
      return products.empty() ? zeros({0, a.size(-2), b.size(-1)}, dtype, std::nullopt, a.device()) : stack(products);
    const int64_t left_over = limit() - (ends.empty() ? 0 : ends.back());
    if (rows && (left_over || products.empty()))
      products.push_back(zeros({left_over, b.size(-1)}, dtype, std::nullopt, a.device()));
    if (cols && (left_over || products.empty()))
      products.push_back(zeros({a.size(-2), left_over}, dtype, std::nullopt, a.device()));
    return cat(products, rows ? 0 : 1);
  }
};

}  // namespace

Tensor grouped_mm_impl(const Tensor& self, const Tensor& mat2, const Tensor& offs, const Tensor& bias,
                       std::optional<DType> out_dtype) {
  TESSERA_CHECK(self.dtype() == mat2.dtype(), "Expected mat_a and mat_b to have the same dtype, but got ",
                name_of(self.dtype()), " and ", name_of(mat2.dtype()));
  const bool known = is_reduced_float(self.dtype()) || self.dtype() == DType::kFloat32;
  TESSERA_CHECK(known, "Expected mat_a to be Float32, BFloat16 or Float16 matrix got ", type_name_of(self.dtype()));
  TESSERA_CHECK(!bias.defined(), "Bias not supported yet");
  TESSERA_CHECK(!out_dtype || *out_dtype == self.dtype(), "Grouped gemm output dtype must match `mat_a` dtype");
  const Groups groups(self, mat2, offs);
  if (groups.ends.empty() && self.dim() == 3 && mat2.dim() == 3) return bmm(self, mat2);
  std::vector<Tensor> products;
  for (int64_t g = 0; g < groups.count(); ++g) products.push_back(mm(groups.left(g), groups.right(g)));
  return groups.joined(std::move(products), self.dtype());
}

Tensor scaled_grouped_mm_impl(const Tensor& self, const Tensor& mat2, const Tensor& scale_a, const Tensor& scale_b,
                              const Tensor& offs, const Tensor& bias, const Tensor& scale_result,
                              std::optional<DType> out_dtype, bool use_fast_accum) {
  TESSERA_CHECK(!bias.defined(), "Bias not supported yet");
  TESSERA_CHECK(!scale_result.defined(), "Scale result not supported yet");
  const DType t = out_dtype.value_or(DType::kBFloat16);
  TESSERA_CHECK(t == DType::kBFloat16, "Only bf16 high precision output types are supported for grouped gemm");
  TESSERA_CHECK(scale_a.dtype() == DType::kFloat32 && scale_b.dtype() == DType::kFloat32,
                "Both scale_a and scale_b must be float (fp32) tensors.");
  const Groups groups(self, mat2, offs);
  const int64_t count = groups.count(), m = self.size(-2), n = mat2.size(-1);
  // The scales of a group's rows (columns), which lie as the matrix does: cut, one row for each group, or, where the
  // inner dimension is cut, one group after the other.
  const auto scales = [&](const char* name, const Tensor& s, bool batched, bool cut, int64_t lines, int64_t g) {
    const bool flat = !batched;
    const int64_t want = cut ? lines : flat ? lines * count : lines;
    TESSERA_CHECK_VALUE(
        flat ? s.dim() == 1 && s.numel() == want : s.dim() == 2 && s.sizes()[0] == count && s.sizes()[1] == lines,
        "scale_", name, " does not fit the matrices: got shape ", shape_string(s.sizes()));
    return cut    ? groups.part(s, 0, g)
           : flat ? slice(s, 0, SymInt(g * lines), SymInt((g + 1) * lines), 1)
                  : select(s, 0, g);
  };
  std::vector<Tensor> products;
  for (int64_t g = 0; g < count; ++g) {
    const Tensor a_scale = contiguous(unsqueeze(scales("a", scale_a, self.dim() == 3, groups.rows, m, g), 1));
    const Tensor b_scale = contiguous(unsqueeze(scales("b", scale_b, mat2.dim() == 3, groups.cols, n, g), 0));
    products.push_back(
        _scaled_mm(groups.left(g), groups.right(g), a_scale, b_scale, Tensor(), Tensor(), t, use_fast_accum));
  }
  return groups.joined(std::move(products), t);
}

Tensor scaled_grouped_mm_by_recipe(const Tensor& self, const Tensor& mat2, TensorList scale_a, IntList recipe_a,
                                   IntList swizzle_a, TensorList scale_b, IntList recipe_b, IntList swizzle_b,
                                   const Tensor& offs, const Tensor& bias, std::optional<DType> out_dtype,
                                   IntList contraction_dim, bool use_fast_accum) {
  check_swizzle("_scaled_grouped_mm_v2", swizzle_a);
  check_swizzle("_scaled_grouped_mm_v2", swizzle_b);
  check_recipes("_scaled_grouped_mm_v2", self, mat2, scale_a, recipe_a, scale_b, recipe_b, contraction_dim, false);
  return _scaled_grouped_mm(self, mat2, scale_a[0], scale_b[0], offs, bias, Tensor(), out_dtype, use_fast_accum);
}

}  // namespace tessera::kernels
