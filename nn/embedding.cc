// Embedding tables.
#include <algorithm>

#include "nn/embedding_kernels.h"
#include "nn/nn_ops.h"
#include "nn/cpu/embedding.h"
#include "tensor/cpu/index/index_simd.h"
#include "nn/engine/embedding.h"
#include "tensor/core/layouts/sparse.h"
#include "tensor/core/transforms.h"
#include "tensor/ops/api.h"
#include "tensor/ops/index_extra.h"
#include "tensor/ops/result_memory.h"
#include "tensor/ops/options.h"
#include "tensor/ops/promotion.h"

namespace tessera::kernels {
namespace {

void check_indices(const Tensor& indices, const char* op) {
  TESSERA_CHECK(
      indices.dtype() == DType::kInt64 || indices.dtype() == DType::kInt32,
      "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got ",
      type_name_of(indices.dtype()), " instead (while checking arguments for ", op, ")");
}

// A COO tensor with the rows of `grad` at those of the table that they were taken from.
Tensor embedding_rows_gradient(const Tensor& grad, const Tensor& indices, int64_t rows, int64_t padding_idx) {
  Tensor at = reshape(to(indices, DType::kInt64), {-1}), values = grad;
  if (padding_idx >= 0) {
    const Tensor kept = reshape(nonzero(ne(at, Scalar(padding_idx))), {-1});
    at = index_select(at, 0, kept);
    values = index_select(values, 0, kept);
  }
  return sparse::make_coo(IntVector{rows, grad.size(-1)}, contiguous(unsqueeze(at, 0)), contiguous(values), false);
}

}  // namespace

Tensor embedding_rows(const Tensor& weight, const Tensor& indices, SymInt, bool, bool) {
  TESSERA_CHECK(weight.dim() == 2, "'weight' must be 2-D, but got ", weight.dim(), "-D");
  check_indices(indices, "embedding");
  const Tensor rows = index_select(weight, 0, reshape(indices, {-1}));
  IntVector sizes = to_vector(indices.sizes());
  sizes.push_back(weight.sizes()[1]);
  const Tensor result = view(rows, IntList(sizes));
  result.impl()->set_view_base({}, ViewCreation::kDefault);  // nobody sees `rows`
  result.impl()->update_autograd_key();
  return result;
}

Tensor embedding_backward_composite(const Tensor& grad, const Tensor& indices, SymInt num_weights, SymInt padding_idx,
                                    bool scale_grad_by_freq, bool sparse) {
  if (sparse && !(grad_mode_enabled() && grad.requires_grad())) {  // whose gradient would be needed: dense
    TESSERA_CHECK(!scale_grad_by_freq, "embedding_backward: scale_grad_by_freq not supported with sparse gradients");
    return embedding_rows_gradient(reshape(grad, IntVector{indices.numel(), grad.size(-1)}), indices,
                                   num_weights.guard_int(), padding_idx.guard_int());
  }
  if (!grad.is_complex()) return embedding_dense_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq);
  // Rows of twice as many numbers.
  const Tensor table = embedding_dense_backward(flatten(view_as_real(resolve_conj(grad)), -2, -1), indices, num_weights,
                                                padding_idx, scale_grad_by_freq);
  const int64_t pairs[2] = {table.size(-1) / 2, 2};
  return view_as_complex(unflatten(table, -1, IntList(pairs)));
}

