// Norms of matrices, and conditions, which are made of them.
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "linalg/functions_kernels.h"
#include "linalg/all_ops.h"
#include "linalg/matrix.h"
#include "tensor/ops/api.h"

namespace tessera::kernels {
namespace {

using Pair = std::array<int64_t, 2>;

Pair rows_and_columns(const Tensor& A, IntList dim) {
  TESSERA_CHECK(A.dim() >= 2, "linalg.matrix_norm: The input tensor A must have at least 2 dimensions, but got ",
                A.dim());
  TESSERA_CHECK(A.is_floating_point() || A.is_complex(),
                "linalg.matrix_norm: Expected a floating point or complex tensor as input, but got ",
                name_of(A.dtype()));
  TESSERA_CHECK(dim.size() == 2, "linalg.matrix_norm: dim must be a 2-tuple, but got ", dim.size(), " dimensions");
  const Pair dims{wrap_dim(dim[0], A.dim()), wrap_dim(dim[1], A.dim())};
  TESSERA_CHECK(dims[0] != dims[1], "linalg.matrix_norm: dims must be different, but got ", dim[0], " and ", dim[1]);
  return dims;
}

Tensor converted(const Tensor& A, std::optional<DType> dtype) {
  if (!dtype) return A;
  TESSERA_CHECK(is_complex(*dtype) == A.is_complex() && promote_types(A.dtype(), *dtype) == *dtype,
                "linalg.matrix_norm: an input of ", name_of(A.dtype()), " cannot be converted to the dtype ",
                name_of(*dtype), " without loss");
  return A.to(*dtype);
}

// Of numbers that are not negative: the largest of none is 0.
Tensor extreme(const Tensor& sizes, int64_t dim, bool keepdim, bool largest) {
  const std::array<int64_t, 1> dims{dim};
  if (!largest) return amin(sizes, dims, keepdim);
  return sizes.size(dim) == 0 ? sum(sizes, IntList(dims), keepdim) : amax(sizes, dims, keepdim);
}

// The singular values in the last dimension.
Tensor singular_values(const Tensor& A, const Pair& dims, std::optional<DType> dtype) {
  return linalg_svdvals(converted(movedim(A, dims, Pair{-2, -1}), dtype));
}

// What was reduced over dims, which movedim took away.
Tensor with_dims(Tensor reduced, Pair dims, bool keepdim) {
  if (!keepdim) return reduced;
  if (dims[0] > dims[1]) std::swap(dims[0], dims[1]);
  return reduced.unsqueeze(dims[0]).unsqueeze(dims[1]);
}

// The largest or least sum of absolute values along one of two dimensions.
Tensor by_sums(const Tensor& A, int64_t along, int64_t across, bool keepdim, bool largest, std::optional<DType> dtype) {
  const std::array<int64_t, 1> summed{along};
  const Tensor found = extreme(linalg_vector_norm(A, 1, IntList(summed), true, dtype), across, true, largest);
  return keepdim ? found : found.squeeze(Pair{along, across});
}

bool is_square_norm(double p) { return std::abs(p) == 2; }

void check_norm_dim(std::optional<IntList> dim) {
  if (dim)
    TESSERA_CHECK(dim->size() == 1 || dim->size() == 2,
                  "linalg.norm: If dim is specified, it must be of length 1 or 2, but got ", dim->size());
}

// norm's dimensions: those given, or all of a vector or matrix.
IntVector dims_for_ord(const Tensor& x, std::optional<IntList> dim) {
  check_norm_dim(dim);
  if (dim) return IntVector(dim->begin(), dim->end());
  TESSERA_CHECK(x.dim() == 1 || x.dim() == 2,
                "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D, but got ", x.dim(), "D");
  IntVector all(x.dim());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

template <class Order>
Tensor cond_by_inverse(const Tensor& A, const Order& p) {
  linalg::check_square("linalg.cond", A);
  const auto [inverse, info] = linalg_inv_ex(A, false);
  const Tensor size = linalg_matrix_norm(A, p, Pair{-2, -1});
  const Tensor size_of_inverse = linalg_matrix_norm(inverse, p, Pair{-2, -1});
  // Of zeros, too, whose size times infinity is nan.
  return masked_fill(mul(size, size_of_inverse), gt(info, Scalar(0)), Scalar(std::numeric_limits<double>::infinity()));
}

Tensor zeros_of_batch(const Tensor& A) { return new_zeros(A, linalg::batch_sizes(A), to_real(A.dtype())); }

}  // namespace

Tensor linalg_matrix_norm_composite(const Tensor& A, const Scalar& ord, IntList dim, bool keepdim,
                                    std::optional<DType> dtype) {
  const Pair dims = rows_and_columns(A, dim);
  TESSERA_CHECK(!ord.is_complex(), "linalg.matrix_norm: Order must be a real number");
  const double p = ord.to_double();
  if (is_square_norm(p)) return with_dims(extreme(singular_values(A, dims, dtype), -1, false, p > 0), dims, keepdim);
  if (std::abs(p) == 1) return by_sums(A, dims[0], dims[1], keepdim, p > 0, dtype);
  if (std::isinf(p)) return by_sums(A, dims[1], dims[0], keepdim, p > 0, dtype);
  internal::raise<Error>("linalg.matrix_norm: Order ", p,
                         " not supported; expected 1, -1, 2, -2, inf, -inf, 'fro' or 'nuc'");
}

Tensor linalg_matrix_norm_str_ord_composite(const Tensor& A, std::string_view ord, IntList dim, bool keepdim,
                                            std::optional<DType> dtype) {
  const Pair dims = rows_and_columns(A, dim);
  if (ord == "fro") return linalg_vector_norm(A, 2, IntList(dims), keepdim, dtype);
  TESSERA_CHECK(ord == "nuc", "linalg.matrix_norm: Order ", ord,
                " not supported; expected 1, -1, 2, -2, inf, -inf, 'fro' or 'nuc'");
  const std::array<int64_t, 1> last{-1};
  return with_dims(sum(singular_values(A, dims, dtype), IntList(last)), dims, keepdim);
}

Tensor linalg_norm_composite(const Tensor& x, const std::optional<Scalar>& ord, std::optional<IntList> dim,
                             bool keepdim, std::optional<DType> dtype) {
  if (!ord) {
    check_norm_dim(dim);
    return linalg_vector_norm(x, 2, dim, keepdim, dtype);
  }
  const IntVector dims = dims_for_ord(x, dim);
  if (dims.size() == 2) return linalg_matrix_norm(x, *ord, dims, keepdim, dtype);
  return linalg_vector_norm(x, *ord, IntList(dims), keepdim, dtype);
}

Tensor linalg_norm_ord_str_composite(const Tensor& x, std::string_view ord, std::optional<IntList> dim, bool keepdim,
                                     std::optional<DType> dtype) {
  const IntVector dims = dims_for_ord(x, dim);
  TESSERA_CHECK(dims.size() == 2, "linalg.matrix_norm: ",
                dim ? "dim must be a 2-tuple" : "The input tensor A must have at least 2 dimensions", " for order ",
                ord, ", which is of matrices alone");
  return linalg_matrix_norm(x, ord, dims, keepdim, dtype);
}

Tensor linalg_cond_composite(const Tensor& A, const std::optional<Scalar>& p) {
  TESSERA_CHECK(A.dim() >= 2, "linalg.cond: The input tensor must have at least 2 dimensions, but got ", A.dim());
  const double order = p ? p->to_double() : 2;
  TESSERA_CHECK(std::abs(order) == 1 || is_square_norm(order) || std::isinf(order),
                "linalg.cond got an invalid norm type: p must be 1, -1, 2, -2, inf, -inf, 'fro' or 'nuc', not ", order);
  if (!is_square_norm(order))
    return A.numel() == 0 && A.size(-1) == A.size(-2) ? zeros_of_batch(A) : cond_by_inverse(A, *p);
  if (A.numel() == 0) return zeros_of_batch(A);
  const Tensor values = linalg_svdvals(A);
  const Tensor largest = values.select(-1, 0), least = values.select(-1, -1);
  return order > 0 ? div(largest, least) : div(least, largest);
}

Tensor linalg_cond_p_str_composite(const Tensor& A, std::string_view p) {
  TESSERA_CHECK(p == "fro" || p == "nuc",
                "linalg.cond got an invalid norm type: p must be 1, -1, 2, -2, inf, -inf, 'fro' or 'nuc', not ", p);
  linalg::check_square("linalg.cond", A);
  return A.numel() == 0 ? zeros_of_batch(A) : cond_by_inverse(A, p);
}

Tensor norm_except_dim_composite(const Tensor& v, int64_t pow, int64_t dim) {
  if (dim == -1) return linalg_vector_norm(v, pow);
  const int64_t kept = wrap_dim(dim, v.dim());
  IntVector others;
  for (int64_t d = 0; d < v.dim(); ++d)
    if (d != kept) others.push_back(d);
  return others.empty() ? abs(v) : linalg_vector_norm(v, pow, IntList(others), true);
}

}  // namespace tessera::kernels
