#include "linalg/matrix.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "tensor/ops/api.h"
#include "tensor/ops/create_kernels.h"

namespace tessera::linalg {

void check_matrix(const char* name, const Tensor& A, const char* argument, Integers integers) {
  TESSERA_CHECK(A.dim() >= 2, name, ": The input tensor ", argument, " must have at least 2 dimensions, but got ",
                A.dim());
  const DType t = A.dtype();
  if (t == DType::kFloat32 || t == DType::kFloat64 || t == DType::kComplex64 || t == DType::kComplex128) return;
  const std::string kind(type_name_of(t)), wanted = std::string(": ") + argument +
                                                    " has to be of float32, float64, complex64 or complex128; convert "
                                                    "it first";
  const bool is_number = is_floating_point(t) || is_complex(t) || integers == Integers::kAsHalf;
  TESSERA_CHECK_NOT_IMPLEMENTED(!is_number, '"', name, "\" not implemented for '", kind, "'", wanted);
  TESSERA_CHECK(false, name, ": Expected a floating point or complex tensor as input. Got ", kind, wanted);
}

void check_square(const char* name, const Tensor& A, const char* argument, Integers integers) {
  check_matrix(name, A, argument, integers);
  const int64_t rows = A.sizes()[A.dim() - 2], cols = A.sizes()[A.dim() - 1];
  TESSERA_CHECK(rows == cols, name, ": ", argument, " must be batches of square matrices, but they are ", rows, " by ",
                cols, " matrices");
}

void check_alike(const char* name, const Tensor& A, const Tensor& B) {
  TESSERA_CHECK(A.dtype() == B.dtype(), name, ": Expected A and B to have the same dtype, but found A of type ",
                name_of(A.dtype()), " and B of type ", name_of(B.dtype()), " instead");
  TESSERA_CHECK(A.device() == B.device(), name, ": Expected all tensors to be on the same device, but got ",
                A.device().str(), " and ", B.device().str());
}

IntList batch_sizes(const Tensor& A) { return A.sizes().subspan(0, A.dim() - 2); }

IntVector broadcast_batch(const Tensor& A, const Tensor& B) { return infer_broadcast(batch_sizes(A), batch_sizes(B)); }

IntVector with_matrix(IntList batch, int64_t rows, int64_t cols) {
  IntVector sizes(batch.begin(), batch.end());
  sizes.push_back(rows);
  sizes.push_back(cols);
  return sizes;
}

namespace {

// The stride from matrix to matrix if there is one: batch dimensions of one element have none.
std::optional<int64_t> batch_stride_of(const Tensor& t) {
  std::optional<int64_t> inner;  // of the innermost dimension that counts
  int64_t next = 0;              // what the stride of the next dimension outwards has to be
  for (int64_t d = t.dim() - 3; d >= 0; --d) {
    const int64_t size = t.sizes()[d], stride = t.strides()[d];
    if (size == 1) continue;
    if (!inner)
      inner = stride;
    else if (stride != next)
      return std::nullopt;
    next = stride * size;
  }
  return inner.value_or(0);
}

}  // namespace

cpu::MatrixBatch matrices(const Tensor& t) {
  const int64_t d = t.dim();
  int64_t count = 1;
  for (int64_t s : batch_sizes(t)) count *= s;
  return {t.data_ptr(),       count, t.sizes()[d - 2], t.sizes()[d - 1], t.strides()[d - 2], t.strides()[d - 1],
          *batch_stride_of(t)};
}

bool is_dense_batch(const Tensor& t) {
  const int64_t d = t.dim(), rows = t.sizes()[d - 2], cols = t.sizes()[d - 1];
  if (t.numel() == 0) return true;
  const int64_t row_stride = t.strides()[d - 2], col_stride = t.strides()[d - 1];
  const bool by_rows = (col_stride == 1 || cols == 1) && (row_stride >= cols || rows == 1);
  const bool by_cols = (row_stride == 1 || rows == 1) && (col_stride >= rows || cols == 1);
  return (by_rows || by_cols) && batch_stride_of(t).has_value() && !t.is_conj() && !t.is_neg();
}

Tensor dense_batch(const Tensor& t, IntList batch) {
  const IntList own = batch_sizes(t);
  if (std::equal(own.begin(), own.end(), batch.begin(), batch.end()) && is_dense_batch(t)) return t;
  const int64_t d = t.dim();
  const Tensor copy = empty_tensor(with_matrix(batch, t.sizes()[d - 2], t.sizes()[d - 1]), {}, t.dtype(), t.device());
  kernels::copy__kernel(copy, t, false);
  return copy;
}

cpu::MatrixBatch taken(const Tensor& A, const Tensor& to, bool of_any_size) {
  cpu::MatrixBatch m = matrices(to);
  const auto is_same = [](IntList a, IntList b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); };
  const bool fits = of_any_size || (m.count > 1 && std::max(m.rows, m.cols) <= 64);
  if (A.is_cpu() && fits && A.storage() != to.storage() && is_same(A.sizes(), to.sizes()) &&
      is_same(A.strides(), to.strides()))
    m.from = A.data_ptr();
  else
    kernels::copy__kernel(to, A, false);
  return m;
}

namespace {

// What LAPACK's info of the factorization behind a function says.
std::string reason(std::string_view name, int64_t info) {
  const auto is = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  const std::string n = std::to_string(info < 0 ? -info : info);
  if (info < 0) return "The algorithm failed to converge because the input matrix contained non-finite values";
  if (is("lu_factor"))
    return "U[" + n + "," + n +
           "] is zero and using it on lu_solve would result in a division by zero. If you still want to perform the "
           "factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)";
  if (is("inv") || is("solve") || is("lu"))
    return "The diagonal element " + n + " is zero, the " + (is("inv") ? "inversion" : "solve") +
           " could not be completed because the input matrix is singular";
  if (is("cholesky"))
    return "The factorization could not be completed because the input is not positive-definite (the leading minor of "
           "order " +
           n + " is not positive-definite)";
  if (is("ldl")) return "The factorization has a zero on its diagonal, element " + n + ": the input matrix is singular";
  if (is("lstsq"))
    return "The least squares solution could not be computed because the input matrix does not have full "
           "rank (error code: " +
           n + ")";
  return "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated "
         "eigenvalues or singular values (error code: " +
         n + ")";
}

}  // namespace

void check_errors(const Tensor& info, std::string_view name, bool is_matrix) {
  if (info.is_meta()) return;
  const Tensor host = info.to(Device(), DType::kInt64).contiguous();
  const int64_t* values = host.data<int64_t>();
  for (int64_t i = 0; i < host.numel(); ++i) {
    if (values[i] == 0) continue;
    const std::string which = is_matrix ? "" : "(Batch element " + std::to_string(i) + "): ";
    throw LinAlgError(std::string(name) + ": " + which + reason(name, values[i]) + ".");
  }
}

}  // namespace tessera::linalg