OutputSpec embedding_dense_backward_meta(const Tensor& grad_output, const Tensor& indices, SymInt num_weights, SymInt,
                                         bool) {
  check_indices(indices, "embedding_backward");
  const int64_t rows = num_weights.guard_int();
  TESSERA_CHECK(rows >= 0, "num_weights must not be negative, got ", rows);
  TESSERA_CHECK(grad_output.dim() == indices.dim() + 1, "expected a gradient of ", indices.dim() + 1,
                " dimensions for indices of shape ", shape_string(indices.sizes()), ", but got shape ",
                shape_string(grad_output.sizes()));
  TESSERA_CHECK(to_vector(grad_output.sizes().first(static_cast<size_t>(indices.dim()))) == to_vector(indices.sizes()),
                "the gradient's shape ", shape_string(grad_output.sizes()),
                " does not begin with that of the indices, ", shape_string(indices.sizes()));
  const int64_t sizes[2] = {rows, grad_output.size(-1)};
  return OutputSpec(grad_output, sizes);
}
void embedding_dense_backward_kernel(const Tensor& grad_output, const Tensor& indices, SymInt num_weights,
                                     SymInt padding_idx, bool scale_grad_by_freq, const Tensor& out) {
  const Tensor g = contiguous(grad_output), index = contiguous(to(indices, DType::kInt64));
  const ResultMemory target(out);
  TESSERA_ON(g.device(), embedding_backward)
  (g.dtype(), g.data_ptr(), index.data_ptr<int64_t>(), index.numel(), g.size(-1), num_weights.guard_int(),
   padding_idx.guard_int(), scale_grad_by_freq, target.data());
  target.finish();
}

const Tensor& embedding_renorm__kernel(const Tensor& self, const Tensor& indices, double max_norm, double norm_type) {
  TESSERA_CHECK(self.dim() == 2, "'self' must be 2-D, but got ", self.dim(), "-D");
  check_indices(indices, "embedding_renorm_");
  check_no_internal_overlap(self);
  if (indices.numel() == 0) return self;
  const int64_t dims[1] = {1};
  if (values_unknown(self)) {
    linalg_vector_norm(self, Scalar(norm_type), IntList(dims), true, std::nullopt);  // for its checks
    return self;
  }
  const Tensor rows = contiguous(to(std::get<0>(_unique2(reshape(indices, {-1}), true, false, false)), DType::kInt64));
  const Tensor values = index_select(self, 0, rows);
  const Tensor norms =
      to(linalg_vector_norm(values, Scalar(norm_type), IntList(dims), true, std::nullopt), DType::kFloat64);
  const Tensor too_long = gt(norms, Scalar(max_norm));
  const Tensor scale = to(mul(reciprocal(add(norms, Scalar(1e-7))), Scalar(max_norm)), values.dtype());
  index_put_inplace(self, {&rows, 1}, where(too_long, mul(values, scale), values),
                    false);  // counts no version: the caller does
  return self;
}

std::tuple<Tensor, Tensor, Tensor, Tensor> embedding_bag_composite(
    const Tensor& weight, const Tensor& indices, const Tensor& offsets, bool scale_grad_by_freq, int64_t mode,
    bool sparse, const Tensor& per_sample_weights, bool include_last_offset, std::optional<int64_t> padding_idx) {
  TESSERA_CHECK(weight.dim() == 2, "'weight' must be 2-D, but got ", weight.dim(), "-D");
  const int64_t rows = weight.sizes()[0];
  TESSERA_CHECK(!padding_idx || (*padding_idx >= -rows && *padding_idx < rows),
                "padding_idx must be within the number of embeddings, -", rows, " through ", rows - 1, ", but got ",
                padding_idx.value_or(0));
  const int64_t padding = !padding_idx ? -1 : *padding_idx < 0 ? *padding_idx + rows : *padding_idx;
  return _embedding_bag(weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
                        include_last_offset, padding);
}

