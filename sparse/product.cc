// Products, and softmax over groups of elements.
#include <algorithm>

#include "sparse/all_ops.h"
#include "sparse/cpu/group.h"
#include "sparse/cpu/product.h"
#include "sparse/kernels.h"
#include "sparse/sparse_kernels.h"

namespace tessera::kernels {
namespace {

// The dtype in which a product is computed: half types in float, integers in int64.
DType compute_dtype(DType t, const char* op) {
  if (t == DType::kFloat16 || t == DType::kBFloat16) return DType::kFloat32;
  if (t == DType::kFloat32 || t == DType::kFloat64 || t == DType::kComplex64 || t == DType::kComplex128) return t;
  TESSERA_CHECK_NOT_IMPLEMENTED(t != DType::kBool && !is_complex(t) && !is_floating_point(t), "\"", op,
                                "\" not implemented for '", type_name_of(t), "'");
  return DType::kInt64;
}

cpu::RowsView view_of(const Rows& r) {
  return {r.pointers.data<int64_t>(), r.columns.data<int64_t>(), r.values.data_ptr(), r.height, r.width};
}

void check_product(const Tensor& a, const Tensor& b) {
  TESSERA_CHECK(a.size(-1) == b.size(0), "mat1 and mat2 shapes cannot be multiplied (", a.size(0), "x", a.size(-1),
                " and ", b.size(0), "x", b.size(-1), ")");
  TESSERA_CHECK(a.dtype() == b.dtype(), "expected m1 and m2 to have the same dtype, but got: ", name_of(a.dtype()),
                " != ", name_of(b.dtype()), "; mat1 dtype ", type_name_of(a.dtype()), " does not match mat2 dtype ",
                type_name_of(b.dtype()));
}

// Whether a matrix has a dense dimension: then it is multiplied as a dense one.
bool is_hybrid(const Tensor& t) { return is_sparse(t) && dense_dim_of(t) != 0; }

Tensor rows_times_dense(const Rows& a, const Tensor& b) {
  const DType given = b.dtype(), d = compute_dtype(given, "sparse_mm");
  Rows x = a;
  x.values = contiguous(to(a.values, d));
  const Tensor y = contiguous(to(resolve_neg(resolve_conj(b)), d)), r = empty_kernel(IntVector{a.height, b.size(1)}, d);
  check_places(cpu::multiply_rows(d, view_of(x), y.data_ptr(), b.size(1), r.data_ptr()), a.width);
  return to(r, given);
}

Tensor sparse_times_sparse(const Tensor& a, const Tensor& b) {
  const DType given = a.dtype(), one = compute_dtype(given, "sparse_matmul");
  const DType d = one == DType::kFloat32 ? DType::kFloat64 : one == DType::kComplex64 ? DType::kComplex128 : one;
  Rows x = rows_of(a), y = rows_of(b);
  x.values = contiguous(to(x.values, d));
  y.values = contiguous(to(y.values, d));
  const cpu::RowsResult r = cpu::multiply_sparse(d, view_of(x), view_of(y), y.width);
  const int64_t nnz = static_cast<int64_t>(r.columns.size());
  const Tensor pointers = empty_kernel(IntVector{x.height + 1}, DType::kInt64);
  const Tensor columns = empty_kernel(IntVector{nnz}, DType::kInt64), values = empty_kernel(IntVector{nnz}, d);
  std::ranges::copy(r.pointers, pointers.data<int64_t>());
  std::ranges::copy(r.columns, columns.data<int64_t>());
  std::ranges::copy(r.values, static_cast<char*>(values.data_ptr()));
  const IntVector sizes{x.height, y.width};
  if (!is_coo(a)) return make_compressed(Layout::kSparseCsr, sizes, pointers, columns, to(values, given));
  const std::vector<Tensor> both{expanded_pointers(pointers, nnz), columns};
  return make_coo(sizes, stack(both), to(values, given), true);
}

}  // namespace

Tensor product_any(const Tensor& a, const Tensor& b) {
  const bool vector = b.dim() == 1;
  TESSERA_CHECK(a.dim() == 2 && (b.dim() == 2 || vector), "sparse products are of matrices, but got tensors of ",
                a.dim(), " and ", b.dim(), " dimensions");
  check_product(a, b);
  if (is_hybrid(a) || is_hybrid(b)) return vector ? mv(dense_of(a), dense_of(b)) : mm(dense_of(a), dense_of(b));
  if (vector && is_sparse(b)) return product_any(a, dense_of(b));
  if (vector) return reshape(product_any(a, unsqueeze(b, 1)), {-1});
  if (a.is_meta()) {
    const IntVector sizes{a.size(0), b.size(1)};
    return is_sparse(a) && is_sparse(b)
               ? empty_sparse(is_coo(a) ? a.layout() : Layout::kSparseCsr, sizes, a.dtype(), a.device())
               : make_filled(sizes, Scalar(0), a.dtype(), a.device());
  }
  if (is_sparse(a) && is_sparse(b)) return sparse_times_sparse(a, b);
  if (is_sparse(a)) return rows_times_dense(rows_of(a, false, false), b);
  return contiguous(t(rows_times_dense(rows_of(b, true, false), t(a))));
}

Tensor _sparse_sparse_matmul_kernel(const Tensor& self, const Tensor& other) {
  TESSERA_CHECK(is_sparse(self) && is_sparse(other), "_sparse_sparse_matmul: expected two sparse matrices, but got ",
                shown(self.layout()), " and ", shown(other.layout()));
  return product_any(self, other);
}

Tensor sparse_product(const Tensor& a, const Tensor& b) {
  TESSERA_CHECK(a.dim() == 2 && b.dim() == 2, "sparse.mm: expected two matrices, but got ", a.dim(), "D and ", b.dim(),
                "D");
  if (is_sparse(a) && is_sparse(b)) return _sparse_sparse_matmul(a, b);
  if (!is_sparse(a) && !is_sparse(b)) return mm(a, b);
  return _sparse_addmm(make_filled(IntVector{a.size(0), b.size(1)}, Scalar(0), a.dtype(), a.device()), a, b, Scalar(0),
                       Scalar(1));
}

Tensor _sparse_addmm_kernel(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                            const Scalar& alpha) {
  return addmm(self, mat1, mat2, beta, alpha);
}

Tensor hspmm_kernel(const Tensor& mat1, const Tensor& mat2) {
  check_coo(mat1, "hspmm: Argument #2:");
  TESSERA_CHECK(!is_sparse(mat2) && mat1.dim() == 2 && mat2.dim() == 2 && sparse_dim_of(mat1) == 2,
                "hspmm: expected a sparse and a dense matrix");
  check_product(mat1, mat2);
  Rows a = rows_of(mat1);
  const int64_t* p = a.pointers.data<int64_t>();
  IntVector rows, begins{0};
  for (int64_t i = 0; i < a.height; ++i)
    if (p[i + 1] > p[i]) {
      rows.push_back(i);
      begins.push_back(p[i + 1]);
    }
  const int64_t n = static_cast<int64_t>(rows.size());
  const Tensor indices = empty_kernel(IntVector{1, n}, DType::kInt64);
  std::ranges::copy(rows, indices.data<int64_t>());
  a.pointers = empty_kernel(IntVector{n + 1}, DType::kInt64);
  std::ranges::copy(begins, a.pointers.data<int64_t>());
  a.height = n;
  return make_coo(IntVector{mat1.size(0), mat2.size(1)}, indices, rows_times_dense(a, mat2), true);
}

Tensor sspaddmm_kernel(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                       const Scalar& alpha) {
  check_coo(self, "sspaddmm: Argument #1:");
  const Tensor h = hspmm_kernel(mat1, mat2);  // rows
  TESSERA_CHECK(std::ranges::equal(self.sizes(), h.sizes()), "sspaddmm: Argument #1: Expected size ",
                shape_string(h.sizes()), ", got ", shape_string(self.sizes()));
  const int64_t n = nnz_of(h), width = h.size(1);
  const Tensor rows = reshape(expand(unsqueeze(select(members(h).compressed, 0, 0), 1), IntVector{n, width}), {-1});
  const Tensor columns = reshape(expand(unsqueeze(arange(Scalar(width), DType::kInt64), 0), IntVector{n, width}), {-1});
  const std::vector<Tensor> indices{members(self).compressed, stack(std::vector<Tensor>{rows, columns})};
  const std::vector<Tensor> values{to(mul(members(self).values, beta), self.dtype()),
                                   to(mul(reshape(members(h).values, {-1}), alpha), self.dtype())};
  return make_coo(self.sizes(), cat(indices, 1), cat(values), false);
}

Tensor sparse_sampled_addmm_kernel(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                                   const Scalar& alpha) {
  TESSERA_CHECK(self.layout() == Layout::kSparseCsr, "sampled_addmm: Expected self to have sparse csr layout, but got ",
                shown(self.layout()));
  TESSERA_CHECK(!is_sparse(mat1) && !is_sparse(mat2), "sampled_addmm: Expected mat1 and mat2 to have strided layout, ",
                "but got ", shown(mat1.layout()), " and ", shown(mat2.layout()));
  TESSERA_CHECK(self.dtype() == mat1.dtype() && mat1.dtype() == mat2.dtype(),
                "sampled_addmm: Expected mat1 and mat2 to ", "have the dtype of self, ", name_of(self.dtype()),
                ", but got ", name_of(mat1.dtype()), " and ", name_of(mat2.dtype()));
  const IntVector batch = part(mat1.sizes(), 0, std::max<int64_t>(mat1.dim() - 2, 0));
  if (self.dim() == 2 && mat1.dim() > 2 && mat2.dim() > 2) {  // the pattern serves each matrix of the batch
    const auto batched = [&](const Tensor& t) { return clone(expand(t, joined_sizes(batch, t.sizes()))); };
    const Members& m = members(self);
    const Tensor many = make_compressed(self.layout(), joined_sizes(batch, self.sizes()), batched(m.compressed),
                                        batched(m.plain), batched(m.values));
    return sparse_sampled_addmm_kernel(many, mat1, mat2, beta, alpha);
  }
  TESSERA_CHECK(mat1.dim() == self.dim() && mat2.dim() == self.dim() && self.dim() >= 2 && dense_dim_of(self) == 0 &&
                    batch == part(self.sizes(), 0, self.dim() - 2) && batch == part(mat2.sizes(), 0, self.dim() - 2) &&
                    mat1.size(-1) == mat2.size(-2) && mat1.size(-2) == self.size(-2) && mat2.size(-1) == self.size(-1),
                "sampled_addmm: shapes ", shape_string(mat1.sizes()), " and ", shape_string(mat2.sizes()),
                " do not give that of self, ", shape_string(self.sizes()));
  if (self.is_meta()) return copied(self);
  TESSERA_CHECK_NOT_IMPLEMENTED(self.is_floating_point() || self.is_complex(),
                                "\"sampled_addmm\" not implemented for '", type_name_of(self.dtype()), "'");
  Tensor products;
  if (self.dim() == 2 && (self.dtype() == DType::kFloat32 || self.dtype() == DType::kFloat64)) {
    const Rows r = rows_of(self);
    const Tensor a = contiguous(mat1), b = contiguous(t(mat2));
    products = empty_kernel(r.values.sizes(), self.dtype());
    cpu::sample_products(self.dtype(), view_of(r), a.data_ptr(), b.data_ptr(), mat1.size(1), products.data_ptr());
  } else {
    products = gathered(matmul(mat1, mat2), self);
  }
  const Tensor scaled = mul(products, alpha);
  return with_values(self, beta.equals(0.0) ? scaled : add(scaled, mul(members(self).values, beta)));
}

std::tuple<Tensor, Tensor> _sparse_mm_reduce_impl_kernel(const Tensor& self, const Tensor& other,
                                                         std::string_view reduce) {
  constexpr std::pair<std::string_view, cpu::Reduce> kNames[] = {{"sum", cpu::Reduce::kSum},
                                                                 {"mean", cpu::Reduce::kMean},
                                                                 {"amax", cpu::Reduce::kMax},
                                                                 {"amin", cpu::Reduce::kMin}};
  const auto* how = std::ranges::find_if(
      kNames, [&](const auto& p) { return p.first == reduce || (p.first[0] == 'a' && p.first.substr(1) == reduce); });
  TESSERA_CHECK(how != std::end(kNames), "reduce argument must be either sum, mean, amax or amin, got ", reduce);
  TESSERA_CHECK_NOT_IMPLEMENTED(self.layout() == Layout::kSparseCsr, "sparse.mm with reduce: expected a matrix of ",
                                "layout SparseCsr, but got ", shown(self.layout()));
  TESSERA_CHECK(!is_sparse(other) && self.dim() == 2 && other.dim() == 2,
                "sparse.mm with reduce: expected a sparse and ", "a dense matrix");
  check_product(self, other);
  TESSERA_CHECK_NOT_IMPLEMENTED(self.is_floating_point(), "\"sparse_mm_reduce\" not implemented for '",
                                type_name_of(self.dtype()), "'");
  const DType d = compute_dtype(self.dtype(), "sparse_mm_reduce");
  Rows a = rows_of(self);
  a.values = contiguous(to(a.values, d));
  const Tensor b = contiguous(to(other, d)), out = empty_kernel(IntVector{a.height, other.size(1)}, d);
  const bool choosing = how->second == cpu::Reduce::kMax || how->second == cpu::Reduce::kMin;
  const Tensor chosen = empty_kernel(choosing ? IntVector{a.height, other.size(1)} : IntVector{0}, DType::kInt64);
  cpu::reduce_rows(d, how->second, view_of(a), b.data_ptr(), other.size(1), out.data_ptr(),
                   choosing ? chosen.data<int64_t>() : nullptr);
  return {to(out, self.dtype()), chosen};
}

Tensor solved_sparse(const Tensor& a, const Tensor& b, bool left) {
  TESSERA_CHECK(left, "spsolve: only left=True, A X = B, is supported");
  TESSERA_CHECK(a.layout() == Layout::kSparseCsr && a.dim() == 2 && a.size(0) == a.size(1),
                "spsolve: expected A to be a square matrix of layout SparseCsr, but got ", shown(a.layout()),
                " of shape ", shape_string(a.sizes()));
  TESSERA_CHECK(!is_sparse(b) && (b.dim() == 1 || b.dim() == 2) && b.size(0) == a.size(0),
                "spsolve: expected B to be a ", "dense vector or matrix with ", a.size(0), " rows, but got shape ",
                shape_string(b.sizes()));
  throw NotImplementedError("spsolve: there is no sparse solver for the CPU; use linalg.solve(A.to_dense(), B)");
}

// --- softmax

namespace {

// softmax (y undefined) or its gradient for x, of a coalesced tensor's values along one dimension.
Tensor softmaxed(const Tensor& self, int64_t dim, bool log, const Tensor& x, const Tensor& y) {
  if (self.is_meta()) return clone(x);
  const Members& m = members(self);
  const int64_t d = wrap_dim(dim, self.dim());
  if (d >= m.sparse_dim) {
    const int64_t k = d - m.sparse_dim + 1;
    if (!y.defined()) return log ? log_softmax(x, k) : softmax(x, k);
    const int64_t dims[] = {k};
    return log ? sub(x, mul(exp(y), sum(x, IntList(dims), true))) : mul(sub(x, sum(mul(x, y), IntList(dims), true)), y);
  }
  const DType c = compute_dtype(x.dtype(), "softmax");
  IntVector others, sizes;
  std::vector<Tensor> rows;
  const Tensor n = numbers(m.compressed);
  for (int64_t k = 0; k < m.sparse_dim; ++k)
    if (k != d) {
      rows.push_back(select(n, 0, k));
      sizes.push_back(self.size(k));
    }
  const Tensor keys = rows.empty() ? make_filled(IntVector{n.size(1)}, Scalar(0), DType::kInt64, Device())
                                   : flat_places(stack(rows), sizes);
  const cpu::Groups g = cpu::group_keys(keys.data<int64_t>(), keys.numel(), std::max<int64_t>(1, checked_numel(sizes)));
  const Tensor in = contiguous(to(x, c)), result = y.defined() ? contiguous(to(y, c)) : y;
  const Tensor out = empty_kernel(in.sizes(), c);
  cpu::group_softmax(c, log, g.begins.data(), static_cast<int64_t>(g.keys.size()), g.order.get(),
                     product(in.sizes().subspan(1)), in.data_ptr(), y.defined() ? result.data_ptr() : nullptr,
                     out.data_ptr());
  return to(out, x.dtype());
}

Tensor softmax_of(const Tensor& self, int64_t dim, bool half_to_float, bool log) {
  check_coo(self, log ? "log_softmax" : "softmax");
  TESSERA_CHECK_NOT_IMPLEMENTED(self.is_floating_point(), "\"softmax\" not implemented for '",
                                type_name_of(self.dtype()), "'");
  TESSERA_CHECK(!half_to_float, "softmax with half to float conversion is not supported on CPU");
  const Tensor c = coalesced(self);
  return with_values(c, softmaxed(c, dim, log, members(c).values, Tensor()));
}

}  // namespace

Tensor _sparse_softmax_kernel(const Tensor& self, int64_t dim, bool half_to_float) {
  return softmax_of(self, dim, half_to_float, false);
}
Tensor _sparse_log_softmax_kernel(const Tensor& self, int64_t dim, bool half_to_float) {
  return softmax_of(self, dim, half_to_float, true);
}
Tensor _sparse_softmax_gradient_kernel(const Tensor& grad, const Tensor& output, int64_t dim, bool log) {
  check_coo(output, "softmax");
  const Tensor y = coalesced(output);
  return with_values(y, softmaxed(y, dim, log, members(masked_by(grad, y)).values, members(y).values));
}

}  // namespace tessera::kernels
