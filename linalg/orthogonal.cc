// Q R, products of reflections, least squares: shapes, and matrices in memory for the engines.
#include "linalg/orthogonal.h"

#include <algorithm>

#include "linalg/engine/orthogonal.h"
#include "linalg/all_ops.h"
#include "linalg/matrix.h"
#include "linalg/orthogonal_kernels.h"
#include "tensor/ops/api.h"
#include "tensor/ops/create_kernels.h"

namespace tessera::linalg {

QrMode qr_mode(std::string_view mode) {
  if (mode == "reduced") return QrMode::kReduced;
  if (mode == "complete") return QrMode::kComplete;
  if (mode == "r") return QrMode::kR;
  TESSERA_CHECK(false, "linalg.qr: received unrecognized mode '", mode,
                "' but expected one of 'reduced' (default), 'r', or 'complete'");
}

}  // namespace tessera::linalg

namespace tessera::kernels {
namespace {

using linalg::QrMode;

int64_t rows_of(const Tensor& t) { return t.sizes()[t.dim() - 2]; }
int64_t cols_of(const Tensor& t) { return t.sizes()[t.dim() - 1]; }

// (*, k): a number for each column.
IntVector with_vector(IntList batch, int64_t k) {
  IntVector sizes(batch.begin(), batch.end());
  sizes.push_back(k);
  return sizes;
}

// The first `cols` columns of each matrix.
cpu::MatrixBatch first_columns(cpu::MatrixBatch m, int64_t cols) {
  m.cols = cols;
  return m;
}

Tensor row_major(const Tensor& t) {
  if (t.is_contiguous() && !t.is_conj() && !t.is_neg()) return t;
  const Tensor copy = empty_tensor(t.sizes(), {}, t.dtype(), t.device());
  copy__kernel(copy, t, false);
  return copy;
}

}  // namespace

// --- Q R

std::array<OutputSpec, 2> linalg_qr_meta(const Tensor& A, std::string_view mode) {
  const QrMode how = linalg::qr_mode(mode);
  linalg::check_matrix("linalg.qr", A);
  const int64_t m = rows_of(A), n = cols_of(A), k = std::min(m, n);
  const IntList batch = linalg::batch_sizes(A);
  const OutputSpec r(A, linalg::with_matrix(batch, how == QrMode::kComplete ? m : k, n));
  if (how == QrMode::kR) return {OutputSpec(A, IntVector{0}), r};
  return {OutputSpec(A, linalg::with_matrix(batch, m, how == QrMode::kComplete ? m : k)), r};
}

void linalg_qr_kernel(const Tensor& A, std::string_view mode, const Tensor& Q, const Tensor& R) {
  const bool wants_q = linalg::qr_mode(mode) != QrMode::kR;
  const int64_t m = rows_of(A), n = cols_of(A), k = std::min(m, n);
  const Device device = A.device();
  const DType dtype = A.dtype();
  const ResultMemory r = linalg::dense_result(R);
  const ResultMemory q = wants_q ? linalg::dense_result(Q) : ResultMemory(Q);
  if (wants_q && cols_of(Q) == n) {
    if (A.numel() > 0) TESSERA_ON(device, run_qr)(dtype, linalg::taken(A, q.tensor()), linalg::matrices(r.tensor()));
  } else {
    // The factorization takes place where there is room for all of it: R, or memory of its own.
    const Tensor all = rows_of(R) == m ? r.tensor() : empty_tensor(A.sizes(), {}, dtype, device);
    const Tensor tau = empty_tensor(with_vector(linalg::batch_sizes(A), k), {}, dtype, device);
    if (A.numel() > 0) TESSERA_ON(device, run_geqrf)(dtype, linalg::taken(A, all), tau.data_ptr());
    if (wants_q && Q.numel() > 0) {
      const int64_t d = A.dim();
      if (k > 0) copy__kernel(narrow(q.tensor(), d - 1, 0, k), narrow(all, d - 1, 0, k), false);
      TESSERA_ON(device, run_householder_product)(dtype, linalg::matrices(q.tensor()), tau.data_ptr(), k, k);
    }
    if (R.numel() > 0)
      TESSERA_ON(device, run_upper_triangle)(dtype, linalg::matrices(all), linalg::matrices(r.tensor()));
  }
  r.finish();
  if (wants_q) q.finish();
}

// --- Reflections

std::array<OutputSpec, 2> geqrf_meta(const Tensor& self) {
  linalg::check_matrix("torch.geqrf", self, "input", linalg::Integers::kAsHalf);
  const int64_t k = std::min(rows_of(self), cols_of(self));
  return {OutputSpec(self, self.sizes()), OutputSpec(self, with_vector(linalg::batch_sizes(self), k))};
}
void geqrf_kernel(const Tensor& self, const Tensor& a, const Tensor& tau) {
  const ResultMemory factors = linalg::dense_result(a), scales(tau);
  if (a.numel() > 0)
    TESSERA_ON(self.device(), run_geqrf)(self.dtype(), linalg::taken(self, factors.tensor()), scales.data());
  factors.finish();
  scales.finish();
}

OutputSpec linalg_householder_product_meta(const Tensor& input, const Tensor& tau) {
  const char* name = "torch.linalg.householder_product";
  linalg::check_matrix(name, input, "input", linalg::Integers::kAsHalf);
  TESSERA_CHECK(rows_of(input) >= cols_of(input), name,
                ": input.shape[-2] must be greater than or equal to input.shape[-1], but got ", rows_of(input), " and ",
                cols_of(input));
  TESSERA_CHECK(tau.dim() == input.dim() - 1, name,
                ": Expected tau to have one dimension less than input, but got tau.ndim equal to ", tau.dim(),
                " and input.ndim is equal to ", input.dim());
  TESSERA_CHECK(cols_of(input) >= tau.sizes().back(), name,
                ": input.shape[-1] must be greater than or equal to tau.shape[-1], but got ", cols_of(input), " and ",
                tau.sizes().back());
  const IntList batch = linalg::batch_sizes(input), given = tau.sizes().subspan(0, tau.dim() - 1);
  TESSERA_CHECK(std::equal(batch.begin(), batch.end(), given.begin()), name,
                ": Expected batch dimensions of tau to be equal to input.shape[:-2], but got ", shape_string(given));
  TESSERA_CHECK(tau.dtype() == input.dtype(), name, ": tau dtype ", name_of(tau.dtype()),
                " does not match input dtype ", name_of(input.dtype()));
  TESSERA_CHECK(tau.device() == input.device(), name, ": Expected input and tau on the same device, but got ",
                input.device().str(), " and ", tau.device().str());
  return OutputSpec(input, input.sizes());
}
void linalg_householder_product_kernel(const Tensor& input, const Tensor& tau, const Tensor& out) {
  const ResultMemory q = linalg::dense_result(out);
  copy__kernel(q.tensor(), input, false);
  const int64_t k = tau.sizes().back();
  const Tensor scales = row_major(tau);
  if (out.numel() > 0) TESSERA_ON(out.device(), run_householder_product)
  (out.dtype(), linalg::matrices(q.tensor()), scales.data_ptr(), k, k);
  q.finish();
}

OutputSpec ormqr_meta(const Tensor& self, const Tensor& input2, const Tensor& input3, bool left, bool) {
  const char* name = "torch.ormqr";
  const Tensor &tau = input2, &other = input3;
  linalg::check_matrix(name, self, "input");
  TESSERA_CHECK(other.dim() >= 2, name, ": other must have at least 2 dimensions, but got ", other.dim());
  const int64_t size = left ? rows_of(other) : cols_of(other);
  TESSERA_CHECK(size == rows_of(self), name, ": other.shape[", left ? "-2" : "-1",
                "] must be equal to input.shape[-2], but got ", size, " and ", rows_of(self));
  TESSERA_CHECK(tau.dim() == self.dim() - 1, name,
                ": Expected tau to have one dimension less than input, but got tau.ndim equal to ", tau.dim(),
                " and input.ndim is equal to ", self.dim());
  TESSERA_CHECK(other.dim() == self.dim(), name,
                ": Expected other to have the same number of dimensions as input, but got other.ndim equal to ",
                other.dim(), " and input.ndim is equal to ", self.dim());
  TESSERA_CHECK(tau.sizes().back() == std::min(size, cols_of(self)), name, ": tau.shape[-1] must be equal to min(",
                left ? "other.shape[-2]" : "other.shape[-1]", ", input.shape[-1]), but got ", tau.sizes().back());
  const IntList batch = linalg::batch_sizes(self);
  const IntList of_tau = tau.sizes().subspan(0, tau.dim() - 1), of_other = linalg::batch_sizes(other);
  TESSERA_CHECK(std::equal(batch.begin(), batch.end(), of_tau.begin()), name,
                ": Expected batch dimensions of tau to be equal to input.shape[:-2], but got ", shape_string(of_tau));
  TESSERA_CHECK(std::equal(batch.begin(), batch.end(), of_other.begin()), name,
                ": Expected batch dimensions of other to be equal to input.shape[:-2], but got ",
                shape_string(of_other));
  for (const Tensor* t : {&tau, &other}) {
    const char* what = t == &tau ? "tau" : "other";
    TESSERA_CHECK(t->dtype() == self.dtype(), name, ": Expected input and ", what,
                  " to have the same dtype, but input has dtype ", name_of(self.dtype()), " and ", what, " has dtype ",
                  name_of(t->dtype()));
    TESSERA_CHECK(t->device() == self.device(), name, ": Expected input and ", what, " on the same device, but got ",
                  self.device().str(), " and ", t->device().str());
  }
  return OutputSpec(other, other.sizes());
}
void ormqr_kernel(const Tensor& self, const Tensor& input2, const Tensor& input3, bool left, bool transpose,
                  const Tensor& out) {
  const ResultMemory c = linalg::dense_result(out);
  copy__kernel(c.tensor(), input3, false);
  if (out.numel() > 0) {
    const int64_t k = input2.sizes().back();
    const Tensor v = linalg::dense_batch(self, linalg::batch_sizes(self)), tau = row_major(input2);
    TESSERA_ON(out.device(), run_apply_reflections)
    (out.dtype(), first_columns(linalg::matrices(v), k), tau.data_ptr(), k, k, linalg::matrices(c.tensor()), left,
     transpose);
  }
  c.finish();
}

// --- Least squares

namespace {

enum class Driver : uint8_t { kGels, kGelsy, kGelsd, kGelss };

// On devices there is gels alone, as documented.
Driver driver_of(const std::optional<std::string_view>& name, const Tensor& A) {
  if (A.is_cuda()) {
    TESSERA_CHECK(!name || *name == "gels",
                  "torch.linalg.lstsq: `driver` other than `gels` is not supported on CUDA, but got '", *name, "'");
    return Driver::kGels;
  }
  if (!name || *name == "gelsy") return Driver::kGelsy;
  if (*name == "gels") return Driver::kGels;
  if (*name == "gelsd") return Driver::kGelsd;
  TESSERA_CHECK(*name == "gelss",
                "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), but got '", *name,
                "'");
  return Driver::kGelss;
}
bool by_singular_values(Driver d) { return d == Driver::kGelsd || d == Driver::kGelss; }

// What is solved: b as columns, batches as they are, and what they broadcast to.
struct Equations {
  Tensor A, b;
  bool vector;
  IntVector batch;
  int64_t m, n, columns;
};
Equations equations(const Tensor& A, const Tensor& b) {
  const char* name = "torch.linalg.lstsq";
  linalg::check_matrix(name, A, "input");
  TESSERA_CHECK(b.dim() >= 1, name, ": other must have at least 1 dimension");
  TESSERA_CHECK(A.dim() >= b.dim() && A.dim() - b.dim() <= 1, name,
                ": input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1, but got ",
                A.dim(), " and ", b.dim());
  Equations e{A, b, linalg::is_vector(A.sizes(), b.sizes()), {}, rows_of(A), cols_of(A), 1};
  const int64_t given = e.vector ? b.sizes().back() : rows_of(b);
  TESSERA_CHECK(given == e.m, name, ": input.size(-2) should match other.size(", e.vector ? "-1" : "-2", "), but got ",
                e.m, " and ", given);
  linalg::check_alike(name, A, b);
  if (e.vector) e.b = unsqueeze(b, -1);
  e.columns = cols_of(e.b);
  e.batch = linalg::broadcast_batch(A, e.b);
  return e;
}

// The results' shapes. full_rank: of every matrix.
struct LstsqSpecs {
  OutputSpec solution, residuals, rank, singular_values;
};
LstsqSpecs lstsq_specs(const Equations& e, Driver driver, bool full_rank) {
  const DType real = to_real(e.A.dtype());
  const Device device = e.A.device();
  const bool residuals = e.m > e.n && (driver == Driver::kGels || (by_singular_values(driver) && full_rank));
  const IntList own = linalg::batch_sizes(e.A);
  return {OutputSpec(e.A, e.vector ? with_vector(e.batch, e.n) : linalg::with_matrix(e.batch, e.n, e.columns)),
          OutputSpec(residuals ? with_vector(e.batch, e.columns) : IntVector{0}, real, device),
          OutputSpec(driver == Driver::kGels ? IntVector{0} : IntVector(own.begin(), own.end()), DType::kInt64, device),
          OutputSpec(by_singular_values(driver) ? with_vector(own, std::min(e.m, e.n)) : IntVector{0}, real, device)};
}

// Of numbers for each element of the batch: those of A's own.
Tensor of_own_batch(const Equations& e, Tensor numbers) {
  const IntList own = linalg::batch_sizes(e.A);
  if (numbers.numel() == 0)
    return zeros(std::vector<SymInt>(own.begin(), own.end()), numbers.dtype(), {}, numbers.device(), {});
  for (size_t d = 0; d < own.size(); ++d)
    if (own[d] == 1) numbers = narrow(numbers, static_cast<int64_t>(d), 0, 1);
  return numbers;
}

// The sums of |x|^2 over columns, of rows `from` on.
Tensor squares(const Tensor& x, int64_t from) {
  const Tensor size = abs(narrow(x, -2, from, x.size(-2) - from));
  const int64_t rows[1] = {-2};
  return sum(mul(size, size), IntList(rows));
}

// What is told of the matrices, as the results have it.
struct Solved {
  Tensor solution;         // columns
  Tensor residuals;        // a number for each column, or undefined
  Tensor rank;             // of each matrix of A's own batch, or undefined
  Tensor singular_values;  // or undefined
};

Solved solve_by_factors(const Equations& e, Driver how, double rcond) {
  const DType dtype = e.A.dtype();
  const Device device = e.A.device();
  // B's rows, then the solution's.
  const Tensor x = empty_tensor(linalg::with_matrix(e.batch, std::max(e.m, e.n), e.columns), {}, dtype, device);
  copy__kernel(narrow(x, -2, 0, e.m), e.b, false);
  const Tensor A = linalg::dense_batch(e.A, e.batch);
  const Tensor ranks = empty_tensor(e.batch, {}, DType::kInt64, device);
  const Tensor failed = empty_tensor(e.batch, {}, DType::kInt32, device);
  const bool full = how == Driver::kGels;
  if (ranks.numel() > 0) TESSERA_ON(device, run_least_squares)
  (dtype, full ? cpu::LeastSquares::kFullRank : cpu::LeastSquares::kPivoted, rcond, linalg::matrices(A),
   linalg::matrices(x), static_cast<int64_t*>(ranks.data_ptr()), static_cast<int32_t*>(failed.data_ptr()));
  const Tensor solution = narrow(x, -2, 0, e.n);
  if (!full) return {solution, Tensor(), of_own_batch(e, ranks), Tensor()};
  linalg::check_errors(failed, "torch.linalg.lstsq", e.A.dim() == 2);
  return {solution, e.m > e.n ? squares(x, e.n) : Tensor(), Tensor(), Tensor()};
}

// X = V S^+ U^H B.
Solved solve_by_singular_values(const Equations& e, double rcond) {
  const auto [U, S, Vh] = _linalg_svd(e.A);
  const Tensor counts = S.size(-1) == 0 ? zeros_like(S, DType::kBool) : S.gt(mul(narrow(S, -1, 0, 1), Scalar(rcond)));
  const Tensor inverse = where(counts, reciprocal(S), zeros_like(S));
  const Tensor products = matmul(conj(transpose(U, -2, -1)), e.b);
  const Tensor solution = matmul(conj(transpose(Vh, -2, -1)), mul(products, unsqueeze(inverse, -1)));
  const int64_t last[1] = {-1};
  const Tensor rank = sum(counts, IntList(last));
  const bool full = rank.eq(std::min(e.m, e.n)).all().item<bool>();
  return {solution, full && e.m > e.n ? squares(sub(matmul(e.A, solution), e.b), 0) : Tensor(), rank, S};
}

using Results = std::tuple<Tensor, Tensor, Tensor, Tensor>;

}  // namespace

Results linalg_lstsq_meta(const Tensor& self, const Tensor& b, std::optional<double>,
                          std::optional<std::string_view> driver) {
  const Driver how = driver_of(driver, self);
  const LstsqSpecs s = lstsq_specs(equations(self, b), how, true);
  return {empty_from(s.solution), empty_from(s.residuals), empty_from(s.rank), empty_from(s.singular_values)};
}

Results linalg_lstsq_kernel(const Tensor& self, const Tensor& b, std::optional<double> rcond,
                            std::optional<std::string_view> driver) {
  const Driver how = driver_of(driver, self);
  const Equations e = equations(self, b);
  const double eps = to_real(self.dtype()) == DType::kFloat32 ? 0x1p-23 : 0x1p-52;
  const double limit = rcond.value_or(eps * static_cast<double>(std::max(e.m, e.n)));
  const Solved x =
      by_singular_values(how) ? solve_by_singular_values(e, limit < 0 ? eps : limit) : solve_by_factors(e, how, limit);
  // Each in memory of its own, of its shape.
  const LstsqSpecs specs = lstsq_specs(e, how, x.residuals.defined());
  const auto result = [](const OutputSpec& spec, const Tensor& value) {
    const Tensor r = empty_from(spec);
    if (value.defined()) copy__kernel(r, value, false);
    return r;
  };
  return {result(specs.solution, e.vector ? squeeze(x.solution, -1) : x.solution), result(specs.residuals, x.residuals),
          result(specs.rank, x.rank), result(specs.singular_values, x.singular_values)};
}

}  // namespace tessera::kernels