namespace {

void check_bags(const Tensor& weight, const Tensor& indices, const Tensor& offsets, int64_t mode,
                const Tensor& per_sample_weights) {
  TESSERA_CHECK(weight.dim() == 2, "'weight' must be 2-D, but got ", weight.dim(), "-D");
  check_indices(indices, "embedding_bag");
  check_indices(offsets, "embedding_bag");
  TESSERA_CHECK(indices.device() == weight.device(), "Expected all tensors to be on the same device, but found at ",
                "least two devices, ", weight.device().str(), " and ", indices.device().str(), "! (in embedding_bag)");
  TESSERA_CHECK(indices.dim() == 1, "input has to be a 1D Tensor, but got Tensor of dimension ", indices.dim());
  TESSERA_CHECK(offsets.dim() == 1, "offsets has to be a 1D Tensor, but got Tensor of dimension ", offsets.dim());
  TESSERA_CHECK_NOT_IMPLEMENTED(is_floating_point(weight.dtype()), "\"embedding_bag\" not implemented for '",
                                type_name_of(weight.dtype()), "'");
  TESSERA_CHECK(mode >= 0 && mode <= 2, "mode has to be 0 (sum), 1 (mean) or 2 (max), but got ", mode);
  if (!per_sample_weights.defined()) return;
  TESSERA_CHECK(mode == 0, "embedding_bag: per_sample_weights only supported with mode='sum'");
  TESSERA_CHECK(per_sample_weights.dtype() == weight.dtype(),
                "expected per_sample_weights to have the same type as weight, ", name_of(weight.dtype()), ", but got ",
                name_of(per_sample_weights.dtype()));
  TESSERA_CHECK(per_sample_weights.dim() == 1 && per_sample_weights.numel() == indices.numel(),
                "expected per_sample_weights to have the shape of the input, but got ",
                shape_string(per_sample_weights.sizes()));
}
// Where the bags begin, and the end of the last one; checked.
IntVector bag_limits(const Tensor& offsets, int64_t bags, int64_t n) {
  const Tensor o = contiguous(to(offsets, Device(), DType::kInt64));
  const int64_t* p = o.data<int64_t>();
  if (o.numel() > 0)
    TESSERA_CHECK(p[0] == 0,
                  "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. "
                  "However, got ",
                  p[0]);
  IntVector limits(p, p + o.numel());
  if (o.numel() == bags) limits.push_back(bags > 0 ? n : 0);
  for (size_t i = 1; i < limits.size(); ++i) {
    TESSERA_CHECK(limits[i] >= limits[i - 1] && limits[i] <= n,
                  "offsets has to be non-decreasing and its last entry can not be greater than input's length ", n);
  }
  return limits;
}
Tensor int64_array(IntList sizes, Device device) { return empty_tensor(sizes, {}, DType::kInt64, device); }

}  // namespace

std::tuple<Tensor, Tensor, Tensor, Tensor> _embedding_bag_meta(const Tensor& weight, const Tensor& indices,
                                                               const Tensor& offsets, bool, int64_t mode, bool,
                                                               const Tensor& per_sample_weights,
                                                               bool include_last_offset, int64_t) {
  check_bags(weight, indices, offsets, mode, per_sample_weights);
  TESSERA_CHECK(!include_last_offset || offsets.numel() >= 1,
                "include_last_offset: number of offset should be at least 1");
  const int64_t bags = offsets.numel() - (include_last_offset ? 1 : 0);
  const IntVector shape{bags, weight.sizes()[1]}, one{bags};
  const Device device = weight.device();
  return {empty_tensor(shape, {}, weight.dtype(), device), int64_array(indices.sizes(), device),
          int64_array(one, device), int64_array(mode == 2 ? shape : one, device)};
}
std::tuple<Tensor, Tensor, Tensor, Tensor> _embedding_bag_kernel(const Tensor& weight, const Tensor& indices,
                                                                 const Tensor& offsets, bool scale_grad_by_freq,
                                                                 int64_t mode, bool sparse,
                                                                 const Tensor& per_sample_weights,
                                                                 bool include_last_offset, int64_t padding_idx) {
  const auto results = _embedding_bag_meta(weight, indices, offsets, scale_grad_by_freq, mode, sparse,
                                           per_sample_weights, include_last_offset, padding_idx);
  const auto& [out, bag_of, sizes, places] = results;
  const int64_t bags = out.sizes()[0], n = indices.numel();
  const Tensor index = contiguous(to(indices, DType::kInt64)), table = contiguous(weight),
               scale = per_sample_weights.defined() ? contiguous(per_sample_weights) : Tensor();
  if (!weight.is_cpu()) {
    const Tensor begin = contiguous(to(offsets, weight.device(), DType::kInt64));
    const auto engine = nn::EmbeddingEngines::of(internal::select_device(weight.device(), "embedding_bag"));
    TESSERA_CHECK_NOT_IMPLEMENTED(engine.embedding_bag, "_embedding_bag: there is no kernel for ",
                                  weight.device().str());
    engine.embedding_bag({table.dtype(), static_cast<cpu::BagMode>(mode), bags, n, table.sizes()[1], table.sizes()[0],
                          padding_idx, begin.numel() > bags, index.data_ptr<int64_t>(), begin.data_ptr<int64_t>(),
                          table.data_ptr(), scale.defined() ? scale.data_ptr() : nullptr, out.data_ptr(),
                          bag_of.data_ptr<int64_t>(), sizes.data_ptr<int64_t>(), places.data_ptr<int64_t>()});
    return results;
  }
  const IntVector limits = bag_limits(offsets, bags, n);
  // The bag of each index; -1 for those behind the last bag.
  int64_t* number = bag_of.data<int64_t>();
  for (int64_t b = 0; b < bags; ++b) std::fill(number + limits[b], number + limits[b + 1], b);
  std::fill(number + limits[bags], number + n, int64_t{-1});
  TESSERA_CHECK(cpu::indices_within(index.data<int64_t>(), n, weight.sizes()[0]),
                "embedding_bag: Expected idx >= 0 && idx < num_embeddings for each index, where num_embeddings is ",
                weight.sizes()[0]);
  if (mode != 2) std::fill(places.data<int64_t>(), places.data<int64_t>() + bags, int64_t{0});
  cpu::embedding_bag_forward(table.dtype(), static_cast<cpu::BagMode>(mode),
                             {bags, index.data<int64_t>(), limits.data(), padding_idx}, table.sizes()[1],
                             table.data_ptr(), scale.defined() ? scale.data_ptr() : nullptr, out.data_ptr(),
                             sizes.data<int64_t>(), mode == 2 ? places.data<int64_t>() : nullptr);
  return results;
}

