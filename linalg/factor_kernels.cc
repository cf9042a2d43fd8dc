// The operators that factor, solve, invert and take determinants: shapes, checks, and memory for the engines.
#include "linalg/engine/factor.h"
#include "linalg/factor.h"
#include "linalg/factor_kernels.h"
#include "linalg/matrix.h"
#include "tensor/ops/api.h"
#include "tensor/ops/create_kernels.h"
#include "tensor/ops/index_extra.h"
#include "tensor/ops/index_kernels.h"

namespace tessera::kernels {
namespace {

using linalg::batch_sizes;
using linalg::Integers;
using linalg::matrices;
using linalg::taken;
using linalg::with_matrix;

int64_t rows_of(const Tensor& A) { return A.sizes()[A.dim() - 2]; }
int64_t cols_of(const Tensor& A) { return A.sizes()[A.dim() - 1]; }

// A number of the dtype and device of A.
Tensor number(int64_t x, const Tensor& A) { return full(SymIntList(), Scalar(x), A.dtype(), std::nullopt, A.device()); }

OutputSpec like(const Tensor& A, IntList sizes) { return OutputSpec(A, sizes); }
OutputSpec integers(const Tensor& A, IntList sizes) { return OutputSpec(sizes, DType::kInt32, A.device()); }
// The sizes of vectors of n elements, one for each matrix.
IntVector with_vector(IntList batch, int64_t n) {
  IntVector sizes(batch.begin(), batch.end());
  sizes.push_back(n);
  return sizes;
}

// The matrices of t for each of `batch`, without a copy where one matrix serves all.
Tensor for_batch(const Tensor& t, IntList batch) {
  const int64_t lacking = static_cast<int64_t>(batch.size()) - (t.dim() - 2);
  IntVector sizes(batch.begin(), batch.end()), strides(batch.size(), 0);
  for (int64_t d = 0; d < t.dim() - 2; ++d)
    if (t.sizes()[d] != 1) strides[d + lacking] = t.strides()[d];
  for (int64_t d = t.dim() - 2; d < t.dim(); ++d) {
    sizes.push_back(t.sizes()[d]);
    strides.push_back(t.strides()[d]);
  }
  return linalg::dense_batch(make_view(t, sizes, strides, t.storage_offset()), batch);
}

// Pivots of n rows for each of `batch`, one list after the other.
Tensor pivots_for_batch(const Tensor& pivots, IntList batch, int64_t n) {
  const IntVector sizes = with_vector(batch, n);
  if (pivots.is_contiguous() && std::equal(sizes.begin(), sizes.end(), pivots.sizes().begin(), pivots.sizes().end()))
    return pivots;
  const Tensor copy = empty_tensor(sizes, {}, DType::kInt32, pivots.device());
  copy__kernel(copy, pivots, false);
  return copy;
}

// Error unless A X = B (left), or X A = B, has matrices that fit.
void check_equation(const char* name, const Tensor& A, const Tensor& B, bool left,
                    Integers integers = Integers::kNoNumbers) {
  linalg::check_square(name, A, "A", integers);
  linalg::check_matrix(name, B, "B", integers);
  linalg::check_alike(name, A, B);
  TESSERA_CHECK(cols_of(A) == (left ? rows_of(B) : cols_of(B)), name,
                ": Incompatible shapes of A and B for the equation ", left ? "AX = B" : "XA = B", " (", rows_of(A), "x",
                cols_of(A), " and ", rows_of(B), "x", cols_of(B), ")");
}

// Error unless pivots are what a factorization of `matrix` gives.
void check_pivots(const char* name, const Tensor& matrix, const Tensor& pivots) {
  TESSERA_CHECK(pivots.dtype() == DType::kInt32, name,
                ": pivots should be a Tensor of scalar type torch.int32, but got ", name_of(pivots.dtype()));
  TESSERA_CHECK(pivots.device() == matrix.device(), name, ": Expected all tensors to be on the same device, but got ",
                matrix.device().str(), " and ", pivots.device().str());
  TESSERA_CHECK(pivots.dim() >= 1 && pivots.sizes().back() == rows_of(matrix), name,
                ": Number of pivots per batch should be same as the dimension of the matrix, but got pivots of shape ",
                shape_string(pivots.sizes()), " for matrices of ", rows_of(matrix), " rows");
  const IntList batch = pivots.sizes().subspan(0, pivots.dim() - 1), wanted = batch_sizes(matrix);
  TESSERA_CHECK(std::equal(batch.begin(), batch.end(), wanted.begin(), wanted.end()), name,
                ": batch dimensions of the factorization and its pivots should be the same, but got ",
                shape_string(wanted), " and ", shape_string(batch));
}

struct Factorization {
  Tensor LU, pivots;
};

// LU of A in `LU`, `pivots` and `info`, which all have A's batch. info may be undefined. Without `pivot`, which devices
// can do, every row stays where it is, and pivots are left alone.
Factorization factor_into(const Tensor& A, const Tensor& LU, const Tensor& pivots, const Tensor& info,
                          bool pivot = true) {
  const ResultMemory lu = linalg::dense_result(LU), p(pivots);
  const Tensor own_info = info.defined() ? Tensor() : empty_tensor(batch_sizes(A), {}, DType::kInt32, A.device());
  const ResultMemory i(info.defined() ? info : own_info);
  TESSERA_ON(A.device(), run_lu_factor)
  (A.dtype(), taken(A, lu.tensor()), pivot ? static_cast<int32_t*>(p.data()) : nullptr,
   static_cast<int32_t*>(i.data()));
  lu.finish();
  p.finish();
  i.finish();
  return {lu.tensor(), p.tensor()};
}

// Where the first zero of each diagonal is, from 1 on; or 0.
Tensor first_zeros(const Tensor& A) {
  const int64_t n = rows_of(A);
  const Tensor info = empty_tensor(batch_sizes(A), {}, DType::kInt32, Device()),
               is_zero = eq(diagonal(A, 0, -2, -1), 0).contiguous();
  int32_t* const places = info.data<int32_t>();
  std::fill_n(places, info.numel(), 0);
  const bool* const at = is_zero.data<bool>();
  for (int64_t b = 0; b < info.numel() && n > 0; ++b)
    if (const bool* const first = std::find(at + b * n, at + (b + 1) * n, true); first != at + (b + 1) * n)
      places[b] = static_cast<int32_t>(first - (at + b * n) + 1);
  return info;
}

// x = A^-1 B, or B A^-1.
void solve_to(const Factorization& f, const Tensor& B, const Tensor& x, bool left, bool adjoint) {
  if (x.numel() == 0) return;
  const IntList batch = batch_sizes(x);
  const Tensor lu = for_batch(f.LU, batch), pivots = pivots_for_batch(f.pivots, batch, rows_of(lu));
  const cpu::SystemForm form{left ? adjoint : !adjoint, adjoint};
  const cpu::MatrixBatch to = taken(B, x);
  TESSERA_ON(x.device(), run_lu_solve)
  (x.dtype(), matrices(lu), static_cast<const int32_t*>(pivots.data_ptr()), form, left ? to : transposed(to));
}

}  // namespace

// --- Cholesky

std::array<OutputSpec, 2> linalg_cholesky_ex_meta(const Tensor& self, bool, bool) {
  linalg::check_square("linalg.cholesky", self);
  return {like(self, self.sizes()), integers(self, batch_sizes(self))};
}
void linalg_cholesky_ex_kernel(const Tensor& self, bool upper, bool check_errors, const Tensor& L, const Tensor& info) {
  const ResultMemory l = linalg::dense_result(L), i(info);
  TESSERA_ON(self.device(), run_cholesky)
  (self.dtype(), taken(self, l.tensor(), true), upper, static_cast<int32_t*>(i.data()));
  l.finish();
  i.finish();
  if (check_errors) linalg::check_errors(info, "linalg.cholesky", self.dim() == 2);
}

OutputSpec cholesky_inverse_meta(const Tensor& self, bool) {
  linalg::check_square("cholesky_inverse", self, "A", Integers::kAsHalf);
  return like(self, self.sizes());
}
void cholesky_inverse_kernel(const Tensor& self, bool upper, const Tensor& out) {
  if (!self.is_cpu()) {
    copy__kernel(out, linalg::inverse_of_product(upper ? mH(self) : self), false);
    return;
  }
  linalg::check_errors(first_zeros(self), "cholesky_inverse", self.dim() == 2);
  const ResultMemory x = linalg::dense_result(out);
  cpu::run_cholesky_inverse(self.dtype(), taken(self, x.tensor(), true), upper);
  x.finish();
}

OutputSpec cholesky_solve_meta(const Tensor& self, const Tensor& input2, bool) {
  TESSERA_CHECK(self.dim() >= 2, "cholesky_solve: b should have at least 2 dimensions, but has ", self.dim(),
                " dimensions instead");
  TESSERA_CHECK(input2.dim() >= 2, "cholesky_solve: u should have at least 2 dimensions, but has ", input2.dim(),
                " dimensions instead");
  linalg::check_square("cholesky_solve", input2, "A", Integers::kAsHalf);
  linalg::check_alike("cholesky_solve", input2, self);
  TESSERA_CHECK(rows_of(input2) == rows_of(self), "Incompatible matrix sizes for cholesky_solve: each A matrix is ",
                rows_of(input2), " by ", rows_of(input2), " but each b matrix is ", rows_of(self), " by ",
                cols_of(self));
  return like(self, with_matrix(linalg::broadcast_batch(input2, self), rows_of(self), cols_of(self)));
}
void cholesky_solve_kernel(const Tensor& self, const Tensor& input2, bool upper, const Tensor& out) {
  const ResultMemory x = linalg::dense_result(out);
  if (out.numel() != 0) {
    const Tensor factor = for_batch(input2, batch_sizes(out));
    const cpu::MatrixBatch f = matrices(factor), b = taken(self, x.tensor());
    if (self.is_cpu())
      cpu::run_cholesky_solve(out.dtype(), f, upper, b);
    else
      for (const cpu::Triangle& t : cpu::triangles_of(out.dtype(), f, upper))
        TESSERA_ON(out.device(), run_triangular_solve)(out.dtype(), t.matrix, t.form, b);
  }
  x.finish();
}

// --- LU

std::array<OutputSpec, 3> linalg_lu_factor_ex_meta(const Tensor& A, bool pivot, bool) {
  linalg::check_matrix("linalg.lu_factor", A, "A", Integers::kAsHalf);
  TESSERA_CHECK(pivot || !A.is_cpu(),
                "linalg.lu_factor: LU without pivoting is not implemented on the CPU; call it with pivot=True");
  return {like(A, A.sizes()), integers(A, with_vector(batch_sizes(A), std::min(rows_of(A), cols_of(A)))),
          integers(A, batch_sizes(A))};
}
void linalg_lu_factor_ex_kernel(const Tensor& A, bool pivot, bool check_errors, const Tensor& LU, const Tensor& pivots,
                                const Tensor& info) {
  factor_into(A, LU, pivots, info, pivot);
  if (!pivot) {
    const int64_t size = pivots.sizes().back();
    copy__kernel(pivots, arange(Scalar(int64_t{1}), Scalar(size + 1), DType::kInt32, {}, A.device(), {}), false);
  }
  if (check_errors) linalg::check_errors(info, "linalg.lu_factor", A.dim() == 2);
}

std::array<OutputSpec, 3> lu_unpack_meta(const Tensor& LU_data, const Tensor& LU_pivots, bool unpack_data,
                                         bool unpack_pivots) {
  TESSERA_CHECK(LU_data.dim() >= 2,
                "torch.lu_unpack: The input tensor LU_data must have at least 2 dimensions, but got ", LU_data.dim());
  const int64_t m = rows_of(LU_data), n = cols_of(LU_data), k = std::min(m, n);
  if (unpack_pivots) {
    TESSERA_CHECK(LU_pivots.dtype() == DType::kInt32,
                  "torch.lu_unpack: LU_pivots is expected to be a tensor of torch.int32 dtype, but got ",
                  name_of(LU_pivots.dtype()), "; use what torch.linalg.lu_factor gives");
    const IntVector wanted = with_vector(batch_sizes(LU_data), k);
    TESSERA_CHECK(std::equal(wanted.begin(), wanted.end(), LU_pivots.sizes().begin(), LU_pivots.sizes().end()),
                  "torch.lu_unpack: Expected LU_pivots of shape ", shape_string(wanted), ", but got ",
                  shape_string(LU_pivots.sizes()));
  }
  const IntList batch = batch_sizes(LU_data);
  const IntVector none{0};
  return {like(LU_data, unpack_pivots ? with_matrix(batch, m, m) : none),
          like(LU_data, unpack_data ? with_matrix(batch, m, k) : none),
          like(LU_data, unpack_data ? with_matrix(batch, k, n) : none)};
}
void lu_unpack_kernel(const Tensor& LU_data, const Tensor& LU_pivots, bool unpack_data, bool unpack_pivots,
                      const Tensor& P, const Tensor& L, const Tensor& U) {
  const int64_t m = rows_of(LU_data), n = cols_of(LU_data), k = std::min(m, n);
  if (unpack_data) {
    // Results that stand where the data do come last.
    const bool is_apart = L.storage() != LU_data.storage();
    const Tensor lower = is_apart ? L : empty_tensor(L.sizes(), {}, L.dtype(), L.device());
    triangle_into(false, narrow(LU_data, -1, 0, k), -1, lower);
    const Tensor ones = diagonal(lower, 0, -2, -1);
    copy__kernel(ones, expand(number(1, ones), ones.sizes()), false);
    triangle_into(true, narrow(LU_data, -2, 0, k), 0, U);
    if (!is_apart) copy__kernel(L, lower, false);
  }
  if (!unpack_pivots) return;
  const IntList batch = batch_sizes(LU_data);
  const Tensor pivots = pivots_for_batch(LU_pivots, batch, k), zero = number(0, P);
  const Tensor order = empty_tensor(with_matrix(batch, 1, m), {}, DType::kInt64, P.device());
  int64_t count = 1;
  for (int64_t s : batch) count *= s;
  TESSERA_ON(P.device(), run_unpack_pivots)
  (static_cast<const int32_t*>(pivots.data_ptr()), count, k, m, static_cast<int64_t*>(order.data_ptr()));
  if (P.numel()) scatter_value_kernel(expand(zero, P.sizes()), -2, order, Scalar(1), P);
}

OutputSpec linalg_lu_solve_meta(const Tensor& LU, const Tensor& pivots, const Tensor& B, bool left, bool) {
  check_equation("linalg.lu_solve", LU, B, left);
  check_pivots("linalg.lu_solve", LU, pivots);
  return like(B, with_matrix(linalg::broadcast_batch(LU, B), rows_of(B), cols_of(B)));
}
void linalg_lu_solve_kernel(const Tensor& LU, const Tensor& pivots, const Tensor& B, bool left, bool adjoint,
                            const Tensor& out) {
  const ResultMemory x = linalg::dense_result(out);
  solve_to({LU, pivots}, B, x.tensor(), left, adjoint);
  x.finish();
}

// --- Equations

std::array<OutputSpec, 4> _linalg_solve_ex_meta(const Tensor& A, const Tensor& B, bool left, bool) {
  linalg::check_square("linalg.solve", A);
  const bool vector = linalg::is_vector(A.sizes(), B.sizes());
  TESSERA_CHECK(left || !vector,
                "linalg.solve: Vector broadcasting of the left hand side is not supported for left=False. In this case "
                "linalg.solve is equivalent to B / A.squeeze(-1)");
  const Tensor columns = vector ? unsqueeze(B, -1) : B;
  check_equation("linalg.solve", A, columns, left);
  const IntVector batch = linalg::broadcast_batch(A, columns);
  return {like(A, vector ? with_vector(batch, rows_of(A)) : with_matrix(batch, rows_of(columns), cols_of(columns))),
          like(A, A.sizes()), integers(A, with_vector(batch_sizes(A), rows_of(A))), integers(A, batch_sizes(A))};
}
void _linalg_solve_ex_kernel(const Tensor& A, const Tensor& B, bool left, bool check_errors, const Tensor& result,
                             const Tensor& LU, const Tensor& pivots, const Tensor& info) {
  const bool vector = linalg::is_vector(A.sizes(), B.sizes());
  const Tensor out = vector ? unsqueeze(result, -1) : result, columns = vector ? unsqueeze(B, -1) : B;
  const ResultMemory x = linalg::dense_result(out);
  const IntList own = batch_sizes(A), batch = batch_sizes(out);
  const bool is_one_batch = std::equal(own.begin(), own.end(), batch.begin(), batch.end());
  if (left && is_one_batch && out.numel() > 0 && A.storage() != x.tensor().storage()) {
    const ResultMemory lu = linalg::dense_result(LU), p(pivots), i(info);
    TESSERA_ON(A.device(), run_solve)
    (A.dtype(), taken(A, lu.tensor()), static_cast<int32_t*>(p.data()), static_cast<int32_t*>(i.data()),
     taken(columns, x.tensor()));
    for (const ResultMemory* m : {&lu, &p, &i}) m->finish();
  } else {
    solve_to(factor_into(A, LU, pivots, info), columns, x.tensor(), left, false);
  }
  x.finish();
  if (check_errors) linalg::check_errors(info, "linalg.solve", A.dim() == 2);
}

OutputSpec linalg_solve_triangular_meta(const Tensor& self, const Tensor& B, bool, bool left, bool) {
  check_equation("linalg.solve_triangular", self, B, left, Integers::kAsHalf);
  return like(B, with_matrix(linalg::broadcast_batch(self, B), rows_of(B), cols_of(B)));
}
void linalg_solve_triangular_kernel(const Tensor& self, const Tensor& B, bool upper, bool left, bool unitriangular,
                                    const Tensor& out) {
  const ResultMemory result = linalg::dense_result(out);
  if (out.numel() != 0) {
    const Tensor a = for_batch(self, batch_sizes(out));
    const cpu::MatrixBatch m = matrices(a), x = taken(B, result.tensor());
    TESSERA_ON(out.device(), run_triangular_solve)
    (out.dtype(), left ? m : transposed(m), {left ? upper : !upper, unitriangular, false}, left ? x : transposed(x));
  }
  result.finish();
}

// --- Inverses

std::array<OutputSpec, 2> linalg_inv_ex_meta(const Tensor& A, bool) {
  linalg::check_square("linalg.inv", A);
  return {like(A, A.sizes()), integers(A, batch_sizes(A))};
}
void linalg_inv_ex_kernel(const Tensor& A, bool check_errors, const Tensor& inverse, const Tensor& info) {
  const ResultMemory x = linalg::dense_result(inverse), i(info);
  TESSERA_ON(A.device(), run_inverse)(A.dtype(), taken(A, x.tensor()), static_cast<int32_t*>(i.data()));
  x.finish();
  i.finish();
  if (check_errors) linalg::check_errors(info, "linalg.inv", A.dim() == 2);
}

// --- Determinants

namespace {

void determinant_into(const Tensor& A, const Tensor& value, const Tensor& sign, const Tensor& logabs, const Tensor& LU,
                      const Tensor& pivots) {
  const Factorization f = factor_into(A, LU, pivots, Tensor());
  const ResultMemory v(value), s(sign), l(logabs);
  TESSERA_ON(A.device(), run_determinant)
  (A.dtype(), matrices(f.LU), static_cast<const int32_t*>(f.pivots.data_ptr()), {v.data(), s.data(), l.data()});
  for (const ResultMemory* m : {&v, &s, &l})
    if (m->tensor().defined()) m->finish();
}

}  // namespace

std::array<OutputSpec, 3> _linalg_det_meta(const Tensor& A) {
  linalg::check_square("linalg.det", A);
  return {like(A, batch_sizes(A)), like(A, A.sizes()), integers(A, with_vector(batch_sizes(A), rows_of(A)))};
}
void _linalg_det_kernel(const Tensor& A, const Tensor& result, const Tensor& LU, const Tensor& pivots) {
  determinant_into(A, result, Tensor(), Tensor(), LU, pivots);
}

std::array<OutputSpec, 4> _linalg_slogdet_meta(const Tensor& A) {
  linalg::check_square("linalg.slogdet", A);
  return {like(A, batch_sizes(A)), OutputSpec(batch_sizes(A), to_real(A.dtype()), A.device()), like(A, A.sizes()),
          integers(A, with_vector(batch_sizes(A), rows_of(A)))};
}
void _linalg_slogdet_kernel(const Tensor& A, const Tensor& sign, const Tensor& logabsdet, const Tensor& LU,
                            const Tensor& pivots) {
  determinant_into(A, Tensor(), sign, logabsdet, LU, pivots);
}

// --- Indefinite matrices

std::array<OutputSpec, 3> linalg_ldl_factor_ex_meta(const Tensor& self, bool, bool) {
  linalg::check_square("linalg.ldl_factor", self);
  return {like(self, self.sizes()), integers(self, with_vector(batch_sizes(self), rows_of(self))),
          integers(self, batch_sizes(self))};
}
void linalg_ldl_factor_ex_kernel(const Tensor& self, bool hermitian, bool check_errors, const Tensor& LD,
                                 const Tensor& pivots, const Tensor& info) {
  const ResultMemory ld = linalg::dense_result(LD), p(pivots), i(info);
  TESSERA_ON(self.device(), run_ldl_factor)
  (self.dtype(), taken(self, ld.tensor(), true), hermitian, static_cast<int32_t*>(p.data()),
   static_cast<int32_t*>(i.data()));
  ld.finish();
  p.finish();
  i.finish();
  if (check_errors) linalg::check_errors(info, "linalg.ldl_factor", self.dim() == 2);
}

OutputSpec linalg_ldl_solve_meta(const Tensor& LD, const Tensor& pivots, const Tensor& B, bool) {
  check_equation("linalg.ldl_solve", LD, B, true);
  check_pivots("linalg.ldl_solve", LD, pivots);
  return like(B, with_matrix(linalg::broadcast_batch(LD, B), rows_of(B), cols_of(B)));
}
void linalg_ldl_solve_kernel(const Tensor& LD, const Tensor& pivots, const Tensor& B, bool hermitian,
                             const Tensor& out) {
  const ResultMemory x = linalg::dense_result(out);
  if (out.numel() != 0) {
    const IntList batch = batch_sizes(out);
    const Tensor ld = for_batch(LD, batch), p = pivots_for_batch(pivots, batch, rows_of(LD));
    TESSERA_ON(out.device(), run_ldl_solve)
    (out.dtype(), matrices(ld), static_cast<const int32_t*>(p.data_ptr()), hermitian, taken(B, x.tensor()));
  }
  x.finish();
}

}  // namespace tessera::kernels
