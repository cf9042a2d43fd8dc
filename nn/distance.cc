// Distances between all rows of two tensors.
#include <algorithm>

#include "nn/distance_kernels.h"
#include "nn/distance_rule.h"
#include "nn/nn_ops.h"
#include "nn/cpu/distance.h"
#include "tensor/ops/api.h"
#include "tensor/ops/result_memory.h"
#include "tensor/ops/promotion.h"

namespace tessera::kernels {
namespace {

IntVector joined(IntList batch, int64_t rows, int64_t columns) {
  IntVector sizes(batch.begin(), batch.end());
  sizes.push_back(rows);
  sizes.push_back(columns);
  return sizes;
}
IntList batch_of(const Tensor& t) { return t.sizes().first(static_cast<size_t>(t.dim() - 2)); }
// The differences of all pairs of rows, features last.
Tensor differences(const Tensor& x1, const Tensor& x2) { return sub(unsqueeze(x1, -2), unsqueeze(x2, -3)); }

}  // namespace

Tensor cdist_composite(const Tensor& x1, const Tensor& x2, double p, std::optional<int64_t> compute_mode) {
  TESSERA_CHECK(x1.dim() >= 2, "cdist only supports at least 2D tensors, X1 got: ", x1.dim(), "D");
  TESSERA_CHECK(x2.dim() >= 2, "cdist only supports at least 2D tensors, X2 got: ", x2.dim(), "D");
  TESSERA_CHECK(x1.size(-1) == x2.size(-1), "X1 and X2 must have the same number of columns. X1: ", x1.size(-1),
                " X2: ", x2.size(-1));
  TESSERA_CHECK(x1.is_floating_point(),
                "cdist only supports floating-point dtypes, X1 got: ", type_name_of(x1.dtype()));
  TESSERA_CHECK(x2.is_floating_point(),
                "cdist only supports floating-point dtypes, X2 got: ", type_name_of(x2.dtype()));
  TESSERA_CHECK(p >= 0, "cdist only supports non-negative p values");
  const int64_t mode = compute_mode.value_or(0);
  TESSERA_CHECK(mode >= 0 && mode <= 2, "possible modes: 0, 1, 2, but was: ", mode);
  // Halves are computed in float32 and rounded once.
  const DType t = result_type(x1, x2), compute = is_reduced_float(t) ? DType::kFloat32 : t;
  const IntVector batch = infer_broadcast(batch_of(x1), batch_of(x2));
  const auto ready = [&](const Tensor& x) {
    return expand(to(x, compute), IntList(joined(batch, x.size(-2), x.size(-1))));
  };
  const Tensor distances = _cdist_forward(ready(x1), ready(x2), p, compute_mode);
  return compute == t ? distances : to(distances, t);
}

namespace {
void check_pair(const char* name, const Tensor& x1, const Tensor& x2) {
  TESSERA_CHECK(x1.dim() >= 2 && x1.dim() == x2.dim() && std::ranges::equal(batch_of(x1), batch_of(x2)) &&
                    x1.size(-1) == x2.size(-1),
                name, ": shapes ", shape_string(x1.sizes()), " and ", shape_string(x2.sizes()), " do not match");
  TESSERA_CHECK(x1.dtype() == x2.dtype(), name, ": dtypes ", name_of(x1.dtype()), " and ", name_of(x2.dtype()),
                " do not match");
  TESSERA_CHECK_NOT_IMPLEMENTED(x1.dtype() == DType::kFloat32 || x1.dtype() == DType::kFloat64, '"', name,
                                "\" not implemented for '", type_name_of(x1.dtype()), "'");
}
}  // namespace

OutputSpec _cdist_forward_meta(const Tensor& x1, const Tensor& x2, double, std::optional<int64_t>) {
  check_pair("cdist", x1, x2);
  return OutputSpec(joined(batch_of(x1), x1.size(-2), x2.size(-2)), {}, x1.dtype(), x1.device());
}
void _cdist_forward_kernel(const Tensor& x1, const Tensor& x2, double p, std::optional<int64_t> compute_mode,
                           const Tensor& out) {
  if (out.numel() == 0) return;
  const int64_t rows1 = x1.size(-2), rows2 = x2.size(-2), features = x1.size(-1);
  if (!out.is_cpu()) {
    const int64_t last[1] = {-1};
    copy__kernel(out, linalg_vector_norm(differences(x1, x2), Scalar(p), IntList(last), false, std::nullopt), false);
    return;
  }
  const Tensor a = contiguous(x1), b = contiguous(x2);
  const ResultMemory target(out);
  cpu::pair_distances(out.dtype(), out.numel() / (rows1 * rows2), rows1, rows2, features, p,
                      by_product(rows1, rows2, p, compute_mode), a.data_ptr(), b.data_ptr(), target.data());
  target.finish();
}

OutputSpec _cdist_backward_meta(const Tensor& grad, const Tensor& x1, const Tensor& x2, double, const Tensor& cdist) {
  check_pair("cdist_backward", x1, x2);
  const IntVector pairs = joined(batch_of(x1), x1.size(-2), x2.size(-2));
  for (const Tensor& t : {grad, cdist}) {
    TESSERA_CHECK(std::ranges::equal(t.sizes(), pairs) && t.dtype() == x1.dtype(), "cdist_backward: expected shape ",
                  shape_string(IntList(pairs)), " and the dtype of x1, but got ", shape_string(t.sizes()), " and ",
                  name_of(t.dtype()));
  }
  return OutputSpec(to_vector(x1.sizes()), {}, x1.dtype(), x1.device());
}
void _cdist_backward_kernel(const Tensor& grad, const Tensor& x1, const Tensor& x2, double p, const Tensor& cdist,
                            const Tensor& out) {
  TESSERA_CHECK_NOT_IMPLEMENTED(out.is_cpu(), "_cdist_backward: there is no kernel for ", out.device().str(),
                                "; cdist's own backward works on every device");
  if (out.numel() == 0) return;
  const Tensor g = contiguous(grad), a = contiguous(x1), b = contiguous(x2), d = contiguous(cdist);
  const ResultMemory target(out);
  const int64_t rows1 = x1.size(-2), rows2 = x2.size(-2), features = x1.size(-1);
  cpu::pair_distances_backward(out.dtype(), out.numel() / (rows1 * features), rows1, rows2, features, p, g.data_ptr(),
                               a.data_ptr(), b.data_ptr(), d.data_ptr(), target.data());
  target.finish();
}

}  // namespace tessera::kernels