Tensor one_hot_composite(const Tensor& given, int64_t num_classes) {
  const Tensor& self = with_one_value(given);
  TESSERA_CHECK(self.dtype() == DType::kInt64,
                "one_hot is only applicable to index tensor of type LongTensor, but got ", type_name_of(self.dtype()));
  IntVector sizes = to_vector(self.sizes());
  if (self.numel() == 0) {
    TESSERA_CHECK(num_classes > 0, "Can not infer total number of classes from empty tensor.");
    sizes.push_back(num_classes);
    return zeros(IntList(sizes), DType::kInt64, std::nullopt, self.device());
  }
  TESSERA_CHECK(num_classes == -1 || num_classes >= 1, "num_classes should be positive, got ", num_classes);
  // Where the number is given, a device needs no wait: what writes the ones looks at the classes.
  if (!self.is_meta() && (num_classes == -1 || (self.is_cpu() && !values_unknown(self) && !is_transformed(self)))) {
    TESSERA_CHECK(item(min(self)).to_int() >= 0, "Class values must be non-negative.");
    const int64_t largest = item(max(self)).to_int();
    if (num_classes == -1) num_classes = largest + 1;
    TESSERA_CHECK(largest < num_classes, "Class values must be smaller than num_classes.");
  }
  TESSERA_CHECK(num_classes >= 1, "one_hot needs num_classes for a tensor without values");
  sizes.push_back(num_classes);
  if (self.is_cpu() && !values_unknown(self) && !is_transformed(self)) {
    const Tensor index = contiguous(self), out = empty_tensor(IntList(sizes), {}, DType::kInt64, self.device());
    cpu::one_hot(index.data<int64_t>(), index.numel(), num_classes, out.data<int64_t>());
    return out;
  }
  const Tensor none = zeros(IntList(sizes), DType::kInt64, std::nullopt, self.device());
  if (is_transformed(self)) return none.scatter(-1, unsqueeze(self, -1), Scalar(1));
  return none.scatter_(-1, unsqueeze(self, -1), Scalar(1));
}

}  // namespace tessera::kernels
