// Embedding tables.
#include "nn/embedding_kernels.h"
#include "nn/nn_ops.h"
#include "tensor/cpu/nn.h"
#include "tensor/engine/engines.h"
#include "tensor/ops/api.h"
#include "tensor/ops/index_extra.h"
#include "tensor/ops/create_kernels.h"
#include "tensor/ops/promotion.h"

namespace tessera::kernels {
namespace {

void check_indices(const Tensor& indices, const char* op) {
  TESSERA_CHECK(indices.dtype() == DType::kInt64 || indices.dtype() == DType::kInt32,
                "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got ", type_name_of(indices.dtype()), " instead (while checking arguments for ", op, ")");
}

}  // namespace

Tensor embedding_rows(const Tensor& weight, const Tensor& indices, SymInt, bool, bool) {
  TESSERA_CHECK(weight.dim() == 2, "'weight' must be 2-D, but got ", weight.dim(), "-D");
  check_indices(indices, "embedding");
  const Tensor rows = index_select(weight, 0, reshape(indices, {-1}));
  IntVector sizes = to_vector(indices.sizes());
  sizes.push_back(weight.sizes()[1]);
  return view(rows, IntList(sizes));
}

OutputSpec embedding_dense_backward_meta(const Tensor& grad_output, const Tensor& indices, SymInt num_weights, SymInt, bool) {
  check_indices(indices, "embedding_backward");
  const int64_t rows = num_weights.guard_int();
  TESSERA_CHECK(rows >= 0, "num_weights must not be negative, got ", rows);
  TESSERA_CHECK(grad_output.dim() == indices.dim() + 1, "expected a gradient of ", indices.dim() + 1, " dimensions for indices of shape ", shape_string(indices.sizes()), ", but got shape ",
                shape_string(grad_output.sizes()));
  TESSERA_CHECK(to_vector(grad_output.sizes().first(static_cast<size_t>(indices.dim()))) == to_vector(indices.sizes()), "the gradient's shape ", shape_string(grad_output.sizes()),
                " does not begin with that of the indices, ", shape_string(indices.sizes()));
  const int64_t sizes[2] = {rows, grad_output.size(-1)};
  return OutputSpec(grad_output, sizes);
}
void embedding_dense_backward_cpu(const Tensor& grad_output, const Tensor& indices, SymInt num_weights, SymInt padding_idx, bool scale_grad_by_freq, const Tensor& out) {
  const Tensor g = contiguous(grad_output), index = contiguous(to(indices, DType::kInt64));
  const Tensor target = out.is_contiguous() ? out : empty_tensor(out.sizes(), {}, out.dtype(), out.device());
  TESSERA_ON(g.device(), embedding_backward)(g.dtype(), g.data_ptr(), index.data_ptr<int64_t>(), index.numel(), g.size(-1), num_weights.guard_int(), padding_idx.guard_int(), scale_grad_by_freq, target.data_ptr());
  if (!target.is_same(out)) copy__cpu(out, target, false);
}

const Tensor& embedding_renorm__cpu(const Tensor& self, const Tensor& indices, double max_norm, double norm_type) {
  TESSERA_CHECK(self.dim() == 2, "'self' must be 2-D, but got ", self.dim(), "-D");
  check_indices(indices, "embedding_renorm_");
  check_no_internal_overlap(self);
  if (indices.numel() == 0) return self;
  const int64_t dims[1] = {1};
  if (self.is_meta()) {
    linalg_vector_norm(self, Scalar(norm_type), IntList(dims), true, std::nullopt);  // for its checks
    return self;
  }
  const Tensor rows = contiguous(to(std::get<0>(_unique2(reshape(indices, {-1}), true, false, false)), DType::kInt64));
  const Tensor values = index_select(self, 0, rows);
  const Tensor norms = to(linalg_vector_norm(values, Scalar(norm_type), IntList(dims), true, std::nullopt), DType::kFloat64);
  const Tensor too_long = gt(norms, Scalar(max_norm));
  const Tensor scale = to(mul(reciprocal(add(norms, Scalar(1e-7))), Scalar(max_norm)), values.dtype());
  index_put_inplace(self, {&rows, 1}, where(too_long, mul(values, scale), values), false);  // counts no version: the caller does
  return self;
}

Tensor one_hot_composite(const Tensor& self, int64_t num_classes) {
  TESSERA_CHECK(self.dtype() == DType::kInt64, "one_hot is only applicable to index tensor of type LongTensor, but got ", type_name_of(self.dtype()));
  IntVector sizes = to_vector(self.sizes());
  if (self.numel() == 0) {
    TESSERA_CHECK(num_classes > 0, "Can not infer total number of classes from empty tensor.");
    sizes.push_back(num_classes);
    return zeros(IntList(sizes), DType::kInt64, std::nullopt, self.device());
  }
  TESSERA_CHECK(num_classes == -1 || num_classes >= 1, "num_classes should be positive, got ", num_classes);
  if (!self.is_meta()) {
    TESSERA_CHECK(item(min(self)).to_int() >= 0, "Class values must be non-negative.");
    const int64_t largest = item(max(self)).to_int();
    if (num_classes == -1) num_classes = largest + 1;
    TESSERA_CHECK(largest < num_classes, "Class values must be smaller than num_classes.");
  }
  TESSERA_CHECK(num_classes >= 1, "one_hot needs num_classes for a tensor without values");
  sizes.push_back(num_classes);
  return zeros(IntList(sizes), DType::kInt64, std::nullopt, self.device()).scatter_(-1, unsqueeze(self, -1), Scalar(1));
}

}  // namespace tessera::kernels
